"""Decides how pooling is computed on CPUs: channels last, vectors over channels."""

from __future__ import annotations

import math
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

MOST_TAPS, MOST_PLACES = 64, 255
"""Of a window along one axis and in all, for which gradients have a template."""


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
    channels = out.type.shape[1]
    body = take_results(writer, out, {"pixel": out.type.numel // channels, "c": channels}, order)
    writer.lines.append(f"  gh::pool2d_nhwc<{kind}>(*ctx.pool, {shape}, {source}, {body});")


def pool_grad(writer: KernelWriter, node: Node) -> None:
    """Write the gradient of a pooling: the output has the shape of the pooled image."""
    g, out = node.inputs[0], node.output
    kernel = node.attrs["kernel"]
    large = any(k > MOST_TAPS for k in kernel) or math.prod(kernel) > MOST_PLACES
    if g.type.dtype is not float32 or g.type.rank > 4 or large:
        plane_pool_grad(writer, node)
        return
    order = channels_last(out.type.rank)
    shape = _shape(node.attrs, out.type.shape, g.type.shape)
    operands = [writer.in_memory(v, order) for v in node.inputs]
    if node.op.name == "max_pool_grad":
        operands.append(writer.scratch(g.type.numel, f"places{len(writer.lines)}", "uint8_t"))
    channels = out.type.shape[1]
    body = take_results(writer, out, {"pixel": out.type.numel // channels, "c": channels}, order)
    given = ", ".join(operands)
    writer.lines.append(f"  gh::{node.op.name}(*ctx.pool, {shape}, {given}, {body});")


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
