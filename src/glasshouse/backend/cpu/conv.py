"""Convolutions on CPUs: channels last, weights packed when they are known.

One-dimensional convolutions are images of height 1. Variants: depthwise and groups of few channels
(`grouped.py`); few filters (`few_filters.py`); Winograd F(2, 3) and F(4, 3) for 3x3 windows; the
product over taps (`conv.h`) for all else.
"""

from __future__ import annotations

from glasshouse.backend.cpu.conv_any import conv_any
from glasshouse.backend.cpu.few_filters import few_filters, makes_few_filters
from glasshouse.backend.cpu.grouped import grouped_conv, suits_groups
from glasshouse.backend.cpu.int8 import int8_conv
from glasshouse.backend.cpu.recipe import WINOGRAD_PART, Recipe, dot_parts, with_dot
from glasshouse.backend.cpu.results import hand_over, row_hint
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_kind, prepared
from glasshouse.backend.cpu.winograd import suits_winograd
from glasshouse.backend.cxx.image import (
    Image,
    adjoint_strides,
    conv_strides,
    gradient_image,
    image_of,
    shape_text,
    strides_text,
)
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, COMPUTE_TYPE, size_text
from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.choice import BY_SHAPE, Problem
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Operand, Scratch, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.cost import operations, typical

CONV, DEPTHWISE = "conv2d", "depthwise2d"
WINOGRAD_TILE = {"winograd2": 2, "winograd4": 4}
IN_FLOAT32 = ("winograd2", "winograd4", "direct_float32")
_NAMED_VARIANT = {
    "direct": "gh::ConvWay::kDirect",
    "direct_float32": "gh::ConvWay::kDirect",
    "im2col": "gh::ConvWay::kIm2col",
}


# ------------------------------------------------------------------------------------- lowering
def conv(builder: KernelBuilder, node: Node) -> None:
    """Add a convolution, with what follows it in its epilogue where that is possible."""
    x, w = node.inputs
    out = node.output
    if x.type.dtype not in (float32, bfloat16, float16, float64) or x.type.rank > 4:
        conv_any(builder, node)
        return
    image = gradient_image(node.attrs, x.type.shape, w.type.shape, out.type.shape)
    if int8_conv(builder, node, image):
        return
    if image.is_depthwise:
        order = channels_last(x.type.rank)
        operands = (whole(builder, x, order), whole(builder, w))
        after = take_results(builder, out, image.variables, order)
        add_tile(builder, node, DEPTHWISE, operands, after, order)
        return
    if suits_groups(image, x.type.dtype):
        grouped_conv(builder, node, image)
        return
    if makes_few_filters(node, image):
        few_filters(builder, node, image)
        return
    convolve(builder, node, image)


def convolve(builder: KernelBuilder, node: Node, image: Image) -> None:
    """Add a convolution of the first operand with the second; `image` says which."""
    x, w = node.inputs
    out = node.output
    order = channels_last(out.type.rank)
    operands = (whole(builder, x, order), whole(builder, w))
    variants, variant, problem = _known_variants(builder, image, node)
    after = take_results(builder, out, image.variables, order)
    add_tile(
        builder, node, CONV, operands, after, order,
        variants=variants, variant=variant, problem=problem,
    )  # fmt: skip


def _known_variants(
    builder: KernelBuilder, image: Image, node: Node
) -> tuple[tuple[str, ...], str, Problem | None]:
    """The variants that suit, the usual one first, or the one that there is; and the problem.

    Products of bfloat16 are twice as fast as those of float32, which Winograd F(4, 3) on the same
    data makes up for; and they need pairs of channels, which photographs do not have. Those of
    float16 are float32's, widened as they are packed: the shape alone decides, as of float64.
    """
    dtype = node.inputs[0].type.dtype
    if dtype in (float16, float64):
        return (), BY_SHAPE, None
    known = node.inputs[1] in builder.constants
    names = [*WINOGRAD_TILE] if suits_winograd(image, known) else []
    usual = "winograd2" if names and dtype is float32 else BY_SHAPE
    # Weights that training changes are packed in every run, which no measurement counts.
    one = image.smallest
    fixed = known and one.is_static
    if not fixed or image.groups != 1 or image.is_pointwise:
        return (), usual, None
    if image.can_be_direct(1 if dtype is float32 else 2):
        names.append("direct")
    elif dtype is bfloat16 and image.can_be_direct(1):
        names.append("direct_float32")
        usual = "direct_float32"
    names.append("im2col")
    worth = operations(node) / max(typical(image.batch), 1) * typical(one.batch)
    problem = Problem("conv", dtype.name, one.numbers, worth)
    return (usual, *(n for n in names if n != usual)), "", problem


