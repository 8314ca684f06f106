"""Which batched products are arithmetic: many items of a few elements each.

A routine takes 0.4 us to begin with an item, whatever its size; rotations of points, covariances of
blobs and distances by a metric are 2 to 4 elements wide. Written as multiplications and additions
they are fused with what surrounds them. So are products of a vector with the window around it: as a
matrix each element would be stored as often as there are windows over it.
"""

from __future__ import annotations

from glasshouse.ir.dim import bounds, product
from glasshouse.ir.dtype import float32, float64
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

_ITEMS = 64
"""Items from which it pays: fewer begin in 25 us. Of any number there may be as many."""
_DEPTH, _WORK = 4, 64
"""The sums of an item, and its multiplications: a 4 x 4 matrix times another."""
_ROW = 8
"""The multiplications of a row, where there are many rows: a vector would be half empty."""
_COLUMN = 12
"""The multiplications of a column, where there are many columns: vectors go along them."""


@rule("matmul", why="items so small are arithmetic; a routine would take longer to begin with one")
def tiny_product(node: Node, rw: Rewriter) -> Match | None:
    x, y = node.inputs
    if x.type.rank < 2 or y.type.rank < 2 or product(y.type.shape[:-2]) == 1:
        return None
    if not x.type.dtype.is_float or x.type.dtype is not y.type.dtype:
        return None
    *batch, rows, columns = node.output.type.shape
    depth = x.type.shape[-2 if node.attrs["transpose_x"] else -1]
    if not isinstance(depth, int) or not 0 < depth <= _DEPTH:
        return None
    items, m, n = (bounds(d)[1] for d in (product(tuple(batch)), rows, columns))
    if not (items >= _ITEMS and m and n):
        return None
    if m * n * depth > _WORK and n * depth > _ROW and m * depth > _COLUMN:
        return None
    return Match(lambda: _summed(node, rw, depth))


@rule("matmul", why="a vector times the windows around it is a sum; a product would store them all")
def product_over_windows(node: Node, rw: Rewriter) -> Match | None:
    x, y = node.inputs
    if x.type.rank < 3 or x.type.rank != y.type.rank or not x.type.dtype.is_float:
        return None
    if bounds(product(x.type.shape[:-2]))[0] < _ITEMS:
        return None
    depth_x = -2 if node.attrs["transpose_x"] else -1
    depth_y = -1 if node.attrs["transpose_y"] else -2
    if node.output.type.shape[-2] == 1 and _is_windows(y):
        return Match(lambda: _weighed(rw, node, (x, depth_x), (y, depth_y), -2))
    if node.output.type.shape[-1] == 1 and _is_windows(x):
        return Match(lambda: _weighed(rw, node, (y, depth_y), (x, depth_x), -1))
    return None


def _weighed(
    rw: Rewriter, node: Node, vector: tuple[Value, int], windows: tuple[Value, int], flat: int
) -> Expr:
    """The sum of windows, each element times its weight; both with the axis of their depth, and
    `flat`, the axis of size 1 of the result."""
    dtype = node.output.type.dtype
    wide = dtype if dtype is float64 else float32
    (weights, own), (elements, depth) = vector, windows
    left = rw.expr(weights) if own == depth else _turned(rw.expr(weights))
    terms = left.cast(wide) * rw.expr(elements).cast(wide)
    total: Expr = terms.apply("sum", axes=[depth], keepdims=True)
    out: Expr = (total if depth == flat else _turned(total)).cast(dtype)
    return out


def _is_windows(value: Value) -> bool:
    """Whether a value is windows over another, in any order of their axes."""
    node = value.node
    while node.op.name == "permute":
        node = node.inputs[0].node
    return node.op.name == "windows"


def _turned(x: Expr) -> Expr:
    out: Expr = x.apply("permute", axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return out


def _summed(node: Node, rw: Rewriter, depth: int) -> Expr:
    x, y = node.inputs
    dtype = node.output.type.dtype
    wide = dtype if dtype is float64 else float32
    across, turned = node.attrs["transpose_x"], node.attrs["transpose_y"]
    total: Expr | None = None
    for k in range(depth):
        left = _line(rw, x, -2 if across else -1, k, across)
        right = _line(rw, y, -1 if turned else -2, k, turned)
        term = left.cast(wide) * right.cast(wide)
        total = term if total is None else total + term
    assert total is not None
    out: Expr = total.cast(dtype)
    return out


def _line(rw: Rewriter, value: Value, axis: int, at: int, turn: bool) -> Expr:
    """One row or column of each item, where the product has it."""
    shape = value.type.shape
    rank = len(shape)
    starts, ends = [0] * rank, list(shape)
    starts[axis], ends[axis] = at, at + 1
    line: Expr = rw.expr(value).apply("slice", starts=starts, ends=ends)
    return _turned(line) if turn else line
