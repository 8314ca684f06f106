"""How scales and shifts next to a matmul or convolution are folded into its weights.

Only constants of the output's last axis (matmul) or channel axis (convolution), or single numbers,
can go in; weights are computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import (
    Array,
    array_of,
    is_constant,
    made_by,
    single_use,
    with_constant,
)
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("multiply", why="the scale fits into the weights")
def scale_of_linear(node: Node, rw: Rewriter) -> Match | None:
    found = with_constant(node)
    linear = made_by(found[0], "matmul", "conv") if found else None
    if not found or not linear or not single_use(rw.graph, linear.output):
        return None
    if linear.output.type != node.output.type:
        return None
    scale, weight = array_of(found[1]), array_of(linear.inputs[1])
    if scale is None or weight is None or not linear.output.type.dtype.is_float:
        return None
    rank = node.output.type.rank
    if linear.op.name == "conv":
        scaled = _scaled_conv(weight, scale, rank)
    elif weight.ndim == 2:
        scaled = _scaled_columns(weight, scale, rank, linear.attrs["transpose_y"])
    else:
        return None
    if scaled is None:
        return None
    return Match(lambda: _again(rw, linear, scaled), matched=[linear])


@rule("multiply", why="a scaled sum is a sum of scaled terms, and the product fits into weights")
def scale_of_biased(node: Node, rw: Rewriter) -> Match | None:
    found = with_constant(node)
    add = made_by(found[0], "add") if found else None
    inner = with_constant(add) if add else None
    if not found or not add or not inner or not single_use(rw.graph, add.output):
        return None
    linear = made_by(inner[0], "matmul", "conv")
    if not linear or not single_use(rw.graph, linear.output) or add.output.type != node.output.type:
        return None
    if not is_constant(linear.inputs[1]) or inner[0].type != add.output.type:
        return None
    if not _reduces_to_weight(node, linear, found[1].type.shape):
        return None
    return Match(
        lambda: rw.expr(inner[0]) * rw.expr(found[1]) + rw.expr(inner[1]) * rw.expr(found[1]),
        matched=[add],
    )


@rule("matmul", why="the scale of the rows' elements fits into the weights")
def linear_of_scale(node: Node, rw: Rewriter) -> Match | None:
    scaled = made_by(node.inputs[0], "multiply")
    found = with_constant(scaled) if scaled else None
    if not scaled or not found or node.attrs["transpose_x"]:
        return None
    scale = array_of(found[1])
    if scale is None or found[0].type != scaled.output.type or found[0].type.rank < 2:
        return None
    weight = array_of(node.inputs[1])
    if weight is None or weight.ndim != 2:
        return None
    depth = weight.shape[1] if node.attrs["transpose_y"] else weight.shape[0]
    vector = _last_axis(scale, found[0].type.rank, depth)
    if vector is None:
        return None
    factors = vector.reshape(1, -1) if node.attrs["transpose_y"] else vector.reshape(-1, 1)
    new = weight * factors.astype(np.float64)
    x, dtype = found[0], node.inputs[1].type.dtype
    return Match(
        lambda: rw.expr(x).apply("matmul", rw.expr(rw.constant(new, dtype)), **node.attrs),
        matched=[scaled],
    )


def _again(rw: Rewriter, linear: Node, weight: Array) -> Expr:
    new = rw.expr(rw.constant(weight, linear.inputs[1].type.dtype))
    out: Expr = rw.expr(linear.inputs[0]).apply(linear.op.name, new, **linear.attrs)
    return out


def _reduces_to_weight(node: Node, linear: Node, shape: tuple[object, ...]) -> bool:
    """Whether a constant of this shape is one that `scale_of_linear` takes."""
    rank = node.output.type.rank
    axis = 1 if linear.op.name == "conv" else rank - 1
    padded = (1,) * (rank - len(shape)) + shape
    return all(size == 1 for i, size in enumerate(padded) if i != axis)


def _last_axis(data: Array, rank: int, size: int) -> Array | None:
    """A constant as one number for each element of the last axis; None if it varies elsewhere."""
    if data.ndim > rank or any(s != 1 for s in data.shape[:-1]):
        return None
    return np.broadcast_to(data.reshape(-1), (size,)) if data.size in (1, size) else None


def _scaled_columns(weight: Array, scale: Array, rank: int, transposed: bool) -> Array | None:
    columns = weight.shape[0] if transposed else weight.shape[1]
    vector = _last_axis(scale, rank, columns)
    if vector is None:
        return None
    wide = vector.astype(np.float64)
    return weight * (wide.reshape(-1, 1) if transposed else wide.reshape(1, -1))


def _scaled_conv(weight: Array, scale: Array, rank: int) -> Array | None:
    shape = (1,) * (rank - scale.ndim) + scale.shape
    if any(size != 1 for i, size in enumerate(shape) if i != 1):
        return None
    return weight * scale.astype(np.float64).reshape((-1, *([1] * (rank - 1))))
