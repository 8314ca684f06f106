"""A CUDA graph of a range of steps, built node by node, so that node -> launch -> step is known.

Nodes follow one another. A call of a library is a node too: a graph of its own, of whatever the
library launches. When pointers change between runs, the nodes that hold them are set anew;
sizes that change need a graph of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver, EdgeData, KernelNode
from glasshouse.backend.cuda.installed_library import LibraryCall
from glasshouse.backend.cuda.installed_library import begin as begin_call
from glasshouse.backend.cuda.launch import CONTEXT
from glasshouse.backend.cuda.tensor_map import CELLS
from glasshouse.errors import LibraryRefused

Array = np.ndarray[Any, Any]
_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED: a library may load code for its first call meanwhile."""


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
    maps: int = 0  # tensor maps, the last of its arguments
    library: LibraryCall | None = None  # what is called instead of a function


def parameters_at(base: int, begin: int, end: int, maps: int) -> Any:
    """Pointers to the arguments of a launch: the context is one of several cells, as a map is."""
    plain = end - maps * CELLS
    cells = [begin, *range(begin + CONTEXT, plain), *range(plain, end, CELLS)]
    return (ctypes.c_void_p * len(cells))(*[base + 8 * c for c in cells])


class StepGraph:
    """An executable graph of nodes in order."""

    def __init__(
        self,
        cuda: Driver,
        nodes: Sequence[LaunchNode],
        cells: Array,
        overlapping: bool = False,
    ) -> None:
        """`overlapping`: a kernel is placed on the chip while the one before it ends."""
        self.driver = cuda
        self.pointers: object = None
        self._overlapping = overlapping
        self.nodes = list(nodes)
        self.known = cells.copy()
        graph = cuda.address("cuGraphCreate", 0)
        self._handles: list[int] = []
        overlaps = False  # whether a kernel may begin before the node before it has ended
        for node in self.nodes:
            before = self._handles[-1] if self._handles else 0
            if node.library is not None:
                self._handles.append(self._add_call(graph, before, node))
            else:
                made = self._add(graph, before, self._described(node), overlaps)
                self._handles.append(made)
            overlaps = overlapping and node.library is None
        self.executable = cuda.address("cuGraphInstantiateWithFlags", graph, 0)
        self._graph = graph
        self._begins = np.array([node.cells[0] for node in self.nodes], np.int64)

    def _add(self, graph: int, before: int, described: KernelNode, overlaps: bool) -> int:
        kind, what = "cuGraphAddKernelNode_v2", ctypes.byref(described)
        if before and overlaps:
            node = self.driver.address(kind, graph, None, 0, what)
            edge = EdgeData(from_port=1, type=1)
            ends = (ctypes.c_void_p * 1)(before), (ctypes.c_void_p * 1)(node)
            self.driver.call("cuGraphAddDependencies_v2", graph, *ends, ctypes.byref(edge), 1)
            return node
        after = (ctypes.c_void_p * 1)(before)
        return self.driver.address(kind, graph, after if before else None, int(before != 0), what)

    def _add_call(self, graph: int, before: int, node: LaunchNode) -> int:
        """The graph of a library's call as a node; the driver copies it."""
        after = (ctypes.c_void_p * 1)(before)
        inside = self._captured(node, self.known)
        try:
            return self.driver.address(
                "cuGraphAddChildGraphNode", graph, after if before else None, int(before != 0),
                inside,
            )  # fmt: skip
        finally:
            self.driver.call("cuGraphDestroy", inside)

    def _captured(self, node: LaunchNode, cells: Array) -> int:
        """What a library launches, as a graph."""
        assert node.library is not None
        begin, end = node.cells
        arguments = cells[begin + CONTEXT : end].tolist()
        made = ctypes.c_void_p()
        stream = self.driver.address("cuStreamCreate", 1)
        try:
            self.driver.call("cuStreamBeginCapture_v2", stream, _RELAXED)
            try:
                begin_call(node.library, arguments, stream)
            except LibraryRefused as error:
                error.step = node.step
                cuda: Any = self.driver  # what the capture says now is of no interest
                if not cuda.cuStreamEndCapture(stream, ctypes.byref(made)) and made.value:
                    self.driver.call("cuGraphDestroy", made)
                raise
            self.driver.call("cuStreamEndCapture", stream, ctypes.byref(made))
        finally:
            self.driver.call("cuStreamDestroy_v2", stream)
        return made.value or 0

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
        self.pointers = None
        changed = np.flatnonzero(cells != self.known)
        # Cells of nodes lie one behind the other; those before the first are other steps'.
        for at in np.unique(np.searchsorted(self._begins, changed, "right") - 1).tolist():
            if at < 0:
                continue
            node, handle = self.nodes[at], self._handles[at]
            if node.library is not None:
                inside = self._captured(node, cells)
                self.driver.call(
                    "cuGraphExecChildGraphNodeSetParams", self.executable, handle, inside
                )
                self.driver.call("cuGraphDestroy", inside)
            else:
                described = self._described(node)
                self.driver.call(
                    "cuGraphExecKernelNodeSetParams_v2", self.executable, handle,
                    ctypes.byref(described),
                )  # fmt: skip
        self.known[:] = cells

    def handles(self) -> list[tuple[str, int]]:
        """What the driver made, with the function that frees each."""
        return [("cuGraphDestroy", self._graph), ("cuGraphExecDestroy", self.executable)]

    def launch(self, stream: int) -> None:
        self.driver.call("cuGraphLaunch", self.executable, stream)
