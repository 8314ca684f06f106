"""Decides how batch normalisation with the batch's own statistics is computed on CPUs."""

from __future__ import annotations

from glasshouse.backend.cpu.results import take_results
from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node
from glasshouse.lower.cxx import number_text, size_text
from glasshouse.lower.order import channels_last
from glasshouse.lower.writer import KernelWriter


def batch_norm_training(writer: KernelWriter, node: Node) -> None:
    """Write statistics and result: columns of channels, a row for each pixel of the batch."""
    out, mean, var = node.outputs
    if any(v.type.dtype is not float32 for v in (*node.inputs, *node.outputs)):
        raise Unsupported("batch statistics in float32 only")
    order = channels_last(out.type.rank) if out.type.rank > 2 else None
    x, weight, bias = (writer.in_memory(v, order if v.type.rank > 2 else None) for v in node.inputs)
    places = ", ".join(writer.place_for(v) for v in (mean, var))
    channels = out.type.shape[1]
    rows = out.type.numel // channels
    body = take_results(writer, out, {"pixel": rows, "c": channels}, order)
    eps = number_text(node.attrs["eps"], float32)
    sizes = f"{size_text(rows)}, {size_text(channels)}"
    writer.lines.append(
        f"  gh::batch_norm_training(*ctx.pool, {sizes}, {eps}, "
        f"{x}, {weight}, {bias}, {places}, {body});"
    )
