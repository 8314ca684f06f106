"""A CUDA graph of a range of steps, built node by node, so that node -> launch -> step is known.

Nodes follow one another. When pointers change between runs, the nodes that hold them are set anew;
sizes that change need a graph of their own. With `timed`, an event is recorded before each step and
behind the last, and kernels do not overlap.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver, EdgeData, KernelNode

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LaunchNode:
    """One launch of a step: its function, grid, and which cells hold its arguments."""

    step: int
    function: int
    grid: tuple[int, int, int]
    threads: int
    shared: int
    parameters: int  # address of the array of pointers to arguments
    cells: tuple[int, int]  # range of the cells that may change


class StepGraph:
    """An executable graph of nodes in order."""

    def __init__(
        self,
        cuda: Driver,
        nodes: Sequence[LaunchNode],
        cells: Array,
        timed: bool = False,
        overlapping: bool = False,
    ) -> None:
        """`overlapping`: a kernel is placed on the chip while the one before it ends."""
        self.driver = cuda
        self._overlapping = overlapping and not timed
        self.nodes = list(nodes)
        self.known = cells.copy()
        self.events: dict[int, int] = {}  # by step: the event before it
        self.last_event = 0
        graph = cuda.address("cuGraphCreate", 0)
        before = 0
        self._handles: list[int] = []
        for node in self.nodes:
            if timed and node.step not in self.events:
                self.events[node.step] = cuda.address("cuEventCreate", 0)
                before = self._add(
                    graph, "cuGraphAddEventRecordNode", before, self.events[node.step]
                )
            described = self._described(node)
            before = self._add(graph, "cuGraphAddKernelNode_v2", before, ctypes.byref(described))
            self._handles.append(before)
        if timed:
            self.last_event = cuda.address("cuEventCreate", 0)
            self._add(graph, "cuGraphAddEventRecordNode", before, self.last_event)
        self._executable = cuda.address("cuGraphInstantiateWithFlags", graph, 0)
        self._graph = graph

    def _add(self, graph: int, kind: str, before: int, what: Any) -> int:
        if before and self._overlapping:
            node = self.driver.address(kind, graph, None, 0, what)
            edge = EdgeData(from_port=1, type=1)
            ends = (ctypes.c_void_p * 1)(before), (ctypes.c_void_p * 1)(node)
            self.driver.call("cuGraphAddDependencies_v2", graph, *ends, ctypes.byref(edge), 1)
            return node
        after = (ctypes.c_void_p * 1)(before)
        return self.driver.address(kind, graph, after if before else None, int(before != 0), what)

    def _described(self, node: LaunchNode) -> KernelNode:
        made = KernelNode()
        made.function = node.function
        made.grid[:] = node.grid
        made.block[:] = (node.threads, 1, 1)
        made.shared = node.shared
        made.parameters = node.parameters
        return made

    def follow(self, cells: Array) -> None:
        """Take over pointers that have changed; the cells hold the new ones already."""
        changed = np.flatnonzero(cells != self.known)
        if not changed.size:
            return
        for node, handle in zip(self.nodes, self._handles, strict=True):
            begin, end = node.cells
            if np.any((changed >= begin) & (changed < end)):
                described = self._described(node)
                self.driver.call(
                    "cuGraphExecKernelNodeSetParams_v2", self._executable, handle,
                    ctypes.byref(described),
                )  # fmt: skip
        self.known[:] = cells

    def handles(self) -> list[tuple[str, int]]:
        """What the driver made, with the function that frees each."""
        events = [e for e in (*self.events.values(), self.last_event) if e]
        whole = [("cuGraphDestroy", self._graph), ("cuGraphExecDestroy", self._executable)]
        return [*(("cuEventDestroy_v2", e) for e in events), *whole]

    def launch(self, stream: int) -> None:
        self.driver.call("cuGraphLaunch", self._executable, stream)

    def seconds(self) -> dict[int, float]:
        """Of each step in the last launch, which has ended: from its event to the next one."""
        steps = list(self.events)
        marks = [*self.events.values(), self.last_event]
        out: dict[int, float] = {}
        for i, step in enumerate(steps):
            passed = ctypes.c_float()
            self.driver.call("cuEventElapsedTime", ctypes.byref(passed), marks[i], marks[i + 1])
            out[step] = passed.value * 1e-3
        return out
