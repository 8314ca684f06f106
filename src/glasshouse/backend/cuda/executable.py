"""A built program on a GPU: its modules, its launches with their arguments, its graphs."""

from __future__ import annotations

import ctypes
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.cuda.device import Gpu, gpu
from glasshouse.backend.cuda.driver import Owned
from glasshouse.backend.cuda.forms import form_bytes, prepared, source_count
from glasshouse.backend.cuda.graph import LaunchNode, StepGraph
from glasshouse.backend.cuda.host_library import program_in
from glasshouse.backend.cuda.plan import dim_value
from glasshouse.backend.cuda.target import capability
from glasshouse.errors import FormatError, Unsupported
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.kernel.statement import Form

Array = np.ndarray[Any, Any]
_MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PLAIN_SHARED = 48 << 10
_OVERLAP = 90
"""Compute capability, times ten, from which kernels of a graph can overlap at their ends."""
_OVERLAPS = "GLASSHOUSE_OVERLAP"
"""A variable of the environment: "1", they do, "0", they do not. Otherwise it is measured: on an
H200 it brings 8 % for an MLP of one row and costs 25 % for ResNet-18 of one image."""
_TURNS, _REPLAYS, _WORTH = 3, 5, 0.98
"""How often a graph is timed with overlap and without, over how many launches, since one of a small
graph is shorter than its way there; and how much of the time must be left."""
_GRAPHS = 256
"""Graphs that are kept: one for each range of steps and size. A training step of ResNet-18 has 60
ranges, with gradients that PyTorch computes between them."""


def function_of(device: Gpu, module: int, name: str, shared: int) -> int:
    """A function of a loaded module that may ask for so much shared memory."""
    cuda = device.driver
    function = cuda.address("cuModuleGetFunction", module, name.encode())
    if shared > _PLAIN_SHARED:
        cuda.call("cuFuncSetAttribute", function, _MOST_SHARED, shared)
    return function


