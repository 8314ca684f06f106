"""Decides how pools without a vector template are computed: plane by plane, for every type.

That is: element types other than float32 and bfloat16, three spatial axes, parts of different
sizes, and the places of maxima.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import bfloat16, float16, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.types import Shape
from glasshouse.lower.cxx import size_text
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.pool_ref import pool_window
from glasshouse.ops.window import Window

_FUNCTION = {
    "max_pool": "plane_max",
    "max_pool_indices": "plane_argmax",
    "avg_pool": "plane_mean",
    "adaptive_max_pool": "plane_max",
    "adaptive_max_pool_indices": "plane_argmax",
    "adaptive_avg_pool": "plane_mean",
    "max_pool_grad": "plane_max_grad",
    "avg_pool_grad": "plane_mean_grad",
}


def plane_pool(writer: KernelWriter, node: Node) -> None:
    """Write a pooling over windows or parts."""
    x, out = node.inputs[0], node.outputs[0]
    planes, spans = _described(node, x.type.shape, out.type.shape)
    source = writer.in_memory(x)
    place = writer.place_for(out)
    function = _FUNCTION[node.op.name]
    writer.lines.append(f"  gh::{function}(ctx, {planes}, {spans}, {source}, {place});")


def plane_pool_grad(writer: KernelWriter, node: Node) -> None:
    """Write the gradient of a pooling; the output has the shape of the pooled image."""
    g, out = node.inputs[0], node.output
    planes, spans = _described(node, out.type.shape, g.type.shape)
    operands = ", ".join(writer.in_memory(v) for v in node.inputs)
    place = writer.place_for(out)
    sums = wide_room(writer, out, place)
    function = _FUNCTION[node.op.name]
    writer.lines.append(f"  gh::{function}(ctx, {planes}, {spans}, {operands}, {sums}, {place});")


def wide_room(writer: KernelWriter, out: Value, place: str) -> str:
    """Where sums of an output are held: half floats need room of their own."""
    if out.type.dtype not in (bfloat16, float16):
        return place
    nbytes = out.type.numel * float32.itemsize
    return writer.scratch(nbytes, f"sums{len(writer.lines)}", "float")


def _described(node: Node, image: Shape, result: Shape) -> tuple[str, str]:
    """`gh::Planes`, and the spans: `gh::Windows` or `gh::Parts`."""
    size, out = three(image[2:], 1), three(result[2:], 1)
    planes = f"gh::Planes{{{size_text(product(image[:2]))}, {row(size)}, {row(out)}}}"
    if "kernel" not in node.attrs:
        return planes, f"gh::Parts{{{row(size)}, {row(out)}}}"
    attrs: Mapping[str, Any] = node.attrs
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    return planes, windows_text(size, window, attrs.get("count_include_pad", True))


def windows_text(size: Sequence[Dim], window: Window, count_pad: bool = True) -> str:
    """A window as `gh::Windows`."""
    numbers = [
        row(three(part, fill), "(int)")
        for part, fill in (
            (window.kernel, 1), (window.stride, 1), (window.begins, 0), (window.ends, 0),
            (window.dilation, 1),
        )
    ]  # fmt: skip
    counts = "true" if count_pad else "false"
    return f"gh::Windows{{{row(size)}, {', '.join(numbers)}, {counts}}}"


def three(sizes: Sequence[Dim], fill: int) -> tuple[Dim, ...]:
    """Three spatial axes: leading ones where there are fewer."""
    return (*(fill,) * (3 - len(sizes)), *sizes)


def row(sizes: Sequence[Dim], cast: str = "(long)") -> str:
    return "{" + ", ".join(f"{cast}({size_text(d)})" for d in sizes) + "}"
