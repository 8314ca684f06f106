"""Where a nest of loops is cut into several: behind a concatenation, one for each piece.

One nest over a whole concatenation reads every piece for every element and selects among them; a
nest that stays inside of one piece reads that piece alone, at an affine position. So it is with
borders: of a padded axis, what is inside has a nest of its own, and a rolled axis has two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from glasshouse.ir.dim import Dim, remainder
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ops.shapes import axis_of

MOST_PIECES = 64
MOST_COPIES = 512
"""Nests that one kernel is cut into, and ops behind the concatenation times nests: each nest is
code of its own."""

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


def cut_of(values: Sequence[Value], in_memory: Collection[Value], fastest: int) -> Cut | None:
    """How the common shape of values falls apart, for the first concatenation (border, roll) that
    they follow element by element; None where nothing does. Along `fastest` neighbours lie side by
    side.

    What is not in memory is computed in every piece that needs it, so a fold among it stands
    against a cut: it would be computed once for each.
    """
    found: Cut | None = None
    behind = 0
    pending = [(v, True) for v in reversed(values)]
    seen: set[tuple[Value, bool]] = set()
    while pending:
        value, aligned = pending.pop()
        if (value, aligned) in seen or value in in_memory:
            continue
        seen.add((value, aligned))
        node = value.node
        if node.op.kind not in (Kind.SOURCE, Kind.ELEMENTWISE, Kind.INJECTIVE):
            return None
        if aligned and found is None and node.op.name in _PIECES:
            found = _known(*_PIECES[node.op.name](node, fastest))
        follows = aligned and node.op.kind is Kind.ELEMENTWISE
        behind += follows
        same = [follows and v.type.shape == value.type.shape for v in node.inputs]
        pending += reversed(list(zip(node.inputs, same, strict=True)))
    return found if found is not None and behind * len(found[1]) <= MOST_COPIES else None
