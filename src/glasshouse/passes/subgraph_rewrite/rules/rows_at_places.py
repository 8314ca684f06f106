"""Gathers and scatters whose index is the same for a whole row become those of rows:
`i[:, None].expand(-1, c)`, as graph networks spell it.

Rows are moved in runs, and each index is looked up once, not once for each element.
"""

from __future__ import annotations

from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import made_by
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("scatter", why="all elements of a row have one place: rows are written")
def scatter_of_rows(node: Node, rw: Rewriter) -> Match | None:
    x, index, new = node.inputs
    found = _rows(node, x, index)
    if found is None:
        return None
    axis, places, matched = found

    def build() -> Expr:
        where = _counted(rw, places, matched, (index.type.shape[axis], 1))
        mode = node.attrs["mode"]
        out: Expr = rw.expr(x).apply("scatter_nd", where, rw.expr(new), mode=mode, axis=axis)
        return out

    return Match(build, matched=matched)


@rule("gather", why="all elements of a row have one place: rows are taken")
def gather_of_rows(node: Node, rw: Rewriter) -> Match | None:
    x, index = node.inputs
    found = _rows(node, x, index)
    if found is None:
        return None
    axis, places, matched = found

    def build() -> Expr:
        where = _counted(rw, places, matched, (index.type.shape[axis],))
        out: Expr = rw.expr(x).apply("take", where, axis=axis)
        return out

    return Match(build, matched=matched)


def _rows(node: Node, x: Value, index: Value) -> tuple[int, Value, list[Node]] | None:
    """The axis, the place of each row, and the nodes that repeat it over the row's elements."""
    axis = axis_of(node.attrs["axis"], x.type.rank)
    front = made_by(index, "from_front")
    repeated = made_by(front.inputs[0] if front else index, "expand")
    if not repeated:
        return None
    places, shape = repeated.inputs[0], index.type.shape
    own = (1,) * (len(shape) - places.type.rank) + tuple(places.type.shape)
    if any(size != 1 for a, size in enumerate(own) if a != axis) or own[axis] != shape[axis]:
        return None
    if any(shape[a] != size for a, size in enumerate(x.type.shape) if a != axis):
        return None  # part of each row
    return axis, places, [repeated, *([front] if front else [])]


def _counted(rw: Rewriter, places: Value, matched: list[Node], shape: tuple[object, ...]) -> Expr:
    """The places in another shape, counted from the front where the repeated ones were."""
    where: Expr = rw.expr(places).apply("reshape", shape=shape)
    if len(matched) == 2:
        where = where.apply("from_front", **matched[1].attrs)
    return where
