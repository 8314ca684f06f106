"""Decides what a compiled model can do: run without copies, be timed, take new constants."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.cpu.build import headers_hash
from glasshouse.backend.cpu.emit import Layout, Source
from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import Dim, SymDim, evaluate, symbols_of
from glasshouse.ir.dtype import bfloat16, from_storage, to_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.lower.order import lying
from glasshouse.lower.program import Call, Fallback, Program, Step
from glasshouse.numpy_ref.executor import bind_sizes, run_node
from glasshouse.record.reader import Recording
from glasshouse.runtime.arrays import Array, aligned_bytes, array_of, like_inputs
from glasshouse.runtime.pool import pool_of
from glasshouse.runtime.static_run import StaticRun

Inputs = Sequence[Any] | Mapping[str, Any]
_BAD_INDEX = "an index lies outside of the tensor that it points into"


@dataclass(frozen=True)
class KernelTime:
    """Measured time of one step."""

    name: str
    node: Node
    seconds: float


class Module:
    """A compiled model: call it with arrays or tensors."""

    def __init__(
        self, program: Program, layout: Layout, library: Path, source: Source, headers: str = ""
    ) -> None:
        """`headers` is the hash of those that the library was built from; "": the ones here."""
        self.program = program
        self.layout = layout
        self.source = source
        self.library_path = library
        self.base_recording: Recording | None = None  # what the passes did, when they were watched
        self._library = ctypes.CDLL(str(library))
        self._library.glasshouse_packed_bytes.restype = ctypes.c_int64
        self._pool = pool_of(self._library, headers or headers_hash())
        self._lock = threading.Lock()
        self._fixed: dict[int, Array] = {}  # arrays that the table points to in every run
        self._by_name: dict[str, Value] = {}
        self._arena = aligned_bytes(layout.arena_bytes)
        self._segments = _segments(program)
        self._passed_through = passed_through(program)
        self._hold_sources()
        static = StaticRun.serves(program)
        self._static = StaticRun(program, layout.table, layout.table_size) if static else None
        self._prepare()

    # ------------------------------------------------------------------------------------- running
    def __call__(self, *inputs: Any) -> Any:
        """The outputs, as arrays; or as torch tensors when tensors were given."""
        arrays = [array_of(x) for x in inputs]
        outputs = self._run_static(arrays) or self._run(arrays)
        wrapped = [
            like_inputs(inputs, a, v.type.dtype)
            for a, v in zip(outputs, self.graph.outputs, strict=True)
        ]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def run_with_tensors(self, inputs: Inputs, outputs: Sequence[Any]) -> Sequence[Any]:
        """Run into given buffers, which must be contiguous and of the right type."""
        arrays = [array_of(o) for o in outputs]
        self._run([array_of(x) for x in self._ordered(inputs)], arrays)
        return outputs

    def benchmark_with_tensors(
        self, inputs: Inputs, outputs: Sequence[Any] | None = None, count: int = 10
    ) -> tuple[float, float, Sequence[Any]]:
        """(mean, standard deviation, outputs); times are milliseconds."""
        arrays = [array_of(x) for x in self._ordered(inputs)]
        out = None if outputs is None else [array_of(o) for o in outputs]
        results: list[Array] = self._run(arrays, out)
        times: list[float] = []
        for _ in range(max(count, 1)):
            begin = time.perf_counter()
            results = self._run(arrays, out)
            times.append((time.perf_counter() - begin) * 1e3)
        return float(np.mean(times)), float(np.std(times)), outputs or results

    def profile(self, *inputs: Any, count: int = 10) -> list[KernelTime]:
        """Mean time of each step over `count` runs, after one that warms up."""
        arrays = [array_of(x) for x in inputs]
        self._run(arrays)
        total = np.zeros(len(self.program.steps))
        for _ in range(count):
            self._run(arrays, times=total)
        return [
            KernelTime(_step_name(s), s.node, float(t) / count)
            for s, t in zip(self.program.steps, total, strict=True)
        ]

    def watch(
        self, inputs: Sequence[Any], see: Callable[[Step, Callable[[Value], Array]], None]
    ) -> list[Array]:
        """Run step by step; after each, `see` may read the operands and outputs of that step."""
        return self._run([array_of(x) for x in inputs], see=see)

    def recording(self, *inputs: Any, count: int = 10) -> Recording:
        """All that is known: stages, rewrites, kernels with code; with inputs, times and errors."""
        from glasshouse.runtime.recording import recording_of  # it measures modules

        return recording_of(self, self.base_recording, inputs, count)

    def save(self, folder: str | os.PathLike[str], name: str = "model") -> Path:
        """Write library, C header, weights and recording; `glasshouse.load` and C programs run it.

        Weights and variables are saved with the values that they have now.
        """
        from glasshouse.runtime.save import save  # it reads modules

        with self._lock:
            return save(self, Path(folder), name)

    def source_array(self, node: Node) -> Array:
        """What a constant or variable holds now."""
        return self._fixed[self.layout.table[node.output]]

    @property
    def graph(self) -> Graph:
        """The optimised graph that was compiled."""
        return self.program.graph

    # ----------------------------------------------------------------------------------- constants
    def constant_names(self) -> list[str]:
        return list(self._by_name)

    def set_constant(self, name: str, data: Any) -> None:
        """Give a named constant or variable new data."""
        self.set_many_constants({name: data})

    def set_many_constants(self, constants: Mapping[str, Any]) -> None:
        """Give several new data at once; no run sees half of it."""
        arrays: dict[int, Array] = {}
        for name, data in constants.items():
            if name not in self._by_name:
                known = ", ".join(list(self._by_name)[:5])
                raise ExecutionError(
                    f"there is no constant {name!r}",
                    hint=f"there are {len(self._by_name)}: {known} ... (one that a pass folded "
                    "into another is gone)",
                )
            value = self._by_name[name]
            array = np.ascontiguousarray(to_storage(array_of(data), value.type.dtype))
            if array.shape != value.type.shape:
                raise ExecutionError(f"{name} must be {value.type}, got shape {list(array.shape)}")
            arrays[self.layout.table[value]] = array
        with self._lock:
            self._fixed.update(arrays)
            self._prepare()

    # ------------------------------------------------------------------------------------ internal
    def _hold_sources(self) -> None:
        for node in self.graph.nodes:
            if node.op is not CONSTANT and node.op is not VARIABLE:
                continue
            name, data = node.attrs["name"], node.attrs["data"]
            if data is None:
                where = str(node.origin.source)
                raise ExecutionError(f"{node.op.label} {name or node.id} has no data", where)
            array = np.ascontiguousarray(data)
            self._fixed[self.layout.table[node.output]] = (
                array.copy() if node.op is VARIABLE else array
            )
            if name:
                self._by_name[name] = node.output
        for place in self.layout.packed.values():
            self._fixed[place] = aligned_bytes(self._library.glasshouse_packed_bytes(place))

    def _prepare(self) -> None:
        self._library.glasshouse_prepare(self._pool, self._table({}))
        if self._static is not None:
            self._static.bind(self._library, self._pool, self._arena, self._fixed)

    def _table(self, arrays: Mapping[Value, Array]) -> Any:
        table = (ctypes.c_void_p * max(self.layout.table_size, 1))()
        for place, array in self._fixed.items():
            table[place] = array.ctypes.data
        for value, array in arrays.items():
            table[self.layout.table[value]] = array.ctypes.data
        return table

    def _run_static(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The outputs, where the quick way serves; the general one also tells what is wrong."""
        if self._static is None:
            return None
        with self._lock:
            done = self._static(inputs)
        if done is None:
            return None
        if done[1]:
            raise ExecutionError(_BAD_INDEX)
        return done[0]

    def _run(
        self,
        inputs: Sequence[Array],
        outputs: list[Array] | None = None,
        times: Array | None = None,
        see: Callable[[Step, Callable[[Value], Array]], None] | None = None,
    ) -> list[Array]:
        graph = self.graph
        sizes = bind_sizes([v.type for v in graph.inputs], inputs)
        kept: dict[Value, Array] = {}
        for number, (value, array) in enumerate(zip(graph.inputs, inputs, strict=True)):
            kept[value] = _checked(value, array, sizes, number)
        if outputs is None:
            outputs = [_empty(v, sizes) for v in graph.outputs]
        for value, array in zip(graph.outputs, outputs, strict=True):
            _check_output(value, array, sizes)
        with self._lock:
            self._execute(kept, outputs, sizes, times, see)
        return outputs

    def _execute(
        self,
        kept: dict[Value, Array],
        outputs: Sequence[Array],
        sizes: dict[str, int],
        times: Array | None,
        see: Callable[[Step, Callable[[Value], Array]], None] | None,
    ) -> None:
        graph, steps = self.graph, self.program.steps
        for value in self._passed_through:  # read before a run may write over it
            kept.setdefault(value, self._fixed[self.layout.table[value]].copy())
        for value, array in zip(graph.outputs, outputs, strict=True):
            kept.setdefault(value, array)
        for new in graph.updates.values():
            if new not in kept:
                kept[new] = _empty(new, sizes)
        table = self._table(kept)
        numbers = [sizes[s.name] for s in self.program.symbols]
        symbols = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        clock = ctypes.c_void_p(times.ctypes.data) if times is not None else None
        arena = ctypes.c_void_p(self._arena.ctypes.data)
        segments = self._segments if see is None else [(i, i + 1) for i in range(len(steps))]
        for begin, end in segments:
            step = steps[begin]
            if isinstance(step, Fallback):
                self._fall_back(step, table, kept, sizes)
            elif self._library.glasshouse_run(self._pool, table, arena, symbols, begin, end, clock):
                raise ExecutionError(_BAD_INDEX)
            if see is not None:
                see(step, lambda value: self._read(value, kept, sizes))
        for value, array in zip(graph.outputs, outputs, strict=True):
            if kept[value] is not array:
                np.copyto(array, kept[value])
        for variable, new in graph.updates.items():
            np.copyto(self._fixed[self.layout.table[variable.output]], kept[new])

    def _fall_back(
        self, step: Fallback, table: Any, kept: dict[Value, Array], sizes: dict[str, int]
    ) -> None:
        arrays = [from_storage(self._read(v, kept, sizes), v.type.dtype) for v in step.node.inputs]
        for value, array in zip(step.node.outputs, run_node(step.node, arrays, sizes), strict=True):
            order = self.program.orders.get(value)
            lies = array if order is None else array.transpose(order)
            stored = np.ascontiguousarray(to_storage(lies, value.type.dtype))
            if value in kept:
                np.copyto(kept[value], stored)
            else:
                kept[value] = stored
                table[self.layout.table[value]] = stored.ctypes.data

    def _read(self, value: Value, kept: dict[Value, Array], sizes: dict[str, int]) -> Array:
        """What a value holds now, as an array with its axes in their usual order."""
        owner = value if value in kept else self.program.buffer_of(value)
        order = self.program.orders.get(owner)
        shape = _sizes(lying(value.type.shape, order), sizes)
        if owner in kept:
            flat = kept[owner].reshape(-1)
        elif owner in self.layout.table:
            flat = self._fixed[self.layout.table[owner]].reshape(-1)
        else:
            begin = self.layout.arena[owner]
            count = int(np.prod(shape, dtype=np.int64)) * value.type.dtype.itemsize
            flat = self._arena[begin : begin + count].view(value.type.dtype.storage)
        lies = flat.reshape(shape)
        return lies if order is None else lies.transpose(np.argsort(order))

    def _ordered(self, inputs: Inputs) -> Sequence[Any]:
        if not isinstance(inputs, Mapping):
            return inputs
        return [inputs[v.node.attrs["name"]] for v in self.graph.inputs]


