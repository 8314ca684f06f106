"""A program on one GPU: its modules, its launches with their arguments, its graphs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from glasshouse.backend.cuda.device import Gpu
from glasshouse.backend.cuda.driver import Owned
from glasshouse.backend.cuda.graph import LaunchNode, StepGraph, parameters_at
from glasshouse.backend.cuda.installed_library import LibraryCall
from glasshouse.backend.cuda.launch import CONTEXT
from glasshouse.backend.cuda.launch_times import LaunchTimes, StepTime
from glasshouse.backend.cuda.library_calls import library_call
from glasshouse.backend.cuda.sizes import dim_value
from glasshouse.backend.cuda.started import REMEMBERED, StartedSteps
from glasshouse.backend.cuda.tensor_map import CELLS, encoded
from glasshouse.backend.cuda.ways import Succession, file_of, read, timed, write
from glasshouse.errors import LibraryRefused

Array = np.ndarray[Any, Any]
_MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
OVERLAP = 90
"""Compute capability, times ten, from which kernels of a graph can overlap at their ends."""
_OVERLAPS = "GLASSHOUSE_OVERLAP"
"""A variable of the environment: "1", they do, "0", they do not. Otherwise it is measured: on an
H200 it brings 8 % for an MLP of one row and costs 25 % for ResNet-18 of one image."""
_POINTERS = 2
"""Graphs for the same steps and sizes: variables that change by turns have two sets of pointers.
Those with calls of libraries, which are captured anew for other pointers, are `REMEMBERED`."""
_GRAPHS = 256
"""Graphs that are kept: one for each range of steps and size. A training step of ResNet-18 has 60
ranges, with gradients that PyTorch computes between them."""


def function_of(device: Gpu, module: int, name: str, shared: int) -> int:
    """A function of a loaded module that may ask for so much shared memory: unasked it has 48 KB,
    less what it declares itself."""
    cuda = device.driver
    function = cuda.address("cuModuleGetFunction", module, name.encode())
    if shared:
        cuda.call("cuFuncSetAttribute", function, _MOST_SHARED, shared)
    return function


Started = StepGraph | StartedSteps


class Loaded:
    """The modules of a program on one GPU, and the cells that hold arguments of launches."""

    def __init__(
        self, device: Gpu, plan: Mapping[str, Any], cubins: Mapping[str, bytes], program: str
    ) -> None:
        """`program` stands for plan and cubins."""
        self.device = device
        self._program = program
        device.enter()
        self.plan = plan
        owned = Owned(self, device.driver, device.context)
        self._functions: dict[str, list[int]] = {}
        self._calls: dict[str, list[LibraryCall | None]] = {}  # of launches that are a library's
        for name, kernel in plan["kernels"].items():
            module = device.driver.address("cuModuleLoadData", cubins[name])
            owned.take("cuModuleUnload", module)
            self._functions[name] = [
                function_of(device, module, x["function"], x["shared"]) if x["function"] else 0
                for x in kernel["launches"]
            ]
            try:
                self._calls[name] = [
                    library_call(x["library"]) if "library" in x else None
                    for x in kernel["launches"]
                ]
            except LibraryRefused as error:
                error.step = next(number for number, of, _ in plan["steps"] if of == name)
                raise
        self.flag, self.flag_there = device.pinned(64)
        owned.take("cuMemFreeHost", self.flag)
        self._owned = owned
        self._graphs: dict[Any, list[StepGraph]] = {}
        self._moving: dict[Any, StartedSteps] = {}  # where memory is another in every run
        self._ways: dict[Any, Succession] = {}  # by range of steps and sizes
        self.timed: dict[Succession, float] = {}  # seconds of a whole run in each way
        self.last: Started | None = None  # that was launched; None: nothing was to be done
        self._counters, self._counter_count = 0, 0
        self._layout()

    def _layout(self) -> None:
        """Cells of 8 bytes for every launch: its context, work, pointers, sizes, maps."""
        self._launches: list[tuple[int, Mapping[str, Any], int, tuple[int, int]]] = []
        self._library: list[LibraryCall | None] = []  # that a launch is a call of
        table: list[tuple[int, int]] = []
        behind: list[int] = []  # bytes behind what the table points to
        arena: list[tuple[int, int]] = []
        steps: list[tuple[int, int]] = []
        sized: list[tuple[int, str]] = []
        self._maps: list[tuple[int, int, Mapping[str, Any]]] = []  # its cells, its address's cell
        at = 0
        for number, name, places in self.plan["steps"]:
            kernel = self.plan["kernels"][name]
            for launch, function, call in zip(
                kernel["launches"], self._functions[name], self._calls[name], strict=True
            ):
                begin = at
                steps.append((at + 2, number))
                arena.append((at + CONTEXT, self.plan["work"]))
                at += CONTEXT + 1
                for where, place, *further in places:
                    if where == "table":
                        behind.append(sum(further))
                    if where != "unread":
                        (table if where == "table" else arena).append((at, place))
                    at += 1
                for symbol in kernel["symbols"]:
                    sized.append((at, symbol))
                    at += 1
                for described in launch["maps"]:
                    self._maps.append((at, begin + CONTEXT + described["argument"], described))
                    at += CELLS
                self._launches.append((number, launch, function, (begin, at)))
                self._library.append(call)
        self.cells = np.zeros(max(at, 1), np.uint64)
        self._times_at = np.array(
            [cells[0] + CONTEXT - 1 for *_, cells in self._launches], np.int64
        )
        self._times = LaunchTimes(
            self.device,
            self._owned,
            [step for step, *_ in self._launches],
            [x is not None for x in self._library],
        )
        base = self.cells.ctypes.data
        self._parameters: list[Any] = []
        for _, launch, _, (begin, end) in self._launches:
            self._parameters.append(parameters_at(base, begin, end, len(launch["maps"])))
            self.cells[begin] = self.flag_there
        self._map_from = np.array([source for _, source, _ in self._maps], np.int64)
        self._mapped: tuple[Any, Array] = ((), np.zeros(len(self._maps), np.uint64))
        self._table_at, self._table_from = _columns(table)
        self._behind = np.array(behind, np.uint64)
        self._arena_at, self._arena_from = _columns(arena)
        for cell, number in steps:
            self.cells[cell] = number
        self._sized = sized

    def settle(self, table: int, arena: int, sizes: int, steps: int) -> None:
        """Find out whether the kernels of a whole run are to overlap at their ends."""
        where = (0, steps, tuple(self._numbers(sizes)))
        forced = os.environ.get(_OVERLAPS) in ("0", "1")
        if where in self._ways or forced or self.device.capability < OVERLAP:
            return
        file = file_of(self.device, self._program, where)
        seconds = read(file)
        if seconds is None:
            started: dict[Succession, Started] = {}
            for way in Succession:
                run = self.start(table, arena, sizes, 0, steps, way=way)
                if run is None:
                    return
                started[way] = run
            seconds = timed(self.device, started)
            write(file, seconds)
        self._ways[where] = min(seconds, key=lambda way: seconds[way])
        self.timed = seconds

    def _numbers(self, sizes: int) -> list[int]:
        names = self.plan["symbols"]
        return memory_at(sizes, len(names), np.dtype(np.int64)).tolist() if names else []

    def start(
        self,
        table: int,
        arena: int,
        sizes: int,
        begin: int,
        end: int,
        timed: bool = False,
        way: Succession | None = None,
    ) -> Started | None:
        """Fill in the arguments and launch the graph of a range of steps."""
        self.device.enter()
        pointers = memory_at(table, self.plan["places"], np.dtype(np.uint64))
        cells = self.cells
        cells[self._table_at] = pointers[self._table_from] + self._behind
        cells[self._arena_at] = self._arena_from + np.uint64(arena)
        cells[self._times_at] = self._times.places if timed else 0
        numbers = self._numbers(sizes)
        known = dict(zip(self.plan["symbols"], numbers, strict=True))
        for cell, symbol in self._sized:
            cells[cell] = known[symbol]
        if self._maps:
            self._encode_maps(known)
        where = (begin, end, tuple(numbers))
        if way is None:
            usual = Succession.OVERLAPPING if os.environ.get(_OVERLAPS) == "1" else Succession.APART
            way = self._ways.get(where, usual)
        key = (where, timed, way)
        graph = self.last = self._graph(key, known, begin, end)
        if graph is None:
            return None
        if timed:
            self._times.clear()
        graph.launch(self.device.stream)
        return graph

    def _graph(self, key: Any, sizes: Mapping[str, int], begin: int, end: int) -> Started | None:
        """The graph for a key and the pointers in the cells: one of those that are kept, the oldest
        of them set to these pointers, or a new one; none but the steps themselves while libraries'
        memory moves."""
        kept = self._graphs.get(key, [])
        same = next((g for g in kept if np.array_equal(g.known, self.cells)), None)
        if same is not None:
            return same
        calls = bool(kept) and any(node.library is not None for node in kept[0].nodes)
        if len(kept) == (REMEMBERED if calls else _POINTERS):
            moved = self._moved(key, kept[0])
            if moved is not None:
                return moved
            kept.append(kept.pop(0))
            kept[-1].follow(self.cells)
            return kept[-1]
        _, timed, way = key
        nodes = self._nodes(sizes, begin, end, timed)
        if not nodes:
            return None
        if len(self._graphs) >= _GRAPHS:
            oldest = next(iter(self._graphs))
            self._graphs.pop(oldest)
            self._moving.pop(oldest, None)
        overlapping = way is Succession.OVERLAPPING and self.device.capability >= OVERLAP
        graph = StepGraph(self.device.driver, nodes, self.cells, overlapping)
        owned = Owned(graph, self.device.driver, self.device.context)
        for free, handle in graph.handles():
            owned.take(free, handle)
        self._graphs.setdefault(key, []).append(graph)
        return graph

    def _moved(self, key: Any, graph: StepGraph) -> StartedSteps | None:
        """The steps of a graph with calls of libraries, on other memory; None where a graph should
        follow: it has none, is timed, or many of the last runs used the same memory."""
        timed = key[1]
        if timed or all(node.library is None for node in graph.nodes):
            return None
        moving = self._moving.get(key)
        if moving is None:
            moving = StartedSteps(self.device.driver, graph.nodes, self.cells)
            self._moving[key] = moving
        if moving.comes_often(self.cells):
            return None
        moving.follow(self.cells)
        return moving

    def taken(self) -> Started | None:
        """The graph that was launched last, for whoever launches it again: no other run changes
        its pointers from now on. None where there was nothing to launch."""
        graph = self.last
        self._moving = {key: x for key, x in self._moving.items() if x is not graph}
        for kept in self._graphs.values():
            kept[:] = [g for g in kept if g is not graph]
        return graph

    def _encode_maps(self, sizes: Mapping[str, int]) -> None:
        """Describe tensors anew whose address or size has changed."""
        addresses = self.cells[self._map_from]
        known, before = self._mapped
        changed = np.flatnonzero(addresses != before) if known == sizes else range(len(before))
        for number in changed:
            at, source, described = self._maps[number]
            address = int(self.cells[source])
            if address:
                self.cells[at : at + CELLS] = encoded(self.device.driver, described, address, sizes)
        self._mapped = sizes, addresses

    def _nodes(
        self, sizes: Mapping[str, int], begin: int, end: int, timed: bool
    ) -> list[LaunchNode]:
        out: list[LaunchNode] = []
        for i, (step, launch, function, cells) in enumerate(self._launches):
            if not begin <= step < end or ("clock" in launch and not timed):
                continue
            grid = tuple(dim_value(d, sizes) for d in launch["grid"])
            if 0 in grid:
                continue
            counters = dim_value(launch["counters"], sizes)
            if counters:
                self.cells[cells[0] + 1] = self._room_for_counters(counters)
            parameters = ctypes.addressof(self._parameters[i])
            out.append(
                LaunchNode(
                    step, function, (grid[0], grid[1], grid[2]), launch["threads"],
                    launch["shared"], parameters, cells, len(launch["maps"]), self._library[i],
                )
            )  # fmt: skip
        return out

    def _room_for_counters(self, count: int) -> int:
        """Zeroed counters; launches follow one another and leave them zero, so all share them."""
        if count > self._counter_count:
            self._counter_count = max(count, 4096)
            self._counters = self.device.allocate(self._counter_count * 4)
            self._owned.take("cuMemFree_v2", self._counters)
            self.device.clear(self._counters, self._counter_count * 4)
        return self._counters

    def spent(self) -> dict[int, StepTime]:
        """What the steps of the last timed run took, which has ended."""
        return self._times.read()

    def reported(self) -> int:
        """The first step with a fault, from 1 on (see `Executable.run`); asked once."""
        flag = ctypes.c_int.from_address(self.flag)
        found, flag.value = flag.value, 0
        return found


def _columns(pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
    return (
        np.array([a for a, _ in pairs], np.int64),
        np.array([b for _, b in pairs], np.uint64),
    )


def memory_at(address: int, count: int, dtype: np.dtype[Any]) -> Array:
    """Memory of the host as an array."""
    if count == 0:
        return np.zeros(0, dtype)
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(raw), dtype)
