"""Products and convolutions of 8-bit integers: when they are used, and how they are called.

Both operands must be dequantized on the way in: activations with one scale and zero point, weights
constant, of int8, around zero, with one scale or one for each column. Sums are whole numbers of 32
bits; the epilogue takes the zero point out, scales, and goes on with real numbers. Depthwise
convolutions have a template of their own, which reads bytes as they lie. Products of two
activations (attention) are taken item by item of the batch, each with one scale and zero point.
"""

from __future__ import annotations

from glasshouse.backend.cpu.given_numbers import argument
from glasshouse.backend.cpu.in_steps import Whole
from glasshouse.backend.cpu.recipe import Recipe, with_dot
from glasshouse.backend.cpu.results import hand_over_whole
from glasshouse.backend.cpu.routine import FormSpelling, Routine
from glasshouse.backend.cpu.winograd import bytes_suit_winograd
from glasshouse.backend.cxx.dequantized import (
    DEEPEST,
    ByteRead,
    Dequantized,
    byte_operand,
    byte_weights,
    only_number,
    suits,
    widened,
)
from glasshouse.backend.cxx.image import Image, conv_strides, image_of, shape_text, strides_text
from glasshouse.backend.cxx.items import aligned, batch_lines
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import index_text, size_text
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int8, int16, uint8
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.expr import Expr, Load, Number
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Scratch, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.quant import BYTES, INT8
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import view_of

GEMM, BATCHED = "gemm_int8", "gemm_int8_batched"
CONV, DEPTHWISE = "conv2d_int8", "depthwise_int8"
DEEPEST_PASSING = 2**15
"""The same where both operands have zero points."""
WINOGRAD, WINOGRAD_HEADER = f"{INT8}_winograd", "winograd_bytes.h"


# ------------------------------------------------------------------------------------- lowering
def int8_matmul(builder: KernelBuilder, node: Node) -> bool:
    """Add a product of 8-bit integers; False if this is none."""
    x, w = (Dequantized.of(v) for v in node.inputs)
    if x is None or w is None or node.attrs["transpose_x"] or x.data.type.rank < 2:
        return False
    if w.data not in builder.constants:
        return _batched(builder, node, x, w)
    sizes = byte_weights(builder, node, x, w)
    if sizes is None:
        return False
    _, columns = sizes
    operands = (byte_operand(builder, x), byte_operand(builder, w))
    variables = {"m": product(x.data.type.shape[:-1]), "n": columns}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, GEMM, operands, after, variant=INT8, also=(x.node, w.node))
    return True


def _batched(builder: KernelBuilder, node: Node, x: Dequantized, y: Dequantized) -> bool:
    """Add a product of two activations for each item of the batch."""
    if any(v.axis is not None or v.data.type.dtype not in BYTES for v in (x, y)):
        return False
    *batch, rows, columns = node.output.type.shape
    depth = x.data.type.shape[-1]
    if y.data.type.rank < 2 or not isinstance(depth, int) or depth > DEEPEST_PASSING:
        return False
    loops = [Loop(f"b{axis}_", size) for axis, size in enumerate(batch)]
    m, n, k = Loop("m", rows), Loop("n", columns), Loop("k", depth)
    left = view_of(builder, x.data, aligned(x.data, loops, (m, k)))
    last = (n, k) if node.attrs["transpose_y"] else (k, n)
    right = view_of(builder, y.data, aligned(y.data, loops, last))
    if depth != 1 and view(left).index.coefficient(k) != 1:
        return False
    operands = (widened(builder, x, left), widened(builder, y, right))
    variables = {"b": product(tuple(batch)), "m": rows, "n": columns}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, BATCHED, operands, after, variant=INT8, also=(x.node, y.node))
    return True


def int8_conv(builder: KernelBuilder, node: Node, image: Image) -> bool:
    """Add a convolution of 8-bit integers; False if this is none."""
    x, w = (Dequantized.of(v) for v in node.inputs)
    if x is None or w is None or not suits(builder, x, w, 0):
        return False
    depth = product(w.data.type.shape[1:])
    if not isinstance(depth, int) or depth > DEEPEST:
        return False
    order = channels_last(node.output.type.rank)
    in_planes = _by_rows(image) and x.data in builder.buffers and x.data not in builder.orders
    operands = (byte_operand(builder, x, None if in_planes else order), byte_operand(builder, w))
    after = take_results(builder, node.output, image.variables, order)
    routine = DEPTHWISE if image.is_depthwise else CONV
    variant = WINOGRAD if bytes_suit_winograd(image) else INT8
    add_tile(builder, node, routine, operands, after, order, variant=variant, also=(x.node, w.node))
    return True


