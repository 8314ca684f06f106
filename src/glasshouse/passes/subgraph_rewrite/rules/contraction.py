"""Which sums of broadcast products are matrix products: `(a[:, :, None] * b[:, None]).sum(-1)`.

Axes of the product fall into four kinds: those of both operands that stay (the batch), those of one
alone (rows, columns), and those of both that are summed (the depth). Loops compute such a sum
without storing the products, but multiply at a half to a fifth of a matrix product's speed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.types import Shape
from glasshouse.ops.shapes import axes_of
from glasshouse.passes.patterns import made_by, single_use
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

WIDE, DEEP = 8, 16
"""Rows and columns, and elements of a sum, from which on tiles of a matrix product are filled."""


@dataclass
class _Axes:
    """The axes of a product of two operands, by kind."""

    batch: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)


@rule("sum", why="the sum of products over axes of both operands is a matrix product")
def sum_of_products(node: Node, rw: Rewriter) -> Match | None:
    times = made_by(node.inputs[0], "multiply")
    if not times or not single_use(rw.graph, times.output):
        return None
    made = times.output.type
    if not made.dtype.is_float or any(v.type.dtype is not made.dtype for v in times.inputs):
        return None
    if node.output.type.dtype is not made.dtype:
        return None
    x, y = times.inputs
    axes = _sorted(x, y, made.shape, set(axes_of(node.attrs["axes"], made.rank)))
    if axes is None:
        return None

    def size(kind: list[int]) -> Dim:
        return product(tuple(made.shape[a] for a in kind))

    wide = min(bounds(size(axes.rows))[0], bounds(size(axes.columns))[0])
    if wide < WIDE or bounds(size(axes.depth))[0] < DEEP:
        return None

    def build() -> Expr:
        left, transpose_x = _matrix(rw, x, made.shape, axes, axes.rows)
        right, turned = _matrix(rw, y, made.shape, axes, axes.columns)
        out = left.apply("matmul", right, transpose_x=transpose_x, transpose_y=not turned)
        order = [*axes.batch, *axes.rows, *axes.columns]
        out = out.apply("reshape", shape=tuple(made.shape[a] for a in order))
        if order != sorted(order):
            out = out.apply("permute", axes=[order.index(a) for a in sorted(order)])
        found: Expr = out.apply("reshape", shape=node.output.type.shape)
        return found

    return Match(build, matched=[times])


def _sorted(x: Value, y: Value, shape: Shape, summed: set[int]) -> _Axes | None:
    """The kinds of all axes; None where one operand alone is summed along an axis."""
    out = _Axes()
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        has = [_has(v.type.shape, len(shape), axis) for v in (x, y)]
        if axis in summed and not all(has):
            return None
        kind = out.depth if axis in summed else out.batch if all(has) else None
        (kind if kind is not None else out.rows if has[0] else out.columns).append(axis)
    return out


def _has(shape: Shape, rank: int, axis: int) -> bool:
    at = axis - (rank - len(shape))
    return at >= 0 and shape[at] != 1


def _matrix(
    rw: Rewriter, value: Value, shape: Shape, axes: _Axes, own: list[int]
) -> tuple[Expr, bool]:
    """An operand as a batch of matrices, and whether the depth comes before its own axes there:
    as it lies, where axes of a kind lie side by side."""
    kept = sorted([*axes.batch, *own, *axes.depth])
    turned = bool(own) and axes.depth[0] < own[0]
    order = [*axes.batch, *axes.depth, *own] if turned else [*axes.batch, *own, *axes.depth]
    out: Expr = rw.expr(value).apply("reshape", shape=tuple(shape[a] for a in kept))
    if order != kept:
        out = out.apply("permute", axes=[kept.index(a) for a in order])
    pair = [axes.depth, own] if turned else [own, axes.depth]
    sizes = [product(tuple(shape[a] for a in kind)) for kind in pair]
    batch = [product(tuple(shape[a] for a in axes.batch))] if axes.batch else []
    return out.apply("reshape", shape=(*batch, *sizes)), turned
