"""Decides how pooling is computed on CPUs: channels last, vectors over channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glasshouse.backend.cpu.planes import plane_pool, plane_pool_grad
from glasshouse.backend.cpu.results import take_results
from glasshouse.ir.dtype import bfloat16, float32
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.cxx import size_text
from glasshouse.lower.order import channels_last
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.pool_ref import pool_window


def pool(writer: KernelWriter, node: Node) -> None:
    """Write a maximum or mean over windows, with what follows it inlined where possible."""
    x, out = node.inputs[0], node.output
    if x.type.dtype not in (float32, bfloat16) or x.type.rank > 4:
        plane_pool(writer, node)
        return
    order = channels_last(x.type.rank)
    shape = _shape(node.attrs, x.type.shape, out.type.shape)
    source = writer.in_memory(x, order)
    kind = "gh::MaxOp" if node.op.name == "max_pool" else "gh::SumOp"
    pixels = out.type.numel // out.type.shape[1]
    body = take_results(writer, out, {"pixel": pixels, "c": x.type.shape[1]}, order)
    writer.lines.append(f"  gh::pool2d_nhwc<{kind}>(*ctx.pool, {shape}, {source}, {body});")


def pool_grad(writer: KernelWriter, node: Node) -> None:
    """Write the gradient of a pooling: the output has the shape of the pooled image."""
    g, out = node.inputs[0], node.output
    if g.type.dtype is not float32 or g.type.rank > 4:
        plane_pool_grad(writer, node)
        return
    shape = _shape(node.attrs, out.type.shape, g.type.shape)
    operands = ", ".join(writer.in_memory(v) for v in node.inputs)
    place = writer.place_for(out)
    writer.lines.append(f"  gh::{node.op.name}(ctx, {shape}, {operands}, {place});")


def _shape(attrs: Mapping[str, Any], image: Shape, result: Shape) -> str:
    """The pooling as a `gh::PoolShape`; in one dimension the height is 1."""
    spatial = len(image) - 2
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    lead, none = (1,) * (2 - spatial), (0,) * (2 - spatial)
    sizes = (*image[:2], *lead, *image[2:], *lead, *result[2:])
    numbers = (
        *lead, *window.kernel, *lead, *window.stride, *none, *window.begins, *lead,
        *window.dilation, *none, *window.ends,
    )  # fmt: skip
    longs = ", ".join(size_text(d) for d in sizes)
    ints = ", ".join(size_text(d) for d in numbers)
    counts = "true" if attrs.get("count_include_pad", True) else "false"
    return f"gh::PoolShape{{{longs}, {ints}, {counts}}}"
