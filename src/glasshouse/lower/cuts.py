"""Where a nest of loops is cut into several: behind a concatenation, one for each piece.

One nest over a whole concatenation reads every piece for every element and selects among them; a
nest that stays inside of one piece reads that piece alone, at an affine position. Pieces that are
concatenations fall apart further. So it is with borders: of a padded axis, what is inside has a
nest of its own, and a rolled axis has two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from glasshouse.ir.dim import Dim, remainder
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ops.shapes import axis_of

MOST_PIECES = 2048
MOST_COPIES = 512
"""Nests that one kernel is cut into, and ops behind the concatenation times nests: each nest is
code of its own. Less code than the selection: 1,500 rows of 16 take 1.2 s to compile and 0.43 ms
to copy, against 10 s and 2.8 ms."""

Pieces = tuple[int, tuple[Dim, ...]]
"""An axis, and the sizes of the pieces along it."""
Cut = tuple[int, tuple[int, ...]]
"""The same, with sizes that are known and not 0."""


def _of_concat(node: Node, fastest: int) -> Pieces:
    axis = axis_of(node.attrs["axis"], node.output.type.rank)
    return axis, tuple(v.type.shape[axis] for v in node.inputs)


def _of_pad(node: Node, fastest: int) -> Pieces:
    """Along other axes neighbours share what is chosen: one nest does."""
    shape, padding = node.inputs[0].type.shape, node.attrs["padding"]
    return fastest, (padding[fastest], shape[fastest], padding[len(shape) + fastest])


def _of_roll(node: Node, fastest: int) -> Pieces:
    shape = node.output.type.shape
    axes = [axis_of(a, len(shape)) for a in node.attrs["axes"]]
    if fastest not in axes or shape[fastest] == 0:
        return fastest, ()
    first = remainder(node.attrs["shifts"][axes.index(fastest)], shape[fastest])
    return fastest, (first, shape[fastest] - first)


_PIECES: dict[str, Callable[[Node, int], Pieces]] = {
    "concat": _of_concat, "pad": _of_pad, "roll": _of_roll,
}  # fmt: skip


def _known(axis: int, sizes: tuple[Dim, ...]) -> Cut | None:
    """A cut into pieces whose sizes are known, and not too many of them."""
    whole = tuple(s for s in sizes if isinstance(s, int) and s > 0)
    known = all(isinstance(s, int) and s >= 0 for s in sizes)
    return (axis, whole) if known and 1 < len(whole) <= MOST_PIECES else None


Box = dict[int, tuple[int, int]]
"""A part of a shape: first place and size along the axes that are cut, the others being whole."""


def boxes_of(values: Sequence[Value], in_memory: Collection[Value], fastest: int) -> list[Box]:
    """The parts into which the common shape of values falls, for all concatenations and for the
    first border or roll that they follow element by element. Along `fastest` neighbours lie side by
    side.

    What is not in memory is computed in every part that needs it, so a fold among it stands
    against a cut: it would be computed once for each.
    """
    done: list[Box] = []
    pending: list[Box] = [{}]
    while pending:
        box = pending.pop()
        found = _cut_of(values, in_memory, fastest, box, len(done) + len(pending) + 1)
        if found is None:
            done.append(box)
            continue
        axis, sizes = found
        parts: list[Box] = []
        begin = box[axis][0] if axis in box else 0
        for size in sizes:
            parts.append({**box, axis: (begin, size)})
            begin += size
        pending += reversed(parts)
    return done


def _cut_of(
    values: Sequence[Value], in_memory: Collection[Value], fastest: int, box: Box, boxes: int
) -> Cut | None:
    """How a part of the shape falls apart further, where it is one of so many; None: it does not.

    A value that the walk reaches is aligned at an origin: its element at a place is needed at that
    place plus the origin.
    """
    found: Cut | None = None
    behind = 0
    start: tuple[Dim, ...] = (0,) * max((v.type.rank for v in values), default=0)
    pending: list[tuple[Value, tuple[Dim, ...] | None]] = [(v, start) for v in reversed(values)]
    seen: set[tuple[Value, tuple[Dim, ...] | None]] = set()
    while pending:
        value, origin = pending.pop()
        if (value, origin) in seen or value in in_memory:
            continue
        seen.add((value, origin))
        node = value.node
        if node.op.kind not in (Kind.SOURCE, Kind.ELEMENTWISE, Kind.INJECTIVE):
            return None
        if origin is not None and node.op.name == "concat":
            inside = _operand_in(node, origin, box)
            if inside is not None:
                pending.append(inside)
                continue
        if origin is not None and found is None and node.op.name in _PIECES:
            found = _inside(_known(*_PIECES[node.op.name](node, fastest)), origin, box)
        follows = origin is not None and node.op.kind is Kind.ELEMENTWISE
        behind += follows
        same = [follows and v.type.shape == value.type.shape for v in node.inputs]
        pending += [
            (v, origin if s else None)
            for v, s in reversed(list(zip(node.inputs, same, strict=True)))
        ]
    if found is None:
        return None
    parts = len(found[1]) + boxes - 1
    return found if parts <= MOST_PIECES and behind * parts <= MOST_COPIES else None


def _inside(cut: Cut | None, origin: tuple[Dim, ...], box: Box) -> Cut | None:
    """A cut of a value at an origin, as far as it goes through a part of the shape."""
    begin = origin[cut[0]] if cut else None
    if cut is None or not isinstance(begin, int):
        return None
    axis, sizes = cut
    first, size = box.get(axis, (begin, sum(sizes)))
    edges = [begin + sum(sizes[:i]) for i in range(1, len(sizes))]
    inner = [first, *(e for e in edges if first < e < first + size), first + size]
    return (axis, tuple(b - a for a, b in pairwise(inner))) if len(inner) > 2 else None


def _operand_in(
    node: Node, origin: tuple[Dim, ...], box: Box
) -> tuple[Value, tuple[Dim, ...]] | None:
    """The piece of a concatenation in which a part of the shape lies, with its origin."""
    axis = axis_of(node.attrs["axis"], node.output.type.rank)
    if axis not in box:
        return None
    first, size = box[axis]
    begin = origin[axis]
    for operand in node.inputs:
        length = operand.type.shape[axis]
        if not isinstance(begin, int) or not isinstance(length, int):
            return None
        if begin <= first and first + size <= begin + length:
            return operand, (*origin[:axis], begin, *origin[axis + 1 :])
        begin += length
    return None
