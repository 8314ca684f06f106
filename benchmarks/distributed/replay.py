"""The scheduler of `glasshouse tune`, replayed for clusters that are not here.

    python benchmarks/distributed/replay.py --nodes 10,100,1000

The driver and the scheduler are the real ones. Tasks take the times that were recorded in notes of
real tasks (task_times.json; --notes FOLDER reads those of a cache instead), drawn at random. A
clock that is only counted goes on when tasks end; what the driver computes is measured and goes
onto that clock, too, and so does what it waits for the store (--store-ms for a note: 0.1 is a
folder, 20 an object store; as many at a time as the driver asks for). What is not replayed: the
network, Ray itself, and machines that share a disk.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glasshouse.distributed import drive
from glasshouse.distributed.schedule import Scheduler, WorkerNode
from glasshouse.distributed.task import AT_ONCE, PLAN, Task

HERE = Path(__file__).parent


class ReplayedCluster:
    """Nodes that do nothing: a task ends when its recorded time is over on the counted clock."""

    def __init__(self, nodes: int, slots: int, times: dict[str, list[float]], problems: int,
                 dies: float, slow: float, dice: random.Random) -> None:  # fmt: skip
        self.now, self.busy, self.lost = 0.0, 0.0, 0
        self._nodes = [WorkerNode(f"n{i}", "zen", slots) for i in range(nodes)]
        self._slow = {n.id for n in self._nodes[: int(nodes * slow)]}  # five times slower
        self._times, self._problems, self._dies, self._dice = times, problems, dies, dice
        self._ends: list[tuple[float, int, Task]] = []
        self._order = itertools.count()
        self._left = time.process_time()

    def nodes(self) -> list[WorkerNode]:
        return self._nodes

    def submit(self, task: Task, node: WorkerNode) -> None:
        seconds = self._dice.choice(self._times[task.kind]) * (5 if node.id in self._slow else 1)
        self.busy += seconds * (node.slots if task.alone else 1)
        heapq.heappush(self._ends, (self.now + seconds, next(self._order), task))

    def wait(self) -> list[tuple[Task, dict[str, Any] | None]]:
        """All that ended while the driver was busy, or what ends next."""
        self.now += time.process_time() - self._left
        self.now = max(self.now, self._ends[0][0])
        out: list[tuple[Task, dict[str, Any] | None]] = []
        while self._ends and self._ends[0][0] <= self.now:
            task = heapq.heappop(self._ends)[2]
            died = self._dice.random() < self._dies
            self.lost += died
            out.append((task, None if died else {"result": self._result(task)}))
        self._left = time.process_time()
        return out

    def changes(self) -> tuple[list[WorkerNode], list[str]]:
        return [], []

    def close(self) -> None:
        pass

    def _result(self, task: Task) -> dict[str, Any]:
        own = [json.dumps({"key": f"{task.model} conv {i}"}) for i in range(self._problems)]
        return {"problems": own, "taken": "", "nodes": 1, "kernels": 1}


def replay(nodes: int, args: argparse.Namespace, times: dict[str, list[float]]) -> str:
    dice = random.Random(args.seed)
    cluster = ReplayedCluster(nodes, args.slots, times, args.problems, args.dies, args.slow, dice)

    def looked_for(tasks: Sequence[Task]) -> list[None]:
        cluster.now += args.store_ms / 1e3 * -(-len(tasks) // args.at_once)
        return [None] * len(tasks)

    drive.notes_of = looked_for  # type: ignore[assignment]  # nothing is known before
    driver = drive._Drive(Scheduler(cluster.nodes(), tries=10), cluster, None)
    begin = time.process_time()
    for i in range(args.models):
        driver.add(Task(PLAN, "zen", f"model{i}"))
    driver.run()
    cpu = time.process_time() - begin
    tasks = args.models * (args.problems + 2)
    assert driver._done == tasks, "a task was lost, or done twice"
    used = cluster.busy / (nodes * args.slots * cluster.now)
    return (f"{nodes:>6} {tasks:>7} {cluster.now:>9.1f} {used:>7.0%} {cpu:>9.1f} "
            f"{1e6 * cpu / tasks:>10.0f} {cluster.lost:>6}")  # fmt: skip


def recorded(folder: Path | None) -> dict[str, list[float]]:
    if folder is None:
        found: dict[str, list[float]] = json.loads((HERE / "task_times.json").read_text())
        return found
    found = {}
    for path in folder.rglob("task-*.json"):
        note = json.loads(path.read_text())
        found.setdefault(note["kind"], []).append(note["processor_seconds"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="10,100,1000")
    parser.add_argument("--slots", type=int, default=8, help="builds at a time on a node")
    parser.add_argument("--models", type=int, default=4000)
    parser.add_argument("--problems", type=int, default=10, help="measurements of a model")
    parser.add_argument("--dies", type=float, default=0.01, help="share of tasks that are lost")
    parser.add_argument("--slow", type=float, default=0.0, help="share of nodes, 5 times slower")
    parser.add_argument("--store-ms", type=float, default=0.1)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="notes that are asked for")
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    times = recorded(args.notes)
    for kind, found in times.items():
        print(f"{kind}: {len(found)} recorded, {sum(found) / len(found):.2f} s in the mean")
    print(f"{'nodes':>6} {'tasks':>7} {'seconds':>9} {'used':>7} {'driver s':>9} "
          f"{'µs a task':>10} {'lost':>6}")  # fmt: skip
    for nodes in map(int, args.nodes.split(",")):
        print(replay(nodes, args, times), flush=True)


if __name__ == "__main__":
    main()
