"""Decides what a compiled model can do: run without copies, be timed, take new constants."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.cpu.emit import Layout, Source
from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import SymDim, evaluate, symbols_of
from glasshouse.ir.dtype import bfloat16, from_storage, to_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.lower.order import lying
from glasshouse.lower.program import Call, Fallback, Program
from glasshouse.numpy_ref.executor import bind_sizes, run_node

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KernelTime:
    """Measured time of one step."""

    name: str
    node: Node
    seconds: float


class Pool:
    """The threads that all modules of a process share; made by the first library that is loaded."""

    _lock = threading.Lock()
    _pointer: ctypes.c_void_p | None = None
    _library: ctypes.CDLL | None = None

    @classmethod
    def pointer(cls, library: ctypes.CDLL) -> ctypes.c_void_p:
        with cls._lock:
            if cls._pointer is None:
                library.glasshouse_pool.restype = ctypes.c_void_p
                threads = int(os.environ.get("GLASSHOUSE_THREADS", "0")) or os.cpu_count() or 1
                cls._pointer = ctypes.c_void_p(library.glasshouse_pool(threads))
                cls._library = library
            return cls._pointer


class Module:
    """A compiled model: call it with arrays or tensors."""

    def __init__(self, program: Program, layout: Layout, library: Path, source: Source) -> None:
        self.program = program
        self.source = source
        self._layout = layout
        self._library = ctypes.CDLL(str(library))
        self._pool = Pool.pointer(self._library)
        self._library.glasshouse_packed_bytes.restype = ctypes.c_int64
        self._lock = threading.Lock()
        self._fixed: dict[int, Array] = {}  # arrays that the table points to in every run
        self._by_name: dict[str, Value] = {}
        self._arena = aligned_bytes(layout.arena_bytes)
        self._sizes_of_symbols = [s.name for s in program.symbols]
        self._segments = _segments(program)
        self._hold_sources()
        self._prepare()

    # ------------------------------------------------------------------------------------- running
    def __call__(self, *inputs: Any) -> Any:
        """The outputs, as arrays; or as torch tensors when tensors were given."""
        outputs = self._run([_array(x) for x in inputs], None, None)
        wrapped = [_like(inputs, a, v) for a, v in zip(outputs, self.graph.outputs, strict=True)]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def run_with_tensors(
        self, inputs: Sequence[Any] | Mapping[str, Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """Run into given buffers, which must be contiguous and of the right type."""
        arrays = [_array(o) for o in outputs]
        self._run([_array(x) for x in self._ordered(inputs)], arrays, None)
        return outputs

    def benchmark_with_tensors(
        self,
        inputs: Sequence[Any] | Mapping[str, Any],
        outputs: Sequence[Any] | None = None,
        count: int = 10,
    ) -> tuple[float, float, Sequence[Any]]:
        """(mean, standard deviation, outputs); times are milliseconds."""
        arrays = [_array(x) for x in self._ordered(inputs)]
        out = None if outputs is None else [_array(o) for o in outputs]
        times: list[float] = []
        results: list[Array] = self._run(arrays, out, None)
        for _ in range(max(count, 1)):
            begin = time.perf_counter()
            results = self._run(arrays, out, None)
            times.append((time.perf_counter() - begin) * 1e3)
        return float(np.mean(times)), float(np.std(times)), results if outputs is None else outputs

    def profile(self, *inputs: Any, count: int = 10) -> list[KernelTime]:
        """Median-free mean time of each step over `count` runs."""
        arrays = [_array(x) for x in inputs]
        self._run(arrays, None, None)
        total = np.zeros(len(self.program.steps))
        for _ in range(count):
            self._run(arrays, None, total)
        return [
            KernelTime(
                s.kernel.name if isinstance(s, Call) else "fallback", s.node, float(t) / count
            )
            for s, t in zip(self.program.steps, total, strict=True)
        ]

    @property
    def graph(self) -> Graph:
        """The optimised graph that was compiled."""
        return self.program.graph

    @property
    def arena_bytes(self) -> int:
        return self._layout.arena_bytes

    # ----------------------------------------------------------------------------------- constants
    def constant_names(self) -> list[str]:
        return list(self._by_name)

    def set_constant(self, name: str, data: Any) -> None:
        self.set_many_constants({name: data})

    def set_many_constants(self, constants: Mapping[str, Any]) -> None:
        """Give named constants or variables new data; no run sees half of it."""
        arrays: dict[int, Array] = {}
        for name, data in constants.items():
            if name not in self._by_name:
                known = ", ".join(list(self._by_name)[:5])
                raise ExecutionError(
                    f"there is no constant {name!r}", hint=f"there are: {known} ..."
                )
            value = self._by_name[name]
            array = np.ascontiguousarray(to_storage(_array(data), value.type.dtype))
            if array.shape != value.type.shape:
                raise ExecutionError(f"{name} must be {value.type}, got shape {list(array.shape)}")
            arrays[self._layout.table[value]] = array
        with self._lock:
            self._fixed.update(arrays)
            self._prepare()

    # ------------------------------------------------------------------------------------ internal
    def _hold_sources(self) -> None:
        for node in self.graph.nodes:
            if node.op is not CONSTANT and node.op is not VARIABLE:
                continue
            data = node.attrs["data"]
            if data is None:
                raise ExecutionError(
                    f"{node.op.label} {node.attrs['name'] or node.id} has no data",
                    str(node.origin.source),
                )
            array = np.ascontiguousarray(data)
            place = self._layout.table[node.output]
            self._fixed[place] = array.copy() if node.op is VARIABLE else array
            if node.attrs["name"]:
                self._by_name[node.attrs["name"]] = node.output
        for place in self._layout.packed.values():
            nbytes = self._library.glasshouse_packed_bytes(place)
            self._fixed[place] = aligned_bytes(nbytes)

    def _prepare(self) -> None:
        table = self._table([], [])
        self._library.glasshouse_prepare(self._pool, table)

    def _table(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Any:
        table = (ctypes.c_void_p * max(self._layout.table_size, 1))()
        for place, array in self._fixed.items():
            table[place] = array.ctypes.data
        for value, array in zip(self.graph.inputs, inputs, strict=False):
            table[self._layout.table[value]] = array.ctypes.data
        for value, array in zip(self.graph.outputs, outputs, strict=False):
            table[self._layout.table[value]] = array.ctypes.data
        return table

    def _run(
        self, inputs: Sequence[Array], outputs: list[Array] | None, times: Array | None
    ) -> list[Array]:
        sizes = bind_sizes([v.type for v in self.graph.inputs], inputs)
        given = [self._checked(v, a, sizes) for v, a in zip(self.graph.inputs, inputs, strict=True)]
        if outputs is None:
            outputs = [self._empty(v, sizes) for v in self.graph.outputs]
        else:
            for value, array in zip(self.graph.outputs, outputs, strict=True):
                self._check_output(value, array, sizes)
        with self._lock:
            table = self._table(given, outputs)
            self._execute(table, given, outputs, sizes, times)
        return outputs

    def _execute(
        self,
        table: Any,
        given: Sequence[Array],
        outputs: Sequence[Array],
        sizes: dict[str, int],
        times: Array | None,
    ) -> None:
        numbers = (ctypes.c_int64 * max(len(self._sizes_of_symbols), 1))(
            *[sizes[name] for name in self._sizes_of_symbols]
        )
        clock = ctypes.c_void_p(times.ctypes.data) if times is not None else None
        arena = ctypes.c_void_p(self._arena.ctypes.data)
        kept: dict[Value, Array] = dict(zip(self.graph.inputs, given, strict=True))
        for variable, new in self.graph.updates.items():
            kept.setdefault(new, self._empty(new, sizes))
            table[self._layout.table[new]] = kept[new].ctypes.data
            del variable
        for value, array in zip(self.graph.outputs, outputs, strict=True):
            kept[value] = array
            table[self._layout.table[value]] = array.ctypes.data
        for begin, end in self._segments:
            step = self.program.steps[begin]
            if isinstance(step, Fallback):
                self._fall_back(step, table, kept, sizes)
            elif self._library.glasshouse_run(self._pool, table, arena, numbers, begin, end, clock):
                raise ExecutionError("an index lies outside of the tensor that it points into")
        self._copy_passed_through(kept)
        for variable, new in self.graph.updates.items():
            np.copyto(self._fixed[self._layout.table[variable.output]], kept[new])

    def _copy_passed_through(self, kept: dict[Value, Array]) -> None:
        """Outputs that no step computes: inputs, constants, or views of others."""
        computed = {v for s in self.program.steps for v in s.node.outputs}
        for value in self.graph.outputs:
            if value in computed:
                continue
            source = kept.get(value)
            place = self._layout.table[value]
            if value.node.op is CONSTANT or value.node.op is VARIABLE:
                np.copyto(kept[value], self._fixed[place])
            elif source is not None and value in self.graph.inputs:
                pass

    def _fall_back(
        self, step: Fallback, table: Any, kept: dict[Value, Array], sizes: dict[str, int]
    ) -> None:
        arrays = [from_storage(self._read(v, kept, sizes), v.type.dtype) for v in step.node.inputs]
        for value, array in zip(step.node.outputs, run_node(step.node, arrays, sizes), strict=True):
            order = self.program.orders.get(value)
            array = array if order is None else array.transpose(order)
            stored = np.ascontiguousarray(to_storage(array, value.type.dtype))
            if value in kept:
                np.copyto(kept[value], stored)
            else:
                kept[value] = stored
                table[self._layout.table[value]] = stored.ctypes.data

    def _read(self, value: Value, kept: dict[Value, Array], sizes: dict[str, int]) -> Array:
        """What a value holds now, as an array with its axes in their usual order."""
        owner = value if value in kept else self.program.buffer_of(value)
        order = self.program.orders.get(owner)
        shape = [evaluate(d, sizes) for d in lying(value.type.shape, order)]
        if owner in kept:
            flat = kept[owner].reshape(-1)
        elif owner in self._layout.table:
            flat = self._fixed[self._layout.table[owner]].reshape(-1)
        else:
            begin = self._layout.arena[owner]
            count = int(np.prod(shape, dtype=np.int64)) * value.type.dtype.itemsize
            flat = self._arena[begin : begin + count].view(value.type.dtype.storage)
        lies = flat.reshape(shape)
        return lies if order is None else lies.transpose(np.argsort(order))

    def _empty(self, value: Value, sizes: dict[str, int]) -> Array:
        return np.empty([evaluate(d, sizes) for d in value.type.shape], value.type.dtype.storage)

    def _checked(self, value: Value, array: Array, sizes: dict[str, int]) -> Array:
        name = value.node.attrs["name"] or f"input {self.graph.inputs.index(value)}"
        shape = tuple(evaluate(d, sizes) for d in value.type.shape)
        if array.shape != shape:
            raise ExecutionError(f"{name} must be {value.type}, got shape {list(array.shape)}")
        for dim, size in zip(value.type.shape, shape, strict=True):
            if isinstance(dim, SymDim):
                _check_ranges(name, dim, sizes)
            del size
        wanted = value.type.dtype.storage
        if array.dtype != wanted:
            if value.type.dtype is bfloat16:
                array = to_storage(array, bfloat16)
            else:
                raise ExecutionError(f"{name} must be {value.type}, got {array.dtype}")
        return np.ascontiguousarray(array)

    def _check_output(self, value: Value, array: Array, sizes: dict[str, int]) -> None:
        shape = tuple(evaluate(d, sizes) for d in value.type.shape)
        if array.shape != shape or array.dtype != value.type.dtype.storage:
            raise ExecutionError(
                f"an output buffer must be {value.type}, got {array.dtype}{list(array.shape)}"
            )
        if not array.flags.c_contiguous:
            raise ExecutionError("an output buffer must be contiguous")

    def _ordered(self, inputs: Sequence[Any] | Mapping[str, Any]) -> Sequence[Any]:
        if not isinstance(inputs, Mapping):
            return inputs
        return [inputs[v.node.attrs["name"]] for v in self.graph.inputs]


def _check_ranges(name: str, dim: SymDim, sizes: Mapping[str, int]) -> None:
    for symbol in symbols_of(dim).values():
        size = sizes[symbol.name]
        if size < symbol.low or (symbol.high is not None and size > symbol.high):
            raise ExecutionError(
                f"{name}: {symbol.name} is {size}, compiled for {symbol.low} to {symbol.high}",
                hint="compile again with a wider range",
            )


def _segments(program: Program) -> list[tuple[int, int]]:
    """Ranges of steps: each fallback by itself, everything between them in one call."""
    out: list[tuple[int, int]] = []
    begin = 0
    for number, step in enumerate(program.steps):
        if isinstance(step, Fallback):
            if begin < number:
                out.append((begin, number))
            out.append((number, number + 1))
            begin = number + 1
    if begin < len(program.steps):
        out.append((begin, len(program.steps)))
    return out


def aligned_bytes(count: int) -> Array:
    """Zeroed bytes that begin at a multiple of 64."""
    raw = np.zeros(count + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + max(count, 1)]


def _array(given: Any) -> Array:
    """NumPy's view of an argument; torch tensors and lazy tensors are not copied."""
    if isinstance(given, np.ndarray):
        return given
    if type(given).__module__.split(".")[0] == "torch":
        import torch

        given = given.detach()
        if given.dtype is torch.bfloat16:
            return np.asarray(given.view(torch.int16).numpy()).view(np.uint16)
        return np.asarray(given.numpy())
    return np.asarray(given)


def _like(inputs: Sequence[Any], array: Array, value: Value) -> Any:
    """An output in the kind of container that the inputs came in."""
    if any(type(x).__module__.split(".")[0] == "torch" for x in inputs):
        import torch

        if value.type.dtype is bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    return from_storage(array, value.type.dtype)
