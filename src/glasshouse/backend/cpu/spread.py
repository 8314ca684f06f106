"""Transposed convolutions whose taps never meet in a pixel, on CPUs: one product.

It has a column for each tap and channel, and each vector of results goes to its own pixel
(`transposed.h`). Bytes that are dequantized are multiplied as they are (`spread_bytes.h`), from
whose sums the routine itself takes the zero point, which depends on the tap.
"""

from __future__ import annotations

from glasshouse.backend.cpu.in_steps import Whole
from glasshouse.backend.cpu.int8 import number_of, scales_of
from glasshouse.backend.cpu.recipe import with_dot
from glasshouse.backend.cpu.results import hand_over, hand_over_whole
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_recipe, prepared
from glasshouse.backend.cxx.dequantized import DEEPEST, ByteRead, Dequantized, byte_operand, suits
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32, int8
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Operand, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.quant import INT8
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.conv import taps_are_apart

SPREAD, BYTES = "conv_spread", "conv_spread_int8"
HEADER, BYTES_HEADER = "transposed.h", "spread_bytes.h"
_FORM = "bytes_spread"


# ------------------------------------------------------------------------------------- lowering
def spread(builder: KernelBuilder, node: Node) -> None:
    """Add one product with a column for each tap and channel."""
    add_transposed(builder, node, SPREAD)


def can_spread(node: Node) -> bool:
    """Whether there is such a product of floats for a transposed convolution."""
    x, w = (v.type for v in node.inputs)
    return x.dtype is float32 and w.dtype is float32 and x.rank <= 5 and taps_are_apart(node)


def spread_bytes(builder: KernelBuilder, node: Node) -> bool:
    """Add such a product of 8-bit integers; False if this is none."""
    x, w = (Dequantized.of(v) for v in node.inputs)
    if x is None or w is None or not can_spread(node) or not suits(builder, x, w, 1):
        return False
    depth = w.data.type.shape[0]
    if not isinstance(depth, int) or depth > DEEPEST:
        return False
    order = channels_last(x.data.type.rank)
    operands = (byte_operand(builder, x, order), byte_operand(builder, w))
    add_transposed(builder, node, BYTES, operands, INT8, (x.node, w.node))
    return True


def add_transposed(
    builder: KernelBuilder,
    node: Node,
    routine: str,
    operands: tuple[Operand, Operand] | None = None,
    variant: str = "",
    also: tuple[Node, ...] = (),
) -> None:
    """Add the tile of a transposed convolution, whose results lie channels last."""
    x, w = node.inputs
    out = node.output.type
    order = channels_last(out.rank)
    read = operands or (whole(builder, x, order), whole(builder, w))
    variables = {"pixel": out.numel // out.shape[1], "c": out.shape[1]}
    after = take_results(builder, node.output, variables, order)
    add_tile(builder, node, routine, read, after, order, variant=variant, also=also)


# ------------------------------------------------------------------------------------ rendering
def _shape_text(batch: Dim, size: Shape, w: Shape) -> str:
    """`gh::SpreadShape`: always three axes."""
    more = (1,) * (3 - len(size))
    rows = (", ".join(map(size_text, (*more, *dims))) for dims in (size, w[2:]))
    sizes, kernel = (f"{{{row}}}" for row in rows)
    counts = f"{size_text(w[0])}, {size_text(w[1])}"
    return f"gh::SpreadShape{{{size_text(batch)}, {sizes}, {kernel}, {counts}}}"


def _needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    return (Form(buffer_of(w), SPREAD, w.element.dtype, (w.shape,), w.constant),), ()


def _spread(out: KernelText, tile: Tile) -> None:
    x, w = tile.operands
    packed = prepared(out, tile.forms[0], FORMS[SPREAD])
    given = f"{_shape_text(x.shape[0], x.shape[2:], w.shape)}, {buffer_of(x)}, {packed}"
    hand_over(out, tile, f"gh::conv_spread<gh::DotF32>(*ctx.pool, {given}")


def _bytes_needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    return (Form(ByteRead.of(w).data.buffer, _FORM, int8, (w.shape,), True),), ()


def _bytes(out: KernelText, tile: Tile) -> None:
    x, w = (ByteRead.of(o) for o in tile.operands)
    image, weights = (o.shape for o in tile.operands)
    scales = scales_of(out, tile, x, w)
    shape = _shape_text(image[0], image[2:], weights)
    packed, zero = out.form(tile.forms[0]), number_of(out, x.zero)
    given = f"{shape}, {x.data.buffer}, (int32_t){zero}, {packed}"
    hand_over_whole(out, tile, f"gh::conv_spread_bytes(*ctx.pool, {given}", Whole(scales))


def _form_shape(form: Form) -> str:
    (w,) = form.attrs
    return _shape_text(1, (1,) * (len(w) - 2), w)


ROUTINES = {
    SPREAD: Routine(_spread, _needs, dot_recipe(0.6, (HEADER,))),
    BYTES: Routine(_bytes, _bytes_needs, lambda tile: with_dot(int8, 0.6, headers=(BYTES_HEADER,))),
}
FORMS = {
    SPREAD: FormSpelling(
        lambda form: (
            f"gh::spread_pack_weights<gh::DotF32>(threads, source, {_form_shape(form)}, out);"
        ),
        lambda form: f"gh::spread_weight_bytes<gh::DotF32>({_form_shape(form)})",
        HEADER,
    ),
    _FORM: FormSpelling(
        lambda form: f"gh::spread_bytes_pack(threads, source, {_form_shape(form)}, out);",
        lambda form: f"gh::spread_bytes_size({_form_shape(form)})",
        BYTES_HEADER,
    ),
}