def _by_rows(image: Image) -> bool:
    """Whether units run over the bytes of a kernel row, of an image that is padded for it:
    `gh::i8_by_rows`."""
    channels, width = image.channels, image.window.kernel[1]
    if not isinstance(channels, int) or not isinstance(width, int) or channels % 4 == 0:
        return False
    row = width * channels
    if image.groups != 1 or image.window.dilation[1] != 1 or image.is_pointwise:
        return False
    return 3 * ((row + 3) // 4 * 4) <= 4 * row


# ------------------------------------------------------------------------------------ rendering
def _gemm_needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    rows, columns = w.shape
    turned = tile.attr("transpose_y")
    steps = (1, columns) if turned else (columns, 1)
    sizes = (columns, rows) if turned else (rows, columns)
    return (Form(ByteRead.of(w).data.buffer, "bytes", int8, (*steps, *sizes), True),), ()


def _gemm(out: KernelText, tile: Tile) -> None:
    x, w = (ByteRead.of(o) for o in tile.operands)
    form = tile.forms[0]
    k, n = (size_text(d) for d in form.attrs[2:])
    packed = out.form(form)
    real = _real(out, tile, x, w, f"gh::i8_column_sums({packed}, {k}, {n})")
    m = size_text(tile.variables[0].extent)
    rows = f"gh::i8_rows({x.data.buffer}, {k})"
    call = f"gh::gemm<gh::TilesI8>(*ctx.pool, {m}, {n}, {k}, {rows}, {packed}"
    hand_over_whole(out, tile, call, real)


def _gemm_batched(out: KernelText, tile: Tile) -> None:
    x, y = (ByteRead.of(o) for o in tile.operands)
    rows, columns = tile.shape[-2:]
    depth = tile.operands[0].shape[-1]
    m, n, k = Loop("m", rows), Loop("n", columns), Loop("k", depth)
    find = " ".join(batch_lines(tile.shape[:-2]))
    sizes = ", ".join(size_text(d) for d in (product(tile.shape[:-2]), rows, columns, depth))
    begin = f"{x.data.buffer} + {index_text(x.data.index.without(m, k))}"
    source = f"gh::i8_rows({begin}, {size_text(x.data.index.coefficient(m))})"
    moved = " + 128" if x.data.dtype is int8 else ""
    place = index_text(y.data.index.without(n, k))
    steps = ", ".join(size_text(y.data.index.coefficient(loop)) for loop in (k, n))
    zeros = [number_of(out, v.zero) for v in (x, y)]
    call = (
        f"gh::gemm_bytes<gh::TilesI8>(*ctx.pool, {sizes}, [=](long b) {{ {find} return {source}; }}"
        f", (int32_t){zeros[0]}{moved}, {y.data.buffer}, [=](long b) -> long {{ {find} "
        f"return {place}; }}, {steps}, (int32_t){zeros[1]}"
    )
    hand_over_whole(out, tile, call, Whole(scales_of(out, tile, x, y)))


def _conv_needs(tile: Tile) -> Needs:
    x, w = tile.operands
    image = image_of(tile)
    attrs = (conv_strides(w.shape), image.of_weights)
    if tile.variant == WINOGRAD:
        return (Form(ByteRead.of(w).data.buffer, "bytes_winograd", int8, attrs, True),), ()
    form = Form(ByteRead.of(w).data.buffer, "bytes_by_tap", int8, attrs, True)
    if not image.padded and ByteRead.of(x).data.dtype is not int8 and not _by_rows(image):
        return (form,), ()
    return (form,), (Scratch("padded", image.padded_bytes(), uint8),)


def _conv(out: KernelText, tile: Tile) -> None:
    x, w = (ByteRead.of(o) for o in tile.operands)
    source, whole = x.data.buffer, out.fresh("shape")
    out.add(f"const gh::ConvShape {whole} = {image_of(tile).text()};", tile.ops)
    shape = whole
    packed = out.form(tile.forms[0])
    if tile.variant == WINOGRAD:
        work = f"gh::scratch<7>(gh::winograd_bytes_work({shape}))"
        given = f"{shape}, {source}, (int32_t){number_of(out, x.zero)}, {packed}, {work}"
        real = Whole(scales_of(out, tile, x, w))
        hand_over_whole(out, tile, f"gh::conv2d_winograd_bytes(*ctx.pool, {given}", real)
        return
    real = _real(out, tile, x, w, f"gh::i8_conv_sums({packed}, {shape})")
    if tile.scratch:
        space = out.scratch(tile)
        channel = tile.operands[0].loops[1]
        in_planes = channel.extent != 1 and x.data.index.coefficient(channel) != 1
        given = f"{shape}, {source}, zero{out.tile}_, {space}{', true' if in_planes else ''}"
        out.add(f"gh::i8_pad_image(*ctx.pool, {given});", tile.ops)
        source, shape = space, f"gh::i8_padded_shape({shape})"
    elif image_of(tile).groups != 1:
        shape = f"gh::i8_merged_shape({shape})"
    if image_of(tile).groups != 1:
        given = f"gh::lanes_hold_groups({whole}), {shape}, {source}, {packed}"
        call = f"gh::i8_conv_groups(*ctx.pool, {given}"
    else:
        call = f"gh::i8_conv(*ctx.pool, {shape}, {source}, {packed}"
    hand_over_whole(out, tile, call, real)


def _depthwise_needs(tile: Tile) -> Needs:
    image = image_of(tile)
    attrs = (*image.window.kernel, image.of_weights)
    buffer = ByteRead.of(tile.operands[1]).data.buffer
    return (Form(buffer, "bytes_depthwise", int8, attrs, True),), ()


def _depthwise(out: KernelText, tile: Tile) -> None:
    x, w = (ByteRead.of(o) for o in tile.operands)
    packed = out.form(tile.forms[0])
    scales = scales_of(out, tile, x, w)
    given = f"{image_of(tile).text()}, {x.data.buffer}, {packed}"
    call = f"gh::depthwise_bytes(*ctx.pool, {given}, (int32_t){number_of(out, x.zero)}"
    hand_over_whole(out, tile, call, Whole(scales))


def _real(out: KernelText, tile: Tile, x: ByteRead, w: ByteRead, sums: str) -> Whole:
    """What makes real numbers of whole sums; names the zero point and scales on the way."""
    moved = " + 128" if x.data.dtype is int8 else ""
    column = tile.variables[-1].name
    scales = scales_of(out, tile, x, w)
    zero, by_column = f"zero{out.tile}_", f"sums{out.tile}_"
    out.add(f"const int32_t {zero} = (int32_t){number_of(out, x.zero)}{moved};", tile.ops)
    out.add(f"const int32_t* {by_column} = {sums};", tile.ops)
    return Whole(scales, f"gh::vi({zero}) * gh::load({by_column} + {column}, t)")


def scales_of(out: KernelText, tile: Tile, x: ByteRead, w: ByteRead) -> str:
    """What a step of a vector of whole sums means."""
    factor = number_of(out, x.scale)
    name = f"scale{out.tile}_"
    if not w.by_column or not isinstance(w.scale, Load):
        out.add(f"const float {name} = {factor} * {number_of(out, w.scale)};", tile.ops)
        return f"gh::vf({name})"
    out.add(f"const float {name} = {factor};", tile.ops)
    column = tile.variables[-1].name
    return f"(gh::vf({name}) * gh::load({w.scale.buffer} + {column}, t))"


def number_of(out: KernelText, e: Expr) -> str:
    """The only element of a scale or zero point."""
    return argument(out, e) if isinstance(e, Number) else only_number(e)


def _packed(form: Form) -> str:
    sizes = ", ".join(map(size_text, form.attrs))
    return f"gh::i8_pack(threads, source, {sizes}, out);"


def _packed_taps(form: Form) -> str:
    read, shape = form.attrs
    return f"gh::i8_conv_pack(threads, {strides_text(*read)}, {shape_text(shape)}, out);"


def _packed_planes(form: Form) -> str:
    rows, columns, shape = form.attrs
    steps = f"{size_text(rows * columns)}, {size_text(columns)}, 1"
    given = f"source, {steps}, {shape_text(shape)}, out"
    return f"(void)threads; gh::depthwise_bytes_pack({given});"


def _packed_winograd(form: Form) -> str:
    read, shape = form.attrs
    return f"gh::winograd_bytes_pack(threads, {strides_text(*read)}, {shape_text(shape)}, out);"


def _conv_recipe(tile: Tile) -> Recipe:
    if tile.variant == WINOGRAD:
        return with_dot(int16, 0.5, headers=(WINOGRAD_HEADER,))
    return with_dot(int8, 0.9)


def _batched_recipe(tile: Tile) -> Recipe:
    return with_dot(int8, 0.3, headers=("gemm_bytes.h",))


ROUTINES = {
    GEMM: Routine(_gemm, _gemm_needs, lambda tile: with_dot(int8, 0.2)),
    BATCHED: Routine(_gemm_batched, recipe=_batched_recipe),
    CONV: Routine(_conv, _conv_needs, _conv_recipe),
    DEPTHWISE: Routine(_depthwise, _depthwise_needs),
}
FORMS = {
    "bytes": FormSpelling(
        _packed, lambda f: f"gh::i8_packed_bytes({', '.join(map(size_text, f.attrs[2:]))})"
    ),
    "bytes_by_tap": FormSpelling(
        _packed_taps, lambda f: f"gh::i8_conv_bytes({shape_text(f.attrs[1])})"
    ),
    "bytes_winograd": FormSpelling(
        _packed_winograd,
        lambda f: f"gh::winograd_bytes_size({shape_text(f.attrs[1])})",
        WINOGRAD_HEADER,
    ),
    "bytes_depthwise": FormSpelling(
        _packed_planes,
        lambda f: f"gh::depthwise_bytes_size({shape_text(f.attrs[2])})",
    ),
}
