"""Decides how gradients of convolutions are computed on CPUs; a transposed one is one of them."""

from __future__ import annotations

from glasshouse.backend.cpu.conv import convolve
from glasshouse.backend.cpu.conv_any import (
    conv_transpose_any,
    conv_weight_grad_any,
    has_template,
)
from glasshouse.backend.cpu.image import Image, adjoint, adjoint_strides, conv_strides, image_window
from glasshouse.backend.cpu.results import take_results
from glasshouse.ir.graph import Node
from glasshouse.lower.cxx import size_text
from glasshouse.lower.order import channels_last
from glasshouse.lower.writer import KernelWriter


def conv_transpose(writer: KernelWriter, node: Node) -> None:
    """The gradient of a convolution by its input: the output here is the input there."""
    x, w = node.inputs
    out = node.output
    if not has_template(x, w):
        conv_transpose_any(writer, node)
        return
    window, size, result = image_window(node.attrs, w.type.shape[2:], out.type.shape, x.type.shape)
    batch, channels = out.type.shape[:2]
    image = Image(batch, channels, size, x.type.shape[1], result, window, node.attrs["groups"])
    if (turned := adjoint(image)) is not None:
        convolve(writer, node, turned, adjoint_strides(w))
        return
    order = channels_last(out.type.rank)
    source = writer.in_memory(x, order)
    shape = image.text()
    elements = size_text(w.type.numel)
    text = (
        "(gh::ThreadPool& threads, const float* source, void* out) { gh::conv_reorder_weights("
        f"threads, source, {conv_strides(w)}, {image.weights_text()}, (float*)out); }}"
    )
    weights = writer.prepared(w, text, f"{elements} * 4")
    pixels = batch * size[0] * size[1]
    body = take_results(writer, out, {"pixel": pixels, "c": channels}, order)
    work = f"gh::scratch<8>(gh::conv_input_grad_bytes<gh::DotF32>({shape}))"
    writer.lines.append(
        f"  gh::conv_input_grad<gh::DotF32>(*ctx.pool, {shape}, {source}, "
        f"(const float*){weights}, {work}, {body});"
    )


def conv_weight_grad(writer: KernelWriter, node: Node) -> None:
    """The gradient by the weights, from the image and the gradient of the output."""
    x, g = node.inputs
    out = node.output
    if not has_template(x, g):
        conv_weight_grad_any(writer, node)
        return
    window, size, result = image_window(node.attrs, out.type.shape[2:], x.type.shape, g.type.shape)
    batch, channels = x.type.shape[:2]
    image = Image(batch, channels, size, g.type.shape[1], result, window, node.attrs["groups"])
    order = channels_last(x.type.rank)
    picture, gradient = writer.in_memory(x, order), writer.in_memory(g, order)
    place = writer.place_for(out)
    shape = image.text()
    work = f"gh::scratch<8>(gh::conv_weight_grad_bytes({shape}))"
    writer.lines.append(
        f"  gh::conv_weight_grad(*ctx.pool, {shape}, {picture}, {gradient}, {work}, {place}, "
        f"{conv_strides(out)});"
    )
