"""How variants of products, convolutions and attention are timed on a GPU: in turns, as nodes of a
graph.

A kernel of a model runs between others, so its weights are in memory and not in a cache, and its
launch is part of its time. So the graph of a variant runs the kernel over several sets of weights,
together larger than the second-level cache, and all graphs take turns; the least of some turns
counts. What runs is the call of the program that asks, where it can run on any data, so the kernel
that is chosen has been built. Errors are taken against the variant that most others agree with,
beyond the rounding of the element type.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from glasshouse.backend.base import Progress
from glasshouse.backend.cuda.attention import ATTENTION, BY_FLAGS
from glasshouse.backend.cuda.behind import ACROSS, LEFT, RIGHT, followed
from glasshouse.backend.cuda.build import build_ahead, cubin_of
from glasshouse.backend.cuda.conv import CONV_PRODUCT
from glasshouse.backend.cuda.device import Gpu
from glasshouse.backend.cuda.driver import Owned
from glasshouse.backend.cuda.forms import prepared
from glasshouse.backend.cuda.graph import LaunchNode, StepGraph, parameters_at
from glasshouse.backend.cuda.launch import CudaKernel
from glasshouse.backend.cuda.library_calls import library_call
from glasshouse.backend.cuda.loaded import OVERLAP, function_of
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.tensor_map import encoded
from glasshouse.backend.cuda.transposed import CONV_GRADIENT
from glasshouse.errors import ExecutionError, LibraryRefused
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import evaluate
from glasshouse.ir.dtype import (
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    from_storage,
    to_storage,
)
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.op import op_named
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.choice import Candidate, Choice, Problem
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.lower import lower
from glasshouse.lower.order import channels_last
from glasshouse.lower.plan import upper_bytes
from glasshouse.lower.program import Call, Packed, Program
from glasshouse.lower.target import Target
from glasshouse.lower.variants import chosen

Array = np.ndarray[Any, Any]
_COLD = 96 << 20  # bytes that one graph goes through, weights and whatever else its kernel touches
_COPIES = (2, 16)
_MOST_WEIGHTS = 1 << 27  # elements of a matrix: copies of a larger one take gigabytes
_TURNS, _REPLAYS = 5, 2
_ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
_RANDOM = 1 << 20
_ANY_DATA = (float16, bfloat16, float32, float64, bool_)
"""Types of operands whose numbers say nothing about where others are read."""
_COMPARED = 1 << 15
_DATA = ("name", "data")
"""Attributes that do not change how long a kernel takes."""


def prepare(
    arch: str,
    target: Target,
    asked: Sequence[tuple[Problem, Sequence[str]]],
    kernels: Sequence[Kernel],
    asking: Mapping[Problem, Call],
) -> None:
    """Begin to build the kernels of all problems, in the order in which they are measured, then
    those of the program as they stand: a problem is measured while others are built."""
    for problem, names in asked:
        calls = _calls(target, problem, names, asking.get(problem)) or []
        build_ahead([render(c.kernel) for c in calls], arch)
    build_ahead([render(k) for k in kernels], arch)


def measure(
    device: Gpu,
    target: Target,
    problem: Problem,
    names: Sequence[str],
    progress: Progress | None = None,
    asking: Call | None = None,
) -> list[Candidate] | None:
    """Seconds and error of each variant; None for a problem that is not measured, or where the
    device has no room for it. `asking` is a call of the program with this problem."""
    calls = _calls(target, problem, names, asking)
    if calls is None:
        return None
    kernels = [render(c.kernel) for c in calls]
    if asking is not None and calls[0].operands is asking.operands:
        operands = _any_data(asking)
        calls = [replace(c, operands=operands) for c in calls]
    device.enter()
    device.stream = device.own_stream
    room = _Room(device)
    pool = ThreadPoolExecutor(max(os.cpu_count() or 1, 1))
    cubins = [pool.submit(cubin_of, k.text, k.name, device.arch) for k in kernels]
    try:
        # As they are built: a library's call is first, and what all share is placed meanwhile.
        places = {cubin: number for number, cubin in enumerate(cubins)}
        made: dict[int, _Probe] = {}
        for cubin in as_completed(cubins):
            number = places[cubin]
            made[number] = _Probe(device, calls[number], kernels[number], cubin.result(), room)
        probes = [made[number] for number in range(len(calls))]
        results = [p.result() for p in probes]
        seconds = [float("inf")] * len(probes)
        for _ in range(_TURNS):
            for number, probe in enumerate(probes):
                seconds[number] = min(seconds[number], probe.turn())
    except LibraryRefused as error:
        own = [n for n in names if n not in target.opaque]
        found = measure(device, target, problem, own, progress, asking)
        refused = [Candidate(n, error=1.0, why=str(error)) for n in names if n in target.opaque]
        return found and [*found, *refused]
    except ExecutionError:
        if any(cubin.done() and cubin.exception() for cubin in cubins):
            raise
        return None
    finally:
        pool.shutdown()
        room.free()
    if asking is not None and not all(np.isfinite(r).all() for r in results):
        return measure(device, target, problem, names, progress)  # what follows is not for any data
    exact = _agreed(results)
    largest = float(np.abs(exact).max()) or 1.0
    rounding = _ROUNDING.get(problem.dtype, 0.0)
    errors = [max(float(np.abs(r - exact).max()) / largest - rounding, 0.0) for r in results]
    return [Candidate(n, s, e) for n, s, e in zip(names, seconds, errors, strict=True)]


def _agreed(results: Sequence[Array]) -> Array:
    """The result that the others are closest to: of two the first, of more no single wrong one."""

    def apart(one: Array) -> float:
        found = [float(np.abs(one - other).max()) for other in results if other is not one]
        return float(np.median([d if d == d else np.inf for d in found] or [0.0]))

    return min(results, key=apart)


# --------------------------------------------------------------------------------------- problems
def _calls(
    target: Target, problem: Problem, names: Sequence[str], asking: Call | None = None
) -> list[Call] | None:
    """The kernel of a problem in each variant, that of the program where it can be run on any data,
    otherwise one of the op alone; None for a problem that is not measured."""
    if not _is_measured(problem):
        return None
    call = asking
    if call is None or not _takes_any_data(call, problem):
        graph = _graph(problem)
        call = None if graph is None else _lowered(graph, target)
    return None if call is None else [_in_variant(call, name, target) for name in names]


def measured_as(problem: Problem, asking: Call | None) -> str:
    """The ops of the call that is measured; nothing where it is the op of the problem alone."""
    if asking is None or not _is_measured(problem) or not _takes_any_data(asking, problem):
        return ""
    body = asking.node.attrs.get("body")
    nodes = body.nodes if isinstance(body, Graph) else [asking.node]
    words: list[str] = []
    for node in nodes:
        kept = {k: v for k, v in node.attrs.items() if k not in _DATA and not isinstance(v, Graph)}
        words.append(f"{node.op.name} {kept} {[str(v.type) for v in node.outputs]}")
    constant = [v.node.op is CONSTANT for v in asking.operands]
    return f"{words} {constant}"


def _is_measured(problem: Problem) -> bool:
    """Whether there is a graph of the op, and room for some copies of its weights."""
    n, op = problem.numbers, problem.op.partition("_")[0]
    if op == "matmul":
        lies_across = problem.op.removeprefix(op) in ACROSS
        return n[3] == 1 and (lies_across or n[1] * n[2] <= _MOST_WEIGHTS)
    if op == "products":
        return sum(n[2:]) * n[1] <= _MOST_WEIGHTS
    if op in (CONV_PRODUCT, CONV_GRADIENT):
        return len(n) == (17 if op == CONV_PRODUCT else 19)
    return problem.op in (ATTENTION, BY_FLAGS)


def _takes_any_data(call: Call, problem: Problem) -> bool:
    """Whether a call of the program can be timed on random operands: so what is timed is what runs,
    and the variant that is taken has been built. Not where an operand tells places, a size is a
    symbol, or the kernel has other problems too."""
    shapes = [v.type.shape for v in (*call.operands, *call.outputs)]
    known = all(isinstance(d, int) for shape in shapes for d in shape)
    kinds = all(v.type.dtype in _ANY_DATA for v in (*call.operands, *call.outputs))
    alone = [t.problem for t in call.kernel.tiles] == [problem] and len(call.outputs) == 1
    return known and kinds and alone and not any(call.offsets)


def _any_data(call: Call) -> tuple[Value, ...]:
    """Random operands for a call, constants where those of the program are."""
    builder = GraphBuilder()

    def standing_for(value: Value) -> Value:
        dtype, shape = value.type.dtype, value.type.shape
        if value.node.op is not CONSTANT or dtype is bool_:
            return builder.input(dtype, shape).value
        sizes = [int(d) for d in shape if isinstance(d, int)]
        return builder.constant(_random(sizes, max(sizes, default=1)), dtype)

    return tuple(map(standing_for, call.operands))


def _graph(problem: Problem) -> Graph | None:
    """A graph of the one op; weights are constants."""
    dtype, n = as_dtype(problem.dtype), problem.numbers
    builder = GraphBuilder()
    op, _, behind = problem.op.partition("_")
    if f"_{behind}" in ACROSS:
        left, right = (word in behind.split("_") for word in (LEFT, RIGHT))
        x = builder.input(dtype, (n[2], n[0]) if left else (n[0], n[2]))
        y = builder.input(dtype, (n[2], n[1]) if right else (n[1], n[2]))
        return builder.finish(x.apply("matmul", y, transpose_x=left, transpose_y=not right))
    if op == "matmul":
        x = builder.input(dtype, (n[0], n[2]))
        w = builder.wrap(builder.constant(_random((n[1], n[2]), n[2]), dtype))
        return followed(builder, x, w, behind, "matmul", {"transpose_y": True})
    if op == "products":
        x = builder.input(dtype, n[:2])
        ws = [builder.wrap(builder.constant(_random((c, n[1]), n[1]), dtype)) for c in n[2:]]
        return builder.finish(x.apply("products", *ws, gate=behind))
    if op == CONV_PRODUCT:
        x = builder.input(dtype, n[:4])
        depth = n[5] * n[6] * n[7]
        w = builder.wrap(builder.constant(_random(n[4:8], depth), dtype))
        attrs = {"stride": n[8:10], "padding": n[10:14], "dilation": n[14:16], "groups": n[16]}
        return followed(builder, x, w, behind, "conv", attrs)
    if op == CONV_GRADIENT:
        x = builder.input(dtype, n[:4])
        depth = n[4] * n[6] * n[7]
        w = builder.wrap(builder.constant(_random(n[4:8], depth), dtype))
        attrs = {"stride": n[8:10], "padding": n[10:14], "dilation": n[14:16], "groups": n[16]}
        return builder.finish(x.apply("conv_transpose", w, **attrs, output_padding=n[17:]))
    if op == ATTENTION:
        batch, heads, length, dim, key_heads, keys = n
        q = builder.input(dtype, (batch, heads, length, dim))
        k, v = (builder.input(dtype, (batch, key_heads, keys, dim)) for _ in range(2))
        mask = [builder.input(bool_, (length, keys))] if problem.op == BY_FLAGS else []
        attrs = {"causal": False, "scale": None, "fill": None}
        builder.apply(op_named("attention"), q, k, v, *mask, **attrs)
        return builder.finish(builder.wrap(builder.graph.nodes[-1].output))
    return None


def _random(shape: Sequence[int], depth: int) -> Array:
    """Numbers of the size that weights tend to have; large tensors repeat them."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.resize(_drawn()[:count] / np.float32(depth**0.5), count).reshape(shape)


