"""Decides how convolutions are computed on CPUs: channels last, weights packed when they are known.

One-dimensional convolutions are images of height 1. Variants: depthwise; Winograd F(2, 3) and
F(4, 3) for 3x3 windows; the product over taps (`conv.h`) for all else.
"""

from __future__ import annotations

from glasshouse.backend.cpu.conv_any import conv_any
from glasshouse.backend.cpu.image import Image, conv_strides, image_window
from glasshouse.backend.cpu.int8 import int8_conv
from glasshouse.backend.cpu.results import take_results, take_rows
from glasshouse.ir.dtype import bfloat16, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.choice import Problem
from glasshouse.lower.cxx import C_TYPE, size_text
from glasshouse.lower.order import channels_last
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.cost import operations, typical

WINOGRAD_TILE = {"winograd2": 2, "winograd4": 4}
IN_FLOAT32 = ("winograd2", "winograd4", "direct_float32")
_NAMED_WAY = {
    "direct": "gh::ConvWay::kDirect",
    "direct_float32": "gh::ConvWay::kDirect",
    "im2col": "gh::ConvWay::kIm2col",
}
WINOGRAD_FROM = 32
"""Channels from which transforming tiles is cheaper than the multiplications that it saves."""
WINOGRAD_PIXELS = 64
"""Of the result, from which transforming weights in every run is cheaper than what it saves."""


def conv(writer: KernelWriter, node: Node) -> None:
    """Write a convolution, with what follows it inlined where that is possible."""
    x, w = node.inputs
    out = node.output
    if x.type.dtype not in (float32, bfloat16) or x.type.rank > 4:
        conv_any(writer, node)
        return
    window, size, result = image_window(node.attrs, w.type.shape[2:], x.type.shape, out.type.shape)
    image = Image(
        x.type.shape[0], x.type.shape[1], size, out.type.shape[1], result, window,
        node.attrs["groups"],
    )  # fmt: skip
    if int8_conv(writer, node, image):
        return
    if image.is_depthwise:
        _depthwise(writer, node, image)
        return
    convolve(writer, node, image, f"source, {conv_strides(w)}")


def _depthwise(writer: KernelWriter, node: Node, image: Image) -> None:
    x, w = node.inputs
    order = channels_last(x.type.rank)
    source = writer.in_memory(x, order)
    rows, columns = image.window.kernel
    strides = f"{size_text(rows * columns)}, {size_text(columns)}, 1"
    text = (
        f"{_prepares(x)}gh::depthwise_pack_weights(source, {strides}, {image.weights_text()}, "
        "(float*)out); }"
    )
    packed = writer.prepared(w, text, f"{size_text(rows * columns * image.channels)} * 4")
    body = take_results(writer, node.output, image.variables, order)
    writer.lines.append(
        f"  gh::depthwise2d(*ctx.pool, {image.text()}, {source}, (const float*){packed}, {body});"
    )


def convolve(writer: KernelWriter, node: Node, image: Image, weights_read: str) -> None:
    """Write a convolution of the first operand with the second.

    `weights_read` tells where `source`, the weights, begins and its strides by o, i, kh and kw.
    """
    x, w = node.inputs
    out = node.output
    order = channels_last(out.type.rank)
    source = writer.in_memory(x, order)
    shape, weights = image.text(), image.weights_text()
    kind = "gh::DotF32" if x.type.dtype is float32 else "gh::DotBF16"
    way = _way(writer, image, node)
    if way in IN_FLOAT32:
        kind = "gh::DotF32"
    if way in WINOGRAD_TILE:
        kind = f"{kind}, {WINOGRAD_TILE[way]}"
        pack = f"gh::winograd_pack_weights<{kind}>(threads, {weights_read}, {weights}, out); }}"
        packed = writer.prepared(
            w, _prepares(x) + pack, f"gh::winograd_weight_bytes<{kind}>({weights})"
        )
        body = take_results(writer, out, image.variables, order)
        work = f"gh::scratch<7>(gh::winograd_work_bytes<{kind}>({shape}))"
        writer.lines.append(
            f"  gh::conv2d_winograd<{kind}, {C_TYPE[x.type.dtype]}>(*ctx.pool, {shape}, {source}, "
            f"{packed}, {work}, {body});"
        )
        return
    pack = f"gh::conv_pack_weights<{kind}>(threads, {weights_read}, {weights}, out); }}"
    packed = writer.prepared(w, _prepares(x) + pack, f"gh::conv_weight_bytes<{kind}>({weights})")
    work = writer.scratch(image.padded_bytes, f"padded{len(writer.lines)}")
    body = take_rows(writer, out, image.variables, order)
    template = f"conv2d<{kind}>"
    if image.smallest.is_static:  # one way alone compiles in a third of the time
        picked = _NAMED_WAY.get(way) or f"gh::conv_way<{kind}>({image.smallest.text()})"
        template = f"conv2d_as<{kind}, {picked}>"
    writer.lines.append(
        f"  gh::{template}(*ctx.pool, {shape}, {source}, {packed}, {work}, {body});"
    )


def _prepares(x: Value) -> str:
    """The head of a function that brings weights of the image's type into another form."""
    source = f"const {C_TYPE[x.type.dtype]}* source"
    return f"(gh::ThreadPool& threads, {source}, void* out) {{ (void)threads; "


def _way(writer: KernelWriter, image: Image, node: Node) -> str:
    """Among the ways that suit: as measured, else Winograd F(2, 3), else what the shape says.

    Products of bfloat16 are twice as fast as those of float32, which Winograd F(4, 3) on the same
    data makes up for; and they need pairs of channels, which photographs do not have.
    """
    dtype = node.inputs[0].type.dtype
    known = node.inputs[1] in writer.constants
    names = [*WINOGRAD_TILE] if _suits_winograd(image, known) else []
    usual = "winograd2" if names and dtype is float32 else "by_shape"
    # Weights that training changes are packed in every run, which no measurement counts.
    one = image.smallest
    fixed = known and one.is_static
    if not fixed or image.groups != 1 or image.is_pointwise:
        writer.variant = usual
        return usual
    if image.can_be_direct(1 if dtype is float32 else 2):
        names.append("direct")
    elif dtype is bfloat16 and image.can_be_direct(1):
        names.append("direct_float32")
        usual = "direct_float32"
    names.append("im2col")
    worth = operations(node) / max(typical(image.batch), 1) * typical(one.batch)
    problem = Problem("conv", dtype.name, one.numbers, worth)
    return writer.chosen(problem, names, usual)


def _suits_winograd(image: Image, known: bool) -> bool:
    """3x3 with steps of 1, and enough channels. Its products are float32: bf16 loses two digits.

    Weights that are not known before are transformed in every run, into four times their size or
    more: that pays only where many pixels share them.
    """
    w = image.window
    plain = w.kernel == (3, 3) and w.stride == w.dilation == (1, 1) and image.groups == 1
    many = all(isinstance(c, int) and c >= WINOGRAD_FROM for c in (image.channels, image.filters))
    pixels = image.batch * image.result[0] * image.result[1]
    shared = known or (isinstance(pixels, int) and pixels >= WINOGRAD_PIXELS)
    return plain and many and shared
