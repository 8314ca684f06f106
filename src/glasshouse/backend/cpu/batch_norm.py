"""Batch normalisation with the batch's own statistics, on CPUs."""

from __future__ import annotations

from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import number_text, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole

BATCH_NORM = "batch_norm_training"


def batch_norm_training(builder: KernelBuilder, node: Node) -> None:
    """Add statistics and result: columns of channels, a row for each pixel of the batch."""
    out, mean, var = node.outputs
    if any(v.type.dtype is not float32 for v in (*node.inputs, *node.outputs)):
        raise Unsupported("batch statistics in float32 only")
    order = channels_last(out.type.rank) if out.type.rank > 2 else None
    operands = [whole(builder, v, order if v.type.rank > 2 else None) for v in node.inputs]
    writes = ((1, builder.place_for(mean)), (2, builder.place_for(var)))
    channels = out.type.shape[1]
    variables = {"pixel": out.type.numel // channels, "c": channels}
    after = take_results(builder, out, variables, order)
    add_tile(builder, node, BATCH_NORM, operands, after, order, writes)


def _batch_norm_training(out: KernelText, tile: Tile) -> None:
    sizes = ", ".join(size_text(x.extent) for x in tile.variables)
    eps = number_text(tile.attr("eps"), float32)
    buffers = ", ".join([*map(buffer_of, tile.operands), *(buffer for _, buffer in tile.writes)])
    hand_over(out, tile, f"gh::batch_norm_training(*ctx.pool, {sizes}, {eps}, {buffers}")


ROUTINES = {BATCH_NORM: Routine(_batch_norm_training)}