@lru_cache(maxsize=1)
def _drawn() -> Array:
    """Normal numbers, drawn once: a million of them take 8 ms, and a problem has two tensors."""
    drawn = np.random.default_rng(0).standard_normal(_RANDOM, np.float32)
    drawn.flags.writeable = False
    return drawn


def _lowered(graph: Graph, target: Target) -> Call | None:
    nodes = graph.nodes[-1].attrs.get("body", graph).nodes
    images = [*graph.inputs, *graph.outputs] if any(x.op.traits.image for x in nodes) else []
    orders = {v: channels_last(v.type.rank) for v in images}
    program = lower(Program(graph, orders=orders), target)
    (step,) = program.steps
    return step if isinstance(step, Call) else None


def _in_variant(call: Call, name: str, target: Target) -> Call:
    kernel, _ = chosen(call.kernel, lambda *_: Choice(name), target)
    return replace(call, kernel=kernel)


# ----------------------------------------------------------------------------------------- running
class _Room:
    """Memory of the device that is given back together."""

    def __init__(self, device: Gpu) -> None:
        self._device = device
        self._held: list[int] = []
        self._known: dict[Any, tuple[int, int]] = {}

    def of(self, count: int) -> int:
        self._held.append(self._device.allocate(count))
        return self._held[-1]

    def holding(
        self, key: Any, made: Callable[[], Array], copies: int, repeats: int = 1
    ) -> tuple[int, int]:
        """Copies of an array, or of `repeats` of it without a gap, behind each other, and how far
        apart they are; made once for a key."""
        if key not in self._known:
            data = made()
            count = data.nbytes * repeats
            each = _aligned(count)
            first = self.of(each * copies)
            self._known[key] = first, each if copies > 1 else 0
            self._device.upload(first, data)
            for i in range(1, repeats):
                self._device.copy(first + i * data.nbytes, first, data.nbytes)
            for i in range(1, copies):
                self._device.copy(first + i * each, first, count)
        return self._known[key]

    def free(self) -> None:
        self._device.synchronize()
        for address in self._held:
            self._device.free(address)