# ------------------------------------------------------------------------------------ rendering
def _products(tile: Tile) -> tuple[DType, int]:
    """The type in which products are computed, and the size of Winograd's tiles, or 0."""
    dtype = float32 if tile.variant in IN_FLOAT32 else tile.operands[0].element.dtype
    return dtype, WINOGRAD_TILE.get(tile.variant, 0)


def _kind(dtype: DType, size: int) -> str:
    return dot_kind(dtype) + (f", {size}" if size else "")


def _conv_needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    image = image_of(tile)
    read = (conv_strides if tile.op == "conv" else adjoint_strides)(w.shape)
    kind = "winograd" if tile.variant in WINOGRAD_TILE else "taps"
    attrs = (*_products(tile), read, image.of_weights)
    form = Form(buffer_of(w), kind, w.element.dtype, attrs, w.constant)
    if kind == "winograd":
        return (form,), ()
    return (form,), (Scratch("padded", image.padded_bytes(max(w.element.dtype.itemsize, 4))),)


def _conv(out: KernelText, tile: Tile) -> None:
    x = tile.operands[0]
    image, kind, source = image_of(tile), _kind(*_products(tile)), buffer_of(x)
    shape = image.text()
    form = tile.forms[0]
    packed = prepared(out, form, FORMS[form.kind])
    if tile.variant in WINOGRAD_TILE:
        work = f"gh::scratch<7>(gh::winograd_work_bytes<{kind}>({shape}))"
        call = f"gh::conv2d_winograd<{kind}, {C_TYPE[x.element.dtype]}>(*ctx.pool, {shape}, "
        hand_over(out, tile, f"{call}{source}, {packed}, {work}")
        return
    template = f"conv2d<{kind}>"
    if image.smallest.is_static:  # one variant alone compiles in a third of the time
        shown = image.smallest.text()
        picked = _NAMED_VARIANT.get(tile.variant) or f"gh::conv_way<{kind}>({shown})"
        template = f"conv2d_as<{kind}, {picked}>"
    given = f"{source}, {packed}, {out.scratch(tile)}"
    hand_over(out, tile, f"gh::{template}(*ctx.pool, {shape}, {given}", row_hint(tile))


def _recipe(tile: Tile) -> Recipe:
    """One variant alone, with known sizes, has all its time in the tiles: 40 % less to compile."""
    used, size = _products(tile)
    if size:
        stored = tile.operands[0].element.dtype
        return Recipe((*dot_parts(used), WINOGRAD_PART[size, stored]), 0.4)
    static = image_of(tile).smallest.is_static
    return with_dot(used, 0.4, "-O2") if static else with_dot(used, 0.9)


def depthwise_form(w: Operand, image: Image) -> Form:
    """Weights with their channels last."""
    attrs = (*image.window.kernel, image.channels, image.of_weights)
    return Form(buffer_of(w), "depthwise", w.element.dtype, attrs, w.constant)


def _depthwise_needs(tile: Tile) -> Needs:
    return (depthwise_form(tile.operands[1], image_of(tile)),), ()


def _depthwise(out: KernelText, tile: Tile) -> None:
    packed = prepared(out, tile.forms[0], FORMS["depthwise"])
    held = COMPUTE_TYPE[tile.operands[1].element.dtype]
    given = f"{image_of(tile).text()}, {buffer_of(tile.operands[0])}, (const {held}*){packed}"
    hand_over(out, tile, f"gh::depthwise2d(*ctx.pool, {given}")


def _pack(function: str) -> FormSpelling:
    """`gh::..._pack_weights` and `gh::..._weight_bytes` of one kind."""

    def body(form: Form) -> str:
        dtype, size, read, shape = form.attrs
        given = f"threads, {strides_text(*read)}, {shape_text(shape)}, out"
        return f"(void)threads; gh::{function}_pack_weights<{_kind(dtype, size)}>({given});"

    def nbytes(form: Form) -> str:
        dtype, size, _, shape = form.attrs
        return f"gh::{function}_weight_bytes<{_kind(dtype, size)}>({shape_text(shape)})"

    return FormSpelling(body, nbytes)


def _depthwise_body(form: Form) -> str:
    rows, columns, _, shape = form.attrs
    strides = f"{size_text(rows * columns)}, {size_text(columns)}, 1"
    given = f"source, {strides}, {shape_text(shape)}, ({COMPUTE_TYPE[form.dtype]}*)out"
    return f"(void)threads; gh::depthwise_pack_weights({given});"


def _depthwise_bytes(form: Form) -> str:
    rows, columns, channels, _ = form.attrs
    return f"{size_text(rows * columns * channels)} * sizeof({COMPUTE_TYPE[form.dtype]})"


ROUTINES = {
    CONV: Routine(_conv, _conv_needs, _recipe),
    DEPTHWISE: Routine(_depthwise, _depthwise_needs),
}
FORMS = {
    "winograd": _pack("winograd"),
    "taps": _pack("conv"),
    "depthwise": FormSpelling(_depthwise_body, _depthwise_bytes),
}