class CudaExecutable:
    """See `glasshouse.backend.base.Executable`. Nothing touches the GPU before the first run."""

    def __init__(self, library: Path, find: Callable[[], Gpu] = gpu) -> None:
        try:
            data = program_in(library) if library.suffix == ".so" else library.read_bytes()
            with zipfile.ZipFile(io.BytesIO(data)) as held:
                self.plan = json.loads(held.read("plan.json"))
                self.cubins = {name: held.read(f"{name}.cubin") for name in self.plan["kernels"]}
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise FormatError(f"{library}: no program for a GPU ({error})") from None
        self._find = find
        self._loaded: _Loaded | None = None
        self.call: Callable[[Any], int] = self._call
        self.forms = {
            place: (source, Form("", kind, as_dtype(dtype), tuple(attrs), True))
            for place, source, kind, dtype, attrs in self.plan["forms"]
        }

    @property
    def places(self) -> frozenset[int]:
        arguments = [a for _, _, given in self.plan["steps"] for a in given]
        return frozenset(place for where, place in arguments if where == "table")

    @property
    def loaded(self) -> _Loaded:
        """The program on the GPU; an error where there is none that can run it."""
        if self._loaded is None:
            device = self._find()
            wanted = capability(self.plan["arch"])
            # Machine code runs on its own major architecture, at its minor version or a later one.
            if device.capability // 10 != wanted // 10 or device.capability < wanted:
                raise Unsupported(
                    f"compiled for {self.plan['arch']}, and {device.name} is {device.arch}",
                    hint=f"compile with arch='{device.arch}'",
                )
            self._loaded = _Loaded(device, self.plan, self.cubins)
        return self._loaded

    # ------------------------------------------------------------------------------------- running
    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        return table, arena, sizes, steps

    def _call(self, frame: tuple[int, int, int, int]) -> int:
        """Starts a run and does not wait for it: gives what earlier ones have reported."""
        table, arena, sizes, steps = frame
        return self.start(table, arena, sizes, 0, steps)

    def start(self, table: int, arena: int, sizes: int, begin: int, end: int) -> int:
        self.loaded.start(table, arena, sizes, begin, end)
        return self.loaded.reported()

    def settle(self, frame: Any) -> None:
        self.loaded.settle(*frame)

    def run(self, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        """Runs steps and waits for them."""
        loaded = self.loaded
        graph = loaded.start(table, arena, sizes, begin, end, timed=bool(times))
        loaded.device.synchronize()
        if times and graph is not None:
            clock = (ctypes.c_double * end).from_address(times)
            for step, seconds in graph.seconds().items():
                clock[step] += seconds
        return loaded.reported()

    def repeated(self) -> Callable[[], None]:
        loaded = self.loaded
        graph, stream = loaded.last, loaded.device.stream
        assert graph is not None, "a run came before"
        return lambda: graph.launch(stream)

    # ---------------------------------------------------------------------------------- constants
    def prepared_bytes(self, place: int) -> int:
        return form_bytes(self.forms[place][1])

    def prepare(self, table: int) -> None:
        """Forms are made on the host: the table points into its memory here."""
        pointers = (ctypes.c_uint64 * self.plan["places"]).from_address(table)
        for place, (source, form) in self.forms.items():
            if pointers[place] and pointers[source]:
                kind = form.dtype.storage
                made = prepared(form, _memory(pointers[source], source_count(form), kind))
                _memory(pointers[place], made.size, kind)[:] = made

    def stamp(self, addresses: int, sizes: int, count: int) -> int:
        places = _memory(addresses, count, np.dtype(np.uint64))
        lengths = _memory(sizes, count, np.dtype(np.int64))
        byte = np.dtype(np.uint8)
        pieces = zip(places, lengths, strict=True)
        return zlib.crc32(b"".join(_memory(int(p), int(n), byte).tobytes() for p, n in pieces))


class _Loaded:
    """The modules of a program on one GPU, and the cells that hold arguments of launches."""

    def __init__(self, device: Gpu, plan: Mapping[str, Any], cubins: Mapping[str, bytes]) -> None:
        self.device = device
        device.enter()
        self.plan = plan
        owned = Owned(self, device.driver, device.context)
        self._functions: dict[str, list[int]] = {}
        for name, kernel in plan["kernels"].items():
            module = device.driver.address("cuModuleLoadData", cubins[name])
            owned.take("cuModuleUnload", module)
            self._functions[name] = [
                function_of(device, module, x["function"], x["shared"]) for x in kernel["launches"]
            ]
        self.flag, self.flag_there = device.pinned(64)
        owned.take("cuMemFreeHost", self.flag)
        self._owned = owned
        self._graphs: dict[Any, StepGraph] = {}
        self._overlaps: dict[Any, bool] = {}  # by range of steps, arena and sizes
        self.last: StepGraph | None = None  # that was launched
        self._counters, self._counter_count = 0, 0
        self._layout()

    def _layout(self) -> None:
        """Cells of 8 bytes for every launch: its context (3), work, pointers, sizes."""
        self._launches: list[tuple[int, Mapping[str, Any], int, tuple[int, int]]] = []
        table: list[tuple[int, int]] = []
        arena: list[tuple[int, int]] = []
        steps: list[tuple[int, int]] = []
        sized: list[tuple[int, str]] = []
        at = 0
        for number, name, places in self.plan["steps"]:
            kernel = self.plan["kernels"][name]
            for launch, function in zip(kernel["launches"], self._functions[name], strict=True):
                begin = at
                steps.append((at + 2, number))
                arena.append((at + 3, self.plan["work"]))
                at += 4
                for where, place in places:
                    if where != "unread":
                        (table if where == "table" else arena).append((at, place))
                    at += 1
                for symbol in kernel["symbols"]:
                    sized.append((at, symbol))
                    at += 1
                self._launches.append((number, launch, function, (begin, at)))
        self.cells = np.zeros(max(at, 1), np.uint64)
        base = self.cells.ctypes.data
        self._parameters: list[Any] = []
        for _, _, _, (begin, end) in self._launches:
            # The context is one argument of three cells.
            addresses = [base + 8 * begin, *(base + 8 * i for i in range(begin + 3, end))]
            self._parameters.append((ctypes.c_void_p * len(addresses))(*addresses))
            self.cells[begin] = self.flag_there
        self._table_at, self._table_from = _columns(table)
        self._arena_at, self._arena_from = _columns(arena)
        for cell, number in steps:
            self.cells[cell] = number
        self._sized = sized

    def settle(self, table: int, arena: int, sizes: int, steps: int) -> None:
        """Find out whether the kernels of a whole run are to overlap at their ends."""
        where = (0, steps, arena, tuple(self._numbers(sizes)))
        forced = os.environ.get(_OVERLAPS) in ("0", "1")
        if where in self._overlaps or forced or self.device.capability < _OVERLAP:
            return
        seconds = {overlap: float("inf") for overlap in (False, True)}
        for _ in range(_TURNS):
            for overlap, least in seconds.items():
                graph = self.start(table, arena, sizes, 0, steps, overlapping=overlap)
                if graph is None:
                    return
                with self.device.timed() as taken:
                    for _ in range(_REPLAYS):
                        graph.launch(self.device.stream)
                seconds[overlap] = min(least, taken())
        self._overlaps[where] = seconds[True] < _WORTH * seconds[False]

    def _numbers(self, sizes: int) -> list[int]:
        names = self.plan["symbols"]
        return _memory(sizes, len(names), np.dtype(np.int64)).tolist() if names else []

    def start(
        self,
        table: int,
        arena: int,
        sizes: int,
        begin: int,
        end: int,
        timed: bool = False,
        overlapping: bool | None = None,
    ) -> StepGraph | None:
        """Fill in the arguments and launch the graph of a range of steps."""
        self.device.enter()
        pointers = _memory(table, self.plan["places"], np.dtype(np.uint64))
        cells = self.cells
        cells[self._table_at] = pointers[self._table_from]
        cells[self._arena_at] = self._arena_from + np.uint64(arena)
        numbers = self._numbers(sizes)
        known = dict(zip(self.plan["symbols"], numbers, strict=True))
        for cell, symbol in self._sized:
            cells[cell] = known[symbol]
        where = (begin, end, arena, tuple(numbers))
        if overlapping is None:
            overlapping = self._overlaps.get(where, os.environ.get(_OVERLAPS) == "1")
        key = (where, timed, overlapping)
        graph = self._graphs.get(key)
        if graph is None:
            nodes = self._nodes(known, begin, end)
            if not nodes:
                return None
            if len(self._graphs) >= _GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))
            overlapping = overlapping and self.device.capability >= _OVERLAP
            graph = StepGraph(self.device.driver, nodes, cells, timed, overlapping)
            owned = Owned(graph, self.device.driver, self.device.context)
            for free, handle in graph.handles():
                owned.take(free, handle)
            self._graphs[key] = graph
        else:
            graph.follow(cells)
        graph.launch(self.device.stream)
        self.last = graph
        return graph

    def _nodes(self, sizes: Mapping[str, int], begin: int, end: int) -> list[LaunchNode]:
        out: list[LaunchNode] = []
        for i, (step, launch, function, cells) in enumerate(self._launches):
            if not begin <= step < end:
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
                    launch["shared"], parameters, cells,
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


def _memory(address: int, count: int, dtype: np.dtype[Any]) -> Array:
    if count == 0:
        return np.zeros(0, dtype)
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(raw), dtype)