def _sizes(dims: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, sizes) for d in dims)


def _empty(value: Value, sizes: Mapping[str, int]) -> Array:
    return np.empty(_sizes(value.type.shape, sizes), value.type.dtype.storage)


def _checked(value: Value, array: Array, sizes: Mapping[str, int], number: int) -> Array:
    """An input that has the type and a size that the code was compiled for."""
    name = value.node.attrs["name"] or f"input {number}"
    if array.shape != _sizes(value.type.shape, sizes):
        raise ExecutionError(f"{name} must be {value.type}, got shape {list(array.shape)}")
    for dim in value.type.shape:
        if isinstance(dim, SymDim):
            _check_range(name, dim, sizes)
    if array.dtype != value.type.dtype.storage:
        if value.type.dtype is not bfloat16:
            raise ExecutionError(f"{name} must be {value.type}, got {array.dtype}")
        array = to_storage(array, bfloat16)
    return np.ascontiguousarray(array)


def _check_output(value: Value, array: Array, sizes: Mapping[str, int]) -> None:
    right = array.shape == _sizes(value.type.shape, sizes)
    if not right or array.dtype != value.type.dtype.storage or not array.flags.c_contiguous:
        raise ExecutionError(
            f"an output buffer must be a contiguous {value.type}, "
            f"got {array.dtype}{list(array.shape)}"
        )


def _check_range(name: str, dim: SymDim, sizes: Mapping[str, int]) -> None:
    for symbol in symbols_of(dim).values():
        size = sizes[symbol.name]
        if size < symbol.low or (symbol.high is not None and size > symbol.high):
            raise ExecutionError(
                f"{name}: {symbol.name} is {size}, compiled for {symbol.low} to {symbol.high}",
                hint="compile again with a wider range",
            )


def _step_name(step: Step) -> str:
    return step.kernel.name if isinstance(step, Call) else f"fallback_{step.node.op.name}"


def passed_through(program: Program) -> list[Value]:
    """Constants and variables that are outputs: no step computes them, so they are copied."""
    held = [*program.graph.outputs, *program.graph.updates.values()]
    return [
        v
        for v in dict.fromkeys(held)
        if v.node.op.kind is Kind.SOURCE and v not in program.graph.inputs
    ]


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
