"""Decides how convolutions without a template are computed: loops over planes, for every type and
up to three spatial axes."""

from __future__ import annotations

from glasshouse.backend.cpu.planes import row, three, wide_room, windows_text
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.types import Shape
from glasshouse.lower.cxx import size_text
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.window import window_of


def has_template(image: Value, other: Value) -> bool:
    """Whether the gradients' templates take these operands: one or two spatial axes of float32."""
    return image.type.rank <= 4 and image.type.dtype is other.type.dtype is float32


def conv_any(writer: KernelWriter, node: Node) -> None:
    """A convolution."""
    x, w = node.inputs
    out = node.output
    _write(writer, node, "conv_any", _shape(node, x.type.shape, w.type.shape, out.type.shape))


def conv_transpose_any(writer: KernelWriter, node: Node) -> None:
    """The gradient by the input: the output here is the input there."""
    x, w = node.inputs
    shape = _shape(node, node.output.type.shape, w.type.shape, x.type.shape)
    _write(writer, node, "conv_any_input_grad", shape)


def conv_weight_grad_any(writer: KernelWriter, node: Node) -> None:
    """The gradient by the weights."""
    x, g = node.inputs
    shape = _shape(node, x.type.shape, node.output.type.shape, g.type.shape)
    _write(writer, node, "conv_any_weight_grad", shape)


def _write(writer: KernelWriter, node: Node, function: str, shape: str) -> None:
    operands = ", ".join(writer.in_memory(v) for v in node.inputs)
    place = writer.place_for(node.output)
    sums = wide_room(writer, node.output, place)
    writer.lines.append(f"  gh::{function}(ctx, {shape}, {operands}, {sums}, {place});")


def _shape(node: Node, image: Shape, weights: Shape, result: Shape) -> str:
    """A convolution from `image` to `result` as `gh::AnyConv`."""
    attrs = node.attrs
    window = window_of(weights[2:], attrs["stride"], attrs["padding"], attrs["dilation"])
    size = three(image[2:], 1)
    numbers = (image[0], image[1], result[1], attrs["groups"])
    counts = ", ".join(size_text(d) for d in numbers)
    spatial = row(three(result[2:], 1))
    return f"gh::AnyConv{{{counts}, {spatial}, {windows_text(size, window)}}}"
