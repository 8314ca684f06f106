"""Decides, for each op that only moves elements, which element of its operand an output element is.

Every entry of `ACCESS` is a generator: it yields the elements that it needs (a value at an index),
is sent the variables that hold them, and returns a C++ expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import float32, float64
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.cxx import COMPUTE_TYPE, number_text, size_text
from glasshouse.lower.index import ZERO, Computed, Index, delinearized, of, offset
from glasshouse.lower.quant import dequantize, quantize
from glasshouse.lower.scalar import Access, ScalarCode, Steps, broadcast_index
from glasshouse.ops.shapes import axis_of

Indices = tuple[Index, ...]


Move = Callable[[Node, int, Indices], tuple[Value, Indices]]
"""Which element of its operand an output element is, for an op that only moves elements."""


def _reshape(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    source = node.inputs[0]
    position = offset(index, node.outputs[port].type.shape)
    places = delinearized(position, source.type.shape)
    return source, tuple(
        ZERO if size == 1 else i for i, size in zip(places, source.type.shape, strict=True)
    )


def _permute(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    rank = len(index)
    where = {axis_of(axis, rank): i for axis, i in zip(node.attrs["axes"], index, strict=True)}
    return node.inputs[0], tuple(where[a] for a in range(rank))


def _rearrange(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    shape = node.inputs[0].type.shape
    where: dict[int, Index] = {}
    for axes, one in zip(node.attrs["plan"], index, strict=True):
        axes = [axis_of(a, len(shape)) for a in axes]
        where.update(zip(axes, delinearized(one, tuple(shape[a] for a in axes)), strict=True))
    return node.inputs[0], tuple(where.get(a, ZERO) for a in range(len(shape)))


def _expand(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    return node.inputs[0], broadcast_index(index, node.inputs[0].type.shape)


def _slice(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    source = node.inputs[0]
    steps = node.attrs["steps"] or (1,) * len(index)
    starts = [_wrapped(s, d) for s, d in zip(node.attrs["starts"], source.type.shape, strict=True)]
    return source, tuple(i * k + s for i, k, s in zip(index, steps, starts, strict=True))


def _split(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    axis = axis_of(node.attrs["axis"], len(index))
    start: Dim = 0
    for size in node.attrs["sizes"][:port]:
        start = start + size
    return node.inputs[0], _at_axis(index, axis, index[axis] + start)


def _flip(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    shape = node.inputs[0].type.shape
    axes = {axis_of(a, len(shape)) for a in node.attrs["axes"]}
    places = enumerate(zip(index, shape, strict=True))
    return node.inputs[0], tuple(-i + (d - 1) if a in axes else i for a, (i, d) in places)


VIEWS: dict[str, Move] = {
    "reshape": _reshape,
    "permute": _permute,
    "rearrange": _rearrange,
    "expand": _expand,
    "slice": _slice,
    "split": _split,
    "flip": _flip,
    "barrier": lambda node, port, index: (node.inputs[0], index),
}


def _moving(move: Move) -> Access:
    """A move as an access: the element is the operand's."""

    def access(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
        return (yield move(node, port, index))

    return access


def _roll(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    shape = node.inputs[0].type.shape
    for axis, shift in zip(node.attrs["axes"], node.attrs["shifts"], strict=True):
        axis = axis_of(axis, len(shape))
        size = size_text(shape[axis])
        text = f"gh::floor_mod<int64_t>({index[axis].text()} - {size_text(shift)}, {size})"
        index = _at_axis(index, axis, of(Computed(text)))
    return (yield node.inputs[0], index)


def _concat(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    """Each operand is read at a place clamped into it, and the right one is chosen."""
    code.scalars_only()
    axis = axis_of(node.attrs["axis"], len(index))
    here = index[axis].text()
    parts: list[tuple[str, str]] = []
    start: Dim = 0
    for operand in node.inputs:
        size = operand.type.shape[axis]
        if size != 0:
            clamped = f"gh::clamp({here} - {size_text(start)}, {size_text(size)})"
            name = yield operand, _at_axis(index, axis, of(Computed(clamped)))
            parts.append((f"{here} < {size_text(start + size)}", name))
        start = start + size
    text = parts[-1][1]
    for condition, name in reversed(parts[:-1]):
        text = f"({condition}) ? {name} : ({text})"
    return text


def _pad(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    source = node.inputs[0]
    rank = len(index)
    begins, mode = node.attrs["padding"][:rank], node.attrs["mode"]
    inside: list[str] = []
    moved: list[Index] = []
    for axis, (one, size) in enumerate(zip(index, source.type.shape, strict=True)):
        shifted = one + -begins[axis]
        if begins[axis] == 0 and node.attrs["padding"][rank + axis] == 0:
            moved.append(shifted)
            continue
        here, limit = shifted.text(), size_text(size)
        inside.append(f"uint64_t({here}) < uint64_t({limit})")
        helper = "reflect" if mode == "reflect" else "clamp"
        moved.append(of(Computed(f"gh::{helper}({here}, {limit})")))
    name = yield source, tuple(moved)
    if mode != "constant" or not inside:
        return name
    code.scalars_only()
    dtype = source.type.dtype
    return f"({' && '.join(inside)}) ? {name} : {number_text(node.attrs['value'], dtype)}"


def _take(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    source, indices = node.inputs
    axis = axis_of(node.attrs["axis"], source.type.rank)
    middle = indices.type.rank
    place = yield indices, index[axis : axis + middle]
    picked = of(Computed(_checked(place, source.type.shape[axis])))
    return (yield source, (*index[:axis], picked, *index[axis + middle :]))


def _gather(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    source, indices = node.inputs
    axis = axis_of(node.attrs["axis"], len(index))
    place = yield indices, index
    return (
        yield source, _at_axis(index, axis, of(Computed(_checked(place, source.type.shape[axis]))))
    )


def _gather_nd(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    source, indices = node.inputs
    lead = indices.type.rank - 1
    depth = indices.type.shape[-1]
    assert isinstance(depth, int), "the op's shape rule wants it fixed"
    places: list[Index] = []
    for axis in range(depth):
        name = yield indices, (*index[:lead], Index((), axis))
        places.append(of(Computed(_checked(name, source.type.shape[axis]))))
    return (yield source, (*places, *index[lead:]))


def _random(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    """A random element: a hash of the seed and of the element's number."""
    code.scalars_only()
    seed = yield node.inputs[-1], ()
    number = offset(index, node.outputs[0].type.shape).text()
    dtype = node.outputs[0].type.dtype
    wide = dtype if dtype is float64 else float32
    if node.op.name == "dropout":
        x = yield node.inputs[0], index
        p = node.attrs["p"]
        scale = number_text(1 / (1 - p) if p < 1 else 0.0, wide)
        zero = number_text(0.0, wide)
        return f"gh::keeps({seed}, {number}, {math.ceil(p * 2**24)}) ? {x} * {scale} : {zero}"
    first, second = (
        (node.attrs["low"], node.attrs["high"] - node.attrs["low"])
        if node.op.name == "uniform"
        else (node.attrs["mean"], node.attrs["std"])
    )
    numbers = f"{number_text(first, wide)}, {number_text(second, wide)}"
    return f"gh::{node.op.name}<{COMPUTE_TYPE[wide]}>({seed}, {number}, {numbers})"


def _triangle(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    code.scalars_only()
    name = yield node.inputs[0], index
    row, column = index[-2].text(), index[-1].text()
    compare = ">=" if node.attrs["upper"] else "<="
    zero = number_text(0, node.outputs[0].type.dtype)
    return f"({column} {compare} {row} + {size_text(node.attrs['diagonal'])}) ? {name} : {zero}"


def _one_hot(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    code.scalars_only()
    name = yield node.inputs[0], index[:-1]
    dtype = node.outputs[0].type.dtype
    return f"{COMPUTE_TYPE[dtype]}({name} == {index[-1].text()})"


def _full(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    yield from ()  # needs no element
    value, dtype = node.attrs["value"], node.outputs[0].type.dtype
    if isinstance(value, SymDim):
        code.scalars_only()
        return f"{COMPUTE_TYPE[dtype]}({size_text(value)})"
    return code.number(value, dtype)


def _arange(code: ScalarCode, node: Node, port: int, index: Indices) -> Steps:
    yield from ()  # needs no element
    code.scalars_only()
    dtype = node.outputs[0].type.dtype
    ctype = COMPUTE_TYPE[dtype]
    start, step = (
        number_text(a, dtype) if isinstance(a, (int, float)) else f"{ctype}({size_text(a)})"
        for a in (node.attrs["start"], node.attrs["step"])
    )
    return f"{start} + {ctype}({index[0].text()}) * {step}"


def _at_axis(index: Indices, axis: int, one: Index) -> Indices:
    return (*index[:axis], one, *index[axis + 1 :])


def _wrapped(start: Dim, size: Dim) -> Dim:
    return start + size if isinstance(start, int) and start < 0 else start


def _checked(name: str, size: Dim) -> str:
    """An index from data: negative ones count from the end; the rest is kept inside the buffer."""
    return f"ctx.index({name}, {size_text(size)})"


ACCESS: dict[str, Access] = {
    **{name: _moving(move) for name, move in VIEWS.items()},
    "roll": _roll,
    "concat": _concat,
    "pad": _pad,
    "take": _take,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "uniform": _random,
    "normal": _random,
    "dropout": _random,
    "triangle": _triangle,
    "one_hot": _one_hot,
    "full": _full,
    "arange": _arange,
    "quantize": quantize,
    "dequantize": dequantize,
}
