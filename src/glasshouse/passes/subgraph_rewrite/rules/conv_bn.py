"""How batch norm with fixed statistics disappears: into a convolution or a scale.

y = (x - mean) * s + bias with s = weight / sqrt(var + eps), all by channel. Behind a convolution
the scale goes into its weight and the rest becomes its bias. Weights are computed in float64.
"""

from __future__ import annotations

import numpy as np

from glasshouse.ir.graph import Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import Array, array_of, made_by, single_use, with_constant
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


def by_channel(data: Array, rank: int) -> Array:
    """One number for each channel, in the shape in which it broadcasts over [N, C, spatial...]."""
    return data.reshape((1, -1, *([1] * (rank - 2))))


def _scale_and_shift(node: Node) -> tuple[Array, Array] | None:
    """s and bias - mean * s, in float64."""
    arrays = [array_of(v) for v in node.inputs[1:]]
    if any(a is None for a in arrays):
        return None
    mean, var, weight, bias = (np.asarray(a, np.float64) for a in arrays)
    scale = weight / np.sqrt(var + node.attrs["eps"])
    return scale, bias - mean * scale


@rule("batch_norm", why="a fixed scale and shift by channel fit into the convolution before them")
def conv_batch_norm(node: Node, rw: Rewriter) -> Match | None:
    below = node.inputs[0]
    matched: list[Node] = []
    offset: Array | None = None
    add = made_by(below, "add")
    if add:
        found = with_constant(add)
        data = array_of(found[1]) if found else None
        rank = node.output.type.rank
        if not found or data is None or not _is_by_channel(data, rank):
            return None
        offset = data.reshape(-1)  # one element, or one for each channel
        matched.append(add)
        if not single_use(rw.graph, below):
            return None
        below = found[0]
    conv = made_by(below, "conv")
    weight = array_of(conv.inputs[1]) if conv else None
    values = _scale_and_shift(node)
    if not conv or weight is None or values is None or not single_use(rw.graph, below):
        return None
    scale, shift = values
    if offset is not None:
        shift = shift + offset.astype(np.float64) * scale
    x, dtype, rank = conv.inputs[0], conv.inputs[1].type.dtype, weight.ndim
    folded = weight * scale.reshape((-1, *([1] * (rank - 1))))
    return Match(
        lambda: (
            rw.expr(x).apply("conv", rw.expr(rw.constant(folded, dtype)), **conv.attrs)
            + rw.expr(rw.constant(by_channel(shift, rank), dtype))
        ),
        matched=[conv, *matched],
    )


def _is_by_channel(data: Array, rank: int) -> bool:
    """Whether a constant differs along the channels alone, when broadcast over `rank` axes."""
    shape = (1,) * (rank - data.ndim) + data.shape
    return all(size == 1 for i, size in enumerate(shape) if i != 1)


@rule("batch_norm", why="with fixed statistics it is a scale and a shift by channel")
def batch_norm_to_scale(node: Node, rw: Rewriter) -> Match | None:
    values = _scale_and_shift(node)
    if values is None:
        return None
    x, rank, dtype = node.inputs[0], node.output.type.rank, node.output.type.dtype
    scale, shift = (by_channel(v, rank) for v in values)
    return Match(
        lambda: rw.expr(x) * rw.expr(rw.constant(scale, dtype)) + rw.expr(rw.constant(shift, dtype))
    )
