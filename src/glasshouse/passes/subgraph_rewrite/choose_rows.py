"""Turns scatters of few rows (into a cache of keys), or of one element of each row (the label's in
a cross entropy), into a select between old and new.

Each row compares its index with those that are written: elementwise, so that it is fused with its
neighbours, and the last of equal indices wins. It costs a comparison for each pair of a row and an
index, so it is done for few of them.
"""

from __future__ import annotations

from glasshouse.ir.dim import bounds
from glasshouse.ir.dtype import int64
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.create import arange_near
from glasshouse.ops.shapes import axis_of

MOST_PAIRS = 1 << 22
"""Comparisons: 4 million take a GPU less than a launch."""


_MEETS = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


def choose_rows(graph: Graph, rw: Rewriter, target: Target) -> None:
    """Rewrite writes where a target would rather compare."""
    if not target.compares_places:
        return
    ways = {"scatter": (_is_one, _one_chosen), "scatter_nd": (_suits, _chosen)}
    for node in [n for n in graph.nodes if n.op.name in ways]:
        suits, chosen = ways[node.op.name]
        if suits(node):
            rw.replace(
                node,
                lambda node=node, chosen=chosen: chosen(node, rw),  # type: ignore[misc]  # bound now
                rule="choose-rows",
                why=f"on {target.name} comparing the few places that are written with all of them "
                "is fused with what stands around it, and writing them is not",
            )


def _is_one(node: Node) -> bool:
    """Whether one element is written along each line, as the gradient of a cross entropy does."""
    x, places, _ = node.inputs
    axis = axis_of(node.attrs["axis"], x.type.rank)
    shape = tuple(1 if i == axis else d for i, d in enumerate(x.type.shape))
    return places.type.shape == shape


def _one_chosen(node: Node, rw: Rewriter) -> list[Expr]:
    x, places, new = (rw.expr(v) for v in node.inputs)
    axis = axis_of(node.attrs["axis"], x.ndim)
    each = arange_near(x, x.shape[axis])
    # Reading an element's own number at each place is what finds places outside.
    where = each.apply("take", places, axis=0)
    own = each.apply("reshape", shape=(x.shape[axis], *[1] * (x.ndim - 1 - axis)))
    meets = _MEETS.get(node.attrs["mode"])
    return [own.apply("equal", where).apply("where", x.apply(meets, new) if meets else new, x)]


def _suits(node: Node) -> bool:
    x, places, _ = node.inputs
    if node.attrs["mode"] != "set" or places.type.rank != 2 or places.type.shape[1] != 1:
        return False
    rows, count = x.type.shape[node.attrs["axis"]], places.type.shape[0]
    return bounds(count)[0] > 0 and bounds(rows)[1] * bounds(count)[1] <= MOST_PAIRS


def _chosen(node: Node, rw: Rewriter) -> list[Expr]:
    x, places, new = (rw.expr(v) for v in node.inputs)
    axis = node.attrs["axis"]
    rows, count = x.shape[axis], places.shape[0]
    each = arange_near(x, rows)
    # Reading a row's own number at each place is what finds places outside.
    where = each.apply("take", places.apply("reshape", shape=(count,)), axis=0)
    row = (rows, *[1] * (x.ndim - 1 - axis))
    if count == 1:
        mine = each.apply("equal", where).apply("reshape", shape=row)
        return [mine.apply("where", new, x)]
    same = each.apply("reshape", shape=(rows, 1)).apply("equal", where)
    last = same.apply("where", arange_near(x, count), -1).apply("max", axes=(1,), keepdims=False)
    mine = last.apply("greater_equal", 0).apply("reshape", shape=row)
    taken = new.apply("take", last.apply("maximum", 0), axis=axis)
    assert last.dtype is int64
    return [mine.apply("where", taken, x)]
