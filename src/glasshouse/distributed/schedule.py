"""Which task runs on which machine, and when: a measurement alone, builds beside each other.

It does nothing itself and reads no clock: who runs tasks asks for assignments and tells what became
of them. So the same scheduler is replayed with recorded times for clusters that are not here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from glasshouse.distributed.task import Task


@dataclass
class WorkerNode:
    """A machine with room for some tasks at a time."""

    id: str
    hardware: str
    slots: int
    running: set[Task] = field(default_factory=set)
    kept_for: Task | None = None  # a measurement that waits until nothing runs here

    @property
    def free(self) -> int:
        if self.kept_for is not None or any(t.alone for t in self.running):
            return 0
        return self.slots - len(self.running)


class Scheduler:
    """Tasks that wait, by the hardware that they need, and machines that have room."""

    def __init__(self, nodes: Iterable[WorkerNode] = (), tries: int = 4) -> None:
        """A task is given up after so many tries."""
        self.nodes: dict[str, WorkerNode] = {}
        self.place: dict[Task, WorkerNode] = {}
        self.failed: dict[Task, str] = {}
        self._tries = tries
        self._tried: dict[Task, int] = {}
        self._waiting: dict[tuple[str, bool], deque[Task]] = {}  # by hardware, alone
        # Machines that might take a task now, in order: with 1,000 of them, looking at all after
        # every task is what the driver would spend its time on.
        self._open: dict[str, None] = {}
        self._kept: dict[str, None] = {}  # machines that empty for a measurement
        for node in nodes:
            self.join(node)

    def join(self, node: WorkerNode) -> None:
        """A machine that can be used from now on."""
        self.nodes[node.id] = node
        self._open[node.id] = None

    def leave(self, id: str) -> list[Task]:
        """A machine is gone; what ran there waits again."""
        node = self.nodes.pop(id)
        self._open.pop(id, None)
        lost = list(node.running)
        for task in lost:
            self.lost(task, f"machine {id} is gone")
        if node.kept_for is not None:
            del self._kept[id]
            self._queue(node.kept_for).appendleft(node.kept_for)
        return lost

    def add(self, task: Task) -> None:
        self._queue(task).append(task)

    @property
    def waits(self) -> bool:
        """Whether there is anything left to do or to wait for."""
        return bool(self.place) or bool(self._kept) or any(self._waiting.values())

    def assign(self) -> list[tuple[Task, WorkerNode]]:
        """Tasks to start now, each with its machine."""
        out: list[tuple[Task, WorkerNode]] = []
        for id in list(self._open):
            node = self.nodes[id]
            if node.kept_for is None and not any(self._waiting.values()):
                continue
            if node.kept_for is None and (task := self._next(node, alone=True)) is not None:
                node.kept_for = task
                self._kept[id] = None
            if node.kept_for is None:
                while node.free > 0 and (task := self._next(node, alone=False)) is not None:
                    out.append((task, node))
                    self._start(task, node)
            elif not node.running:
                out.append((node.kept_for, node))
                self._start(node.kept_for, node)
                node.kept_for = None
                del self._kept[id]
            if node.free <= 0:
                del self._open[id]
        return out

    def done(self, task: Task) -> None:
        """A task ended; its place is free."""
        self._left(task)

    def lost(self, task: Task, why: str) -> bool:
        """A task came to nothing; whether it is tried again."""
        self._left(task)
        self._tried[task] = self._tried.get(task, 0) + 1
        if self._tried[task] >= self._tries:
            self.failed[task] = why
            return False
        self._queue(task).appendleft(task)
        return True

    def refuse(self, task: Task, why: str) -> None:
        """A task that would fail again: it is not tried again."""
        self._left(task)
        self.failed[task] = why

    def stuck(self) -> list[Task]:
        """Tasks that no machine of those that are there can ever do."""
        there = {n.hardware for n in self.nodes.values()}
        return [t for (hardware, _), q in self._waiting.items() for t in q
                if hardware not in there and (hardware or not there)]  # fmt: skip

    def _queue(self, task: Task) -> deque[Task]:
        return self._waiting.setdefault((task.hardware, task.alone), deque())

    def _next(self, node: WorkerNode, alone: bool) -> Task | None:
        for hardware in (node.hardware, ""):
            queue = self._waiting.get((hardware, alone))
            if queue:
                return queue.popleft()
        return None

    def _start(self, task: Task, node: WorkerNode) -> None:
        node.running.add(task)
        self.place[task] = node

    def _left(self, task: Task) -> None:
        node = self.place.pop(task, None)
        if node is not None:
            node.running.discard(task)
            if node.id in self.nodes and (node.kept_for is None or not node.running):
                self._open[node.id] = None
