"""Which element of its operand an output element is, for each op that only moves elements; and how
the elements of ops that look at positions are made.

Every entry of `ACCESS` is a generator: it yields the elements that it needs (a value at an index),
is sent the variables that hold them, and returns an expression.
"""

from __future__ import annotations

from collections.abc import Callable

from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import int64
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.element import Access, Steps, applied, broadcast_index
from glasshouse.lower.kernel.expr import Apply, Choose, Compare, Expr, Number, Position
from glasshouse.lower.kernel.index import (
    CLAMPED,
    GUARDED,
    REFLECTED,
    WRAPPED,
    ZERO,
    Checked,
    Index,
    delinearized,
    derived,
    of,
    offset,
)
from glasshouse.lower.quant import quantized
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


def _windows(node: Node, port: int, index: Indices) -> tuple[Value, Indices]:
    axis = axis_of(node.attrs["axis"], len(index) - 1)
    *rest, inner = index
    place = rest[axis] * node.attrs["step"] + inner * node.attrs["dilation"]
    return node.inputs[0], _at_axis(tuple(rest), axis, place)


VIEWS: dict[str, Move] = {
    "reshape": _reshape,
    "permute": _permute,
    "rearrange": _rearrange,
    "expand": _expand,
    "slice": _slice,
    "split": _split,
    "flip": _flip,
    "windows": _windows,
    "barrier": lambda node, port, index: (node.inputs[0], index),
}


def _moving(move: Move) -> Access:
    """A move as an access: the element is the operand's."""

    def access(node: Node, port: int, index: Indices) -> Steps:
        return (yield move(node, port, index))

    return access


def _roll(node: Node, port: int, index: Indices) -> Steps:
    shape = node.inputs[0].type.shape
    for axis, shift in zip(node.attrs["axes"], node.attrs["shifts"], strict=True):
        axis = axis_of(axis, len(shape))
        size = shape[axis]
        if isinstance(shift, int) and isinstance(size, int) and size:
            shift %= size
        index = _at_axis(index, axis, derived(WRAPPED, index[axis] + -shift, size))
    return (yield node.inputs[0], index)


def _concat(node: Node, port: int, index: Indices) -> Steps:
    """Each operand is read at a place clamped into it, and the right one is chosen; where one of
    them surely holds the place, that one is read alone."""
    axis = axis_of(node.attrs["axis"], len(index))
    here = index[axis]
    begin: Dim = 0
    for operand in node.inputs:
        inside = here + -begin
        if inside.within(operand.type.shape[axis]):
            return (yield operand, _at_axis(index, axis, inside))
        begin = begin + operand.type.shape[axis]
    parts: list[tuple[Expr, Dim]] = []  # a part, and where it ends
    start: Dim = 0
    for operand in node.inputs:
        size = operand.type.shape[axis]
        if size != 0:
            guarded = derived(GUARDED, here + -start, size)
            var = yield operand, _at_axis(index, axis, guarded)
            parts.append((var, start + size))
        start = start + size
    while len(parts) > 1:  # neighbours become one: thousands of parts nest a dozen deep
        joined: list[tuple[Expr, Dim]] = []
        for at in range(0, len(parts) - 1, 2):
            (left, border), (right, end) = parts[at : at + 2]
            left_holds = Compare("<", here, Index((), border))
            joined.append((Choose((left_holds,), left, right), end))
        parts = joined + parts[len(parts) // 2 * 2 :]
    return parts[0][0]


def _pad(node: Node, port: int, index: Indices) -> Steps:
    source = node.inputs[0]
    rank = len(index)
    begins, mode = node.attrs["padding"][:rank], node.attrs["mode"]
    if 0 in source.type.shape:  # there is no element to read, not even one that is not taken
        return Number(node.attrs["value"], source.type.dtype)
    inside: list[Compare] = []
    moved: list[Index] = []
    for axis, (one, size) in enumerate(zip(index, source.type.shape, strict=True)):
        shifted = one + -begins[axis]
        if shifted.within(size) or begins[axis] == node.attrs["padding"][rank + axis] == 0:
            moved.append(shifted)
            continue
        if mode == "constant" and shifted.outside(size):
            return Number(node.attrs["value"], source.type.dtype)
        inside.append(Compare("inside", shifted, Index((), size)))
        how = {"reflect": REFLECTED, "edge": CLAMPED}.get(mode, GUARDED)
        moved.append(derived(how, shifted, size))
    var = yield source, tuple(moved)
    if mode != "constant" or not inside:
        return var
    return Choose(tuple(inside), var, Number(node.attrs["value"], source.type.dtype))


def _take(node: Node, port: int, index: Indices) -> Steps:
    source, indices = node.inputs
    axis = axis_of(node.attrs["axis"], source.type.rank)
    middle = indices.type.rank
    place = yield indices, index[axis : axis + middle]
    picked = of(Checked(place.name, source.type.shape[axis]))
    return (yield source, (*index[:axis], picked, *index[axis + middle :]))


def _gather(node: Node, port: int, index: Indices) -> Steps:
    source, indices = node.inputs
    axis = axis_of(node.attrs["axis"], len(index))
    place = yield indices, index
    picked = of(Checked(place.name, source.type.shape[axis]))
    return (yield source, _at_axis(index, axis, picked))


def _gather_nd(node: Node, port: int, index: Indices) -> Steps:
    source, indices = node.inputs
    lead = indices.type.rank - 1
    depth = indices.type.shape[-1]
    assert isinstance(depth, int), "the op's shape rule wants it fixed"
    places: list[Index] = []
    for axis in range(depth):
        place = yield indices, (*index[:lead], Index((), axis))
        places.append(of(Checked(place.name, source.type.shape[axis])))
    return (yield source, (*places, *index[lead:]))


def _random(node: Node, port: int, index: Indices) -> Steps:
    """A random element: a hash of the seed and of the element's number."""
    seed = yield node.inputs[-1], ()
    number = Position(offset(index, node.outputs[0].type.shape), int64)
    if node.op.name == "dropout":
        x = yield node.inputs[0], index
        return applied(node, x, seed, number)
    return applied(node, seed, number)


def _triangle(node: Node, port: int, index: Indices) -> Steps:
    var = yield node.inputs[0], index
    compare = ">=" if node.attrs["upper"] else "<="
    condition = Compare(compare, index[-1], index[-2] + node.attrs["diagonal"])
    return Choose((condition,), var, Number(0, node.outputs[0].type.dtype))


def _one_hot(node: Node, port: int, index: Indices) -> Steps:
    var = yield node.inputs[0], index[:-1]
    return applied(node, var, Position(index[-1], int64))


def _full(node: Node, port: int, index: Indices) -> Steps:
    yield from ()  # needs no element
    value, dtype = node.attrs["value"], node.outputs[0].type.dtype
    if isinstance(value, SymDim):
        return Position(Index((), value), dtype)
    return Number(value, dtype)


def _arange(node: Node, port: int, index: Indices) -> Steps:
    yield from ()  # needs no element
    dtype = node.outputs[0].type.dtype
    attrs = tuple((name, node.attrs[name]) for name in ("start", "step"))
    return Apply("arange", (Position(index[0], dtype),), dtype, attrs)


def _at_axis(index: Indices, axis: int, one: Index) -> Indices:
    return (*index[:axis], one, *index[axis + 1 :])


def _wrapped(start: Dim, size: Dim) -> Dim:
    return start + size if isinstance(start, int) and start < 0 else start


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
    "quantize": quantized,
    "dequantize": quantized,
}
