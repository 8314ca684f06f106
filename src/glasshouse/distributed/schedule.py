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
        for node in nodes:
            self.join(node)

    def join(self, node: WorkerNode) -> None:
        """A machine that can be used from now on."""
        self.nodes[node.id] = node

    def leave(self, id: str) -> list[Task]:
        """A machine is gone; what ran there waits again."""
        node = self.nodes.pop(id)
        lost = list(node.running)
        for task in lost:
            self.lost(task, f"machine {id} is gone")
        if node.kept_for is not None:
            self._queue(node.kept_for).appendleft(node.kept_for)
        return lost

    def add(self, task: Task) -> None:
        self._queue(task).append(task)

    @property
    def waits(self) -> bool:
        """Whether there is anything left to do or to wait for."""
        kept = any(n.kept_for is not None for n in self.nodes.values())
        return bool(self.place) or kept or any(self._waiting.values())

    def assign(self) -> list[tuple[Task, WorkerNode]]:
        """Tasks to start now, each with its machine."""
        out: list[tuple[Task, WorkerNode]] = []
        for node in self.nodes.values():
            if node.kept_for is None and not any(t.alone for t in node.running):
                node.kept_for = self._next(node, alone=True)
            if node.kept_for is not None:
                if not node.running:
                    out.append((node.kept_for, node))
                    self._start(node.kept_for, node)
                    node.kept_for = None
                continue
            while node.free > 0 and (task := self._next(node, alone=False)) is not None:
                out.append((task, node))
                self._start(task, node)
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
