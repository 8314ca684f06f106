"""Products and convolutions of 8-bit integers: when they are used, and how they are called.

Both operands must be dequantized on the way in: activations with one scale and zero point, weights
constant, of int8, around zero, with one scale or one for each column. Sums are whole numbers of 32
bits; the epilogue takes the zero point out, scales, and goes on with real numbers. Depthwise
convolutions have a template of their own, which reads bytes as they lie. Products of two
activations (attention) are taken item by item of the batch, each with one scale and zero point.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cpu.recipe import Recipe, with_dot
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine
from glasshouse.backend.cxx.image import Image, conv_strides, image_of, shape_text, strides_text
from glasshouse.backend.cxx.items import aligned, batch_lines
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import index_text, number_text, size_text
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32, from_storage, int8, uint8
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.expr import Apply, Expr, Load, Number
from glasshouse.lower.kernel.index import ZERO, Loop, of
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Operand, Scratch, Tile
from glasshouse.lower.numbers import is_number
from glasshouse.lower.order import Order, channels_last
from glasshouse.lower.quant import BYTES, INT8, has_loops
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import view_of, whole
from glasshouse.ops.shapes import axis_of

GEMM, BATCHED = "gemm_int8", "gemm_int8_batched"
CONV, DEPTHWISE = "conv2d_int8", "depthwise_int8"
DEEPEST = 2**31 // (255 * 128)
"""Products that 32 bits are sure to hold."""
DEEPEST_PASSING = 2**15
"""The same where both operands have zero points."""


@dataclass(frozen=True)
class _Bytes:
    """A dequantized operand."""

    node: Node
    data: Value
    scale: Value
    zero: Value
    axis: int | None


# ------------------------------------------------------------------------------------- lowering
def int8_matmul(builder: KernelBuilder, node: Node) -> bool:
    """Add a product of 8-bit integers; False if this is none."""
    x, w = (_bytes(v) for v in node.inputs)
    if x is None or w is None or node.attrs["transpose_x"] or x.data.type.rank < 2:
        return False
    if w.data not in builder.constants:
        return _batched(builder, node, x, w)
    if w.data.type.rank != 2 or not _suits(builder, x, w, 0 if node.attrs["transpose_y"] else 1):
        return False
    depth, columns = w.data.type.shape
    if node.attrs["transpose_y"]:
        depth, columns = columns, depth
    if not isinstance(depth, int) or depth > DEEPEST:
        return False
    operands = (_operand(builder, x), _operand(builder, w))
    variables = {"m": product(x.data.type.shape[:-1]), "n": columns}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, GEMM, operands, after, variant=INT8, also=(x.node, w.node))
    return True


def _batched(builder: KernelBuilder, node: Node, x: _Bytes, y: _Bytes) -> bool:
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
    operands = (_widened(builder, x, left), _widened(builder, y, right))
    variables = {"b": product(tuple(batch)), "m": rows, "n": columns}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, BATCHED, operands, after, variant=INT8, also=(x.node, y.node))
    return True


def int8_conv(builder: KernelBuilder, node: Node, image: Image) -> bool:
    """Add a convolution of 8-bit integers; False if this is none."""
    x, w = (_bytes(v) for v in node.inputs)
    if x is None or w is None or not _suits(builder, x, w, 0):
        return False
    depth = product(w.data.type.shape[1:])
    if not isinstance(depth, int) or depth > DEEPEST:
        return False
    order = channels_last(node.output.type.rank)
    in_planes = _rounds(image) and x.data in builder.buffers and x.data not in builder.orders
    operands = (_operand(builder, x, None if in_planes else order), _operand(builder, w))
    after = take_results(builder, node.output, image.variables, order)
    routine = DEPTHWISE if image.is_depthwise else CONV
    add_tile(builder, node, routine, operands, after, order, variant=INT8, also=(x.node, w.node))
    return True


def _rounds(image: Image) -> bool:
    """Whether channels are rounded up to whole units as the image is padded: `gh::i8_rounded`."""
    channels = image.channels
    if not isinstance(channels, int) or image.groups != 1 or image.is_pointwise:
        return False
    return channels % 4 != 0 and 3 * ((channels + 3) // 4 * 4) <= 4 * channels


def _bytes(value: Value) -> _Bytes | None:
    node = value.node
    if node.op.name != "dequantize" or not has_loops(node):
        return None
    data, scale, zero = node.inputs
    return _Bytes(node, data, scale, zero, node.attrs["axis"])


def _suits(builder: KernelBuilder, x: _Bytes, w: _Bytes, channels: int) -> bool:
    """Whether types, scales and zero points are those that the kernels know."""
    if x.data.type.dtype not in BYTES or w.data.type.dtype is not int8:
        return False
    if x.axis is not None or w.data not in builder.constants:
        return False
    if w.axis is not None and axis_of(w.axis, w.data.type.rank) != channels:
        return False
    return _is_zero(builder, w.zero)


def _is_zero(builder: KernelBuilder, value: Value) -> bool:
    if is_number(value):
        return int(value.node.attrs["data"].reshape(-1)[0]) == 0
    return value in builder.zeros


def _operand(builder: KernelBuilder, x: _Bytes, order: Order | None = None) -> Operand:
    """Bytes, as real numbers."""
    return _widened(builder, x, whole(builder, x.data, order))


def _widened(builder: KernelBuilder, x: _Bytes, data: Operand) -> Operand:
    at = ZERO
    if x.axis is not None and x.scale.type.shape[0] != 1:
        at = of(data.loops[axis_of(x.axis, x.data.type.rank)])

    def beside(value: Value) -> Expr:
        dtype = value.type.dtype
        if value in builder.zeros:
            return Number(0, dtype)
        if is_number(value):
            stored = value.node.attrs["data"]
            return Number(from_storage(stored, dtype).reshape(-1)[0].item(), dtype)
        return Load(builder.in_memory(value), at, dtype)

    args = (data.element, beside(x.scale), beside(x.zero))
    element = Apply("dequantize", args, float32, tuple(x.node.attrs.items()))
    return Operand(data.loops, element, data.constant)


# ------------------------------------------------------------------------------------ rendering
@dataclass(frozen=True)
class _Read:
    """What a dequantized operand is made of."""

    data: Load
    scale: Expr
    zero: Expr
    by_column: bool  # whether there is a scale for each column

    @staticmethod
    def of(operand: Operand) -> _Read:
        assert isinstance(operand.element, Apply), "lowering makes it so"
        data, scale, zero = operand.element.args
        assert isinstance(data, Load), "lowering makes it so"
        return _Read(data, scale, zero, operand.element.attr("axis") is not None)


def _gemm_needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    rows, columns = w.shape
    turned = tile.attr("transpose_y")
    steps = (1, columns) if turned else (columns, 1)
    sizes = (columns, rows) if turned else (rows, columns)
    return (Form(_Read.of(w).data.buffer, "bytes", int8, (*steps, *sizes), True),), ()


def _gemm(out: KernelText, tile: Tile) -> None:
    x, w = (_Read.of(o) for o in tile.operands)
    form = tile.forms[0]
    k, n = (size_text(d) for d in form.attrs[2:])
    packed = out.form(form)
    real = _real(out, tile, x, w, f"gh::i8_column_sums({packed}, {k}, {n})")
    m = size_text(tile.variables[0].extent)
    rows = f"gh::i8_rows({x.data.buffer}, {k})"
    call = f"gh::gemm<gh::TilesI8>(*ctx.pool, {m}, {n}, {k}, {rows}, {packed}"
    hand_over(out, tile, call, whole=real)


def _gemm_batched(out: KernelText, tile: Tile) -> None:
    x, y = (_Read.of(o) for o in tile.operands)
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
    call = (
        f"gh::gemm_bytes<gh::TilesI8>(*ctx.pool, {sizes}, [=](long b) {{ {find} return {source}; }}"
        f", (int32_t){_number(x.zero)}{moved}, {y.data.buffer}, [=](long b) -> long {{ {find} "
        f"return {place}; }}, {steps}, (int32_t){_number(y.zero)}"
    )
    hand_over(out, tile, call, whole=f"gh::to_float(whole) * {_scales(out, tile, x, y)}")


def _conv_needs(tile: Tile) -> Needs:
    x, w = tile.operands
    image = image_of(tile)
    attrs = (conv_strides(w.shape), image.of_weights)
    form = Form(_Read.of(w).data.buffer, "bytes_by_tap", int8, attrs, True)
    if not image.padded and _Read.of(x).data.dtype is not int8 and not _rounds(image):
        return (form,), ()
    return (form,), (Scratch("padded", image.padded_bytes(), uint8),)


def _conv(out: KernelText, tile: Tile) -> None:
    x, w = (_Read.of(o) for o in tile.operands)
    source, shape = x.data.buffer, out.fresh("shape")
    out.add(f"const gh::ConvShape {shape} = {image_of(tile).text()};", tile.ops)
    packed = out.form(tile.forms[0])
    real = _real(out, tile, x, w, f"gh::i8_conv_sums({packed}, {shape})")
    if tile.scratch:
        space = out.scratch(tile)
        channel = tile.operands[0].loops[1]
        in_planes = channel.extent != 1 and x.data.index.coefficient(channel) != 1
        given = f"{shape}, {source}, zero{out.tile}_, {space}{', true' if in_planes else ''}"
        out.add(f"gh::i8_pad_image(*ctx.pool, {given});", tile.ops)
        source, shape = space, f"gh::i8_padded_shape({shape})"
    call = f"gh::conv2d<gh::TilesI8>(*ctx.pool, {shape}, {source}, {packed}, nullptr"
    hand_over(out, tile, call, whole=real)


def _depthwise_needs(tile: Tile) -> Needs:
    image = image_of(tile)
    attrs = (*image.window.kernel, image.channels, image.of_weights)
    buffer = _Read.of(tile.operands[1]).data.buffer
    return (Form(buffer, "bytes_depthwise", int8, attrs, True),), ()


def _depthwise(out: KernelText, tile: Tile) -> None:
    x, w = (_Read.of(o) for o in tile.operands)
    packed = out.form(tile.forms[0])
    scales = _scales(out, tile, x, w)
    given = f"{image_of(tile).text()}, {x.data.buffer}, (const int32_t*){packed}"
    call = f"gh::depthwise_bytes(*ctx.pool, {given}, (int32_t){_number(x.zero)}"
    hand_over(out, tile, call, whole=f"gh::to_float(whole) * {scales}")


def _real(out: KernelText, tile: Tile, x: _Read, w: _Read, sums: str) -> str:
    """The real numbers of a vector of whole sums; names the zero point and scales on the way."""
    moved = " + 128" if x.data.dtype is int8 else ""
    column = tile.variables[-1].name
    scales = _scales(out, tile, x, w)
    zero, by_column = f"zero{out.tile}_", f"sums{out.tile}_"
    out.add(f"const int32_t {zero} = (int32_t){_number(x.zero)}{moved};", tile.ops)
    out.add(f"const int32_t* {by_column} = {sums};", tile.ops)
    taken = f"gh::vi({zero}) * gh::load({by_column} + {column}, t)"
    return f"gh::to_float(whole - {taken}) * {scales}"


def _scales(out: KernelText, tile: Tile, x: _Read, w: _Read) -> str:
    """What a step of a vector of whole sums means."""
    factor = _number(x.scale)
    name = f"scale{out.tile}_"
    if not w.by_column or not isinstance(w.scale, Load):
        out.add(f"const float {name} = {factor} * {_number(w.scale)};", tile.ops)
        return f"gh::vf({name})"
    out.add(f"const float {name} = {factor};", tile.ops)
    column = tile.variables[-1].name
    return f"(gh::vf({name}) * gh::load({w.scale.buffer} + {column}, t))"


def _number(e: Expr) -> str:
    """The only element of a scale or zero point."""
    if isinstance(e, Number):
        return number_text(e.value, float32 if e.dtype.is_float else e.dtype)
    assert isinstance(e, Load), "lowering makes it so"
    return f"{e.buffer}[0]"


def _packed(form: Form) -> str:
    sizes = ", ".join(map(size_text, form.attrs))
    return f"gh::i8_pack(threads, source, {sizes}, out);"


def _packed_taps(form: Form) -> str:
    read, shape = form.attrs
    return f"gh::i8_conv_pack(threads, {strides_text(*read)}, {shape_text(shape)}, out);"


def _packed_planes(form: Form) -> str:
    rows, columns, _, shape = form.attrs
    steps = f"{size_text(rows * columns)}, {size_text(columns)}, 1"
    given = f"source, {steps}, {shape_text(shape)}, (int32_t*)out"
    return f"(void)threads; gh::depthwise_bytes_pack({given});"


def _batched_recipe(tile: Tile) -> Recipe:
    return with_dot(int8, 0.3, headers=("gemm_bytes.h",))


ROUTINES = {
    GEMM: Routine(_gemm, _gemm_needs, lambda tile: with_dot(int8, 0.2)),
    BATCHED: Routine(_gemm_batched, recipe=_batched_recipe),
    CONV: Routine(_conv, _conv_needs, lambda tile: with_dot(int8, 0.9)),
    DEPTHWISE: Routine(_depthwise, _depthwise_needs),
}
FORMS = {
    "bytes": FormSpelling(
        _packed, lambda f: f"gh::i8_packed_bytes({', '.join(map(size_text, f.attrs[2:]))})"
    ),
    "bytes_by_tap": FormSpelling(
        _packed_taps, lambda f: f"gh::i8_conv_bytes({shape_text(f.attrs[1])})"
    ),
    "bytes_depthwise": FormSpelling(
        _packed_planes,
        lambda f: f"{size_text(f.attrs[0] * f.attrs[1] * f.attrs[2])} * 4",
    ),
}
