"""Where a nest of loops is cut into several: behind a concatenation, one for each piece.

One nest over a whole concatenation reads every piece for every element and selects among them; a
nest that stays inside of one piece reads that piece alone, at an affine position.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.ops.shapes import axis_of

MOST_PIECES = 64
MOST_COPIES = 512
"""Nests that one kernel is cut into, and ops behind the concatenation times nests: each nest is
code of its own."""

Cut = tuple[int, tuple[int, ...]]
"""An axis, and the sizes of the pieces along it."""


def cut_of(values: Sequence[Value], in_memory: Collection[Value]) -> Cut | None:
    """How the common shape of values falls apart, for the first concatenation that they follow
    element by element; None where nothing does.

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
        if aligned and found is None and node.op.name == "concat":
            axis = axis_of(node.attrs["axis"], value.type.rank)
            sizes = tuple(v.type.shape[axis] for v in node.inputs)
            whole = tuple(s for s in sizes if isinstance(s, int) and s > 0)
            if all(isinstance(s, int) for s in sizes) and 1 < len(whole) <= MOST_PIECES:
                found = axis, whole
        follows = aligned and node.op.kind is Kind.ELEMENTWISE
        behind += follows
        same = [follows and v.type.shape == value.type.shape for v in node.inputs]
        pending += reversed(list(zip(node.inputs, same, strict=True)))
    return found if found is not None and behind * len(found[1]) <= MOST_COPIES else None