def _aligned(count: int) -> int:
    return -(-count // 1024) * 1024


@dataclass(frozen=True)
class _Output:
    address: int
    count: int
    value: Value


class _Probe:
    """One variant as a graph of launches, each over a set of weights of its own."""

    def __init__(
        self,
        device: Gpu,
        call: Call,
        kernel: CudaKernel,
        cubin: bytes,
        room: _Room,
    ) -> None:
        self._device = device
        cuda = device.driver
        owned = Owned(self, cuda, device.context)
        module = owned.take("cuModuleUnload", cuda.address("cuModuleLoadData", cubin))
        self.copies = copies = _copies(call)
        pointers: list[tuple[int, int]] = []  # the first, and how far apart copies are
        unread = {form.buffer for form in call.kernel.forms}  # in the form in which they are
        for number, value in enumerate(call.operands):
            if f"x{number}" in unread:
                pointers.append((0, 0))
                continue
            if value.node.op is CONSTANT:
                pointers.append(room.holding(value, partial(_data, value), copies))
                continue
            numbers = int(value.type.numel)  # type: ignore[arg-type]  # known sizes
            # The last of them may be behind the end.
            repeats = 1 if value.type.dtype is bool_ else -(-numbers // _RANDOM)
            pointers.append(room.holding(value, partial(_data, value), 1, repeats))
        pointers += [room.holding(p, partial(_packed, p), copies) for p in call.packed]
        (out,) = call.outputs
        count = int(out.type.numel)  # type: ignore[arg-type]  # known sizes
        self._output = _Output(room.of(count * out.type.dtype.itemsize), count, out)
        pointers.append((self._output.address, 0))
        work = room.of(evaluate(call.kernel.workspace, {}) + 64)
        flag = room.of(64)
        cells: list[int] = []
        nodes: list[tuple[Any, ...]] = []
        for launch in kernel.launches:
            if launch.clock:
                continue
            if launch.library is not None:
                nodes.append((launch, 0, 0, library_call(launch.library)))
                continue
            function = function_of(device, module, launch.function, launch.shared)
            count = evaluate(launch.counters, {})
            counters = room.of(4 * count)
            device.clear(counters, 4 * count)
            nodes.append((launch, function, counters, None))
        order: list[LaunchNode] = []
        for copy in range(copies):
            given = [work, *(p + copy * each for p, each in pointers)]
            for launch, function, counters, library in nodes:
                begin = len(cells)
                cells += [flag, counters, 0, 0, *given]
                for described in launch.maps:
                    cells += encoded(cuda, described, given[described["argument"]], {}).tolist()
                grid = tuple(evaluate(d, {}) for d in launch.grid)
                where = (begin, len(cells))
                node = LaunchNode(
                    0, function, grid, launch.threads, launch.shared, 0, where,  # type: ignore[arg-type]  # three
                    len(launch.maps), library,
                )  # fmt: skip
                order.append(node)
        self._cells = np.array(cells, np.uint64)
        base = self._cells.ctypes.data
        self._held: list[Any] = []
        ready: list[LaunchNode] = []
        for node in order:
            held = parameters_at(base, *node.cells, node.maps)
            self._held.append(held)
            ready.append(replace(node, parameters=ctypes.addressof(held)))
        self._graph = StepGraph(cuda, ready, self._cells, _overlapping(device))
        for free, handle in self._graph.handles():
            owned.take(free, handle)

    def result(self) -> Array:
        """What it computes, as numbers: the first and the last of many."""
        self._graph.launch(self._device.stream)
        out = self._output
        dtype, some = out.value.type.dtype, min(out.count, _COMPARED)
        ends = np.empty((2, some), dtype.storage)
        self._device.download(ends[0], out.address)
        last = (out.count - some) * dtype.itemsize
        self._device.download(ends[1], out.address + last)
        return np.asarray(from_storage(ends, dtype), np.float64)

    def turn(self) -> float:
        """Seconds of one run of the kernel."""
        with self._device.timed() as taken:
            for _ in range(_REPLAYS):
                self._graph.launch(self._device.stream)
        return taken() / (_REPLAYS * self.copies)


def _copies(call: Call) -> int:
    """Sets of weights that leave none of them in the cache until their turn comes again; where what
    is read and written beside them fills it by itself, the fewest."""
    weights = sum(v.node.attrs["data"].nbytes for v in call.operands if v.node.op is CONSTANT)
    beside = [*(v for v in call.operands if v.node.op is not CONSTANT), *call.outputs]
    moved = sum(upper_bytes(v.type.nbytes) for v in beside)
    least, most = _COPIES
    return int(min(max(-(-(_COLD - moved) // max(weights, 1)), least), most))


def _overlapping(device: Gpu) -> bool:
    """Small kernels are launched over each other's ends, and their weights asked for then."""
    return device.capability >= OVERLAP


def _packed(packed: Packed) -> Array:
    return prepared(packed.form, _data(packed.source).reshape(-1))


def _data(value: Value) -> Array:
    """A constant's data, or random numbers for an input, which repeat; flags are those of a prompt
    at the beginning of its cache."""
    if value.node.op is CONSTANT:
        return np.ascontiguousarray(value.node.attrs["data"])
    if value.type.dtype is bool_:
        shape = [int(d) for d in value.type.shape if isinstance(d, int)]
        seen = np.tri(*shape[-2:], dtype=np.uint8) if len(shape) > 1 else np.ones(1, np.uint8)
        return np.ascontiguousarray(np.broadcast_to(seen, shape))
    count = min(int(value.type.numel), _RANDOM)  # type: ignore[arg-type]  # known sizes
    return np.ascontiguousarray(to_storage(_random((count,), 1), value.type.dtype))
