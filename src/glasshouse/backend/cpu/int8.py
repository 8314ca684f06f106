"""Decides when a product or convolution is computed with 8-bit integers, and how it is written.

Both operands must be dequantized on the way in: activations with one scale and zero point, weights
constant, of int8, around zero, with one scale or one for each column. Sums are whole numbers of 32
bits; the epilogue takes the zero point out, scales, and goes on with real numbers. Depthwise
convolutions have a template of their own, which reads bytes as they lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cpu.image import Image, conv_strides
from glasshouse.backend.cpu.results import take_results
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32, from_storage, int8
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.cxx import number_text, size_text
from glasshouse.lower.order import channels_last
from glasshouse.lower.quant import BYTES, INT8, has_loops
from glasshouse.lower.writer import KernelWriter, is_number
from glasshouse.ops.shapes import axis_of

"""What kernels of this kind are called; weights' zero points of 0 are built into them."""
DEEPEST = 2**31 // (255 * 128)
"""Products that 32 bits are sure to hold."""


@dataclass(frozen=True)
class _Bytes:
    """A dequantized operand."""

    data: Value
    scale: Value
    zero: Value
    axis: int | None


def int8_matmul(writer: KernelWriter, node: Node) -> bool:
    """Write a product of 8-bit integers; False if this is none."""
    x, w = (_bytes(v) for v in node.inputs)
    if x is None or w is None or node.attrs["transpose_x"] or x.data.type.rank < 2:
        return False
    if w.data.type.rank != 2 or not _suits(writer, x, w, 0 if node.attrs["transpose_y"] else 1):
        return False
    depth, columns = w.data.type.shape
    if node.attrs["transpose_y"]:
        depth, columns = columns, depth
    if not isinstance(depth, int) or depth > DEEPEST:
        return False
    rows = product(x.data.type.shape[:-1])
    source = writer.in_memory(x.data)
    k, n = size_text(depth), size_text(columns)
    steps = (1, depth) if node.attrs["transpose_y"] else (columns, 1)
    text = (
        "(gh::ThreadPool& threads, const int8_t* source, void* out) { gh::i8_pack(threads, source, "
        f"{size_text(steps[0])}, {size_text(steps[1])}, {k}, {n}, out); }}"
    )
    packed = writer.prepared(w.data, text, f"gh::i8_packed_bytes({k}, {n})")
    real = _real(writer, x, w, f"gh::i8_column_sums({packed}, {k}, {n})", "n")
    body = take_results(writer, node.output, {"m": rows, "n": columns}, whole=real)
    writer.lines.append(
        f"  gh::gemm<gh::DotI8>(*ctx.pool, {size_text(rows)}, {n}, {k}, "
        f"gh::i8_rows({source}, {k}), {packed}, {body});"
    )
    writer.variant = INT8
    return True


def int8_conv(writer: KernelWriter, node: Node, image: Image) -> bool:
    """Write a convolution of 8-bit integers; False if this is none."""
    x, w = (_bytes(v) for v in node.inputs)
    if x is None or w is None or not _suits(writer, x, w, 0):
        return False
    depth = product(w.data.type.shape[1:])
    if not isinstance(depth, int) or depth > DEEPEST:
        return False
    if image.is_depthwise:
        _depthwise(writer, node, image, x, w)
        return True
    order = channels_last(node.output.type.rank)
    source = writer.in_memory(x.data, order)
    shape = f"shape{len(writer.lines)}"
    writer.lines.append(f"  const gh::ConvShape {shape} = {image.text()};")
    weights = image.weights_text()
    text = (
        "(gh::ThreadPool& threads, const int8_t* source, void* out) { gh::i8_conv_pack(threads, "
        f"source, {conv_strides(w.data)}, {weights}, out); }}"
    )
    packed = writer.prepared(w.data, text, f"gh::i8_conv_bytes({weights})")
    real = _real(writer, x, w, f"gh::i8_conv_sums({packed}, {shape})", "oc")
    if image.padded or x.data.type.dtype is int8:
        room = writer.scratch(image.padded_bytes, f"padded{len(writer.lines)}", "uint8_t")
        writer.lines.append(f"  gh::i8_pad_image(*ctx.pool, {shape}, {source}, zero_, {room});")
        source, shape = room, f"gh::i8_padded_shape({shape})"
    body = take_results(writer, node.output, image.variables, order, whole=real)
    writer.lines.append(
        f"  gh::conv2d<gh::DotI8>(*ctx.pool, {shape}, {source}, {packed}, nullptr, {body});"
    )
    writer.variant = INT8
    return True


def _depthwise(writer: KernelWriter, node: Node, image: Image, x: _Bytes, w: _Bytes) -> None:
    order = channels_last(node.output.type.rank)
    source = writer.in_memory(x.data, order)
    taps = image.window.kernel[0] * image.window.kernel[1]
    text = (
        "(gh::ThreadPool& threads, const int8_t* source, void* out) { (void)threads; "
        f"gh::depthwise_bytes_pack(source, {size_text(taps)}, {size_text(image.window.kernel[1])}, "
        f"1, {image.weights_text()}, (int32_t*)out); }}"
    )
    packed = writer.prepared(w.data, text, f"{size_text(taps * image.channels)} * 4")
    scales = _scales(writer, x, w, "oc")
    body = take_results(
        writer, node.output, image.variables, order, whole=f"gh::to_float(whole) * {scales}"
    )
    writer.lines.append(
        f"  gh::depthwise_bytes(*ctx.pool, {image.text()}, {source}, (const int32_t*){packed}, "
        f"(int32_t){_number(writer, x.zero)}, {body});"
    )
    writer.variant = INT8


def _bytes(value: Value) -> _Bytes | None:
    node = value.node
    if node.op.name != "dequantize" or not has_loops(node):
        return None
    data, scale, zero = node.inputs
    return _Bytes(data, scale, zero, node.attrs["axis"])


def _suits(writer: KernelWriter, x: _Bytes, w: _Bytes, channels: int) -> bool:
    """Whether types, scales and zero points are those that the kernels know."""
    if x.data.type.dtype not in BYTES or w.data.type.dtype is not int8:
        return False
    if x.axis is not None or w.data not in writer.constants:
        return False
    if w.axis is not None and axis_of(w.axis, w.data.type.rank) != channels:
        return False
    return _is_zero(writer, w.zero)


def _is_zero(writer: KernelWriter, value: Value) -> bool:
    if is_number(value):
        return int(value.node.attrs["data"].reshape(-1)[0]) == 0
    return value in writer.zeros


def _real(writer: KernelWriter, x: _Bytes, w: _Bytes, sums: str, column: str) -> str:
    """The real numbers of a vector of whole sums; names the zero point and scales on the way."""
    moved = " + 128" if x.data.type.dtype is int8 else ""
    scales = _scales(writer, x, w, column)
    writer.lines += [
        f"  const int32_t zero_ = (int32_t){_number(writer, x.zero)}{moved};",
        f"  const int32_t* sums_ = {sums};",
    ]
    return f"gh::to_float(whole - gh::vi(zero_) * gh::load(sums_ + {column}, t)) * {scales}"


def _scales(writer: KernelWriter, x: _Bytes, w: _Bytes, column: str) -> str:
    """What a step of a vector of whole sums means."""
    factor = _number(writer, x.scale)
    scales = "gh::vf(scale_)"
    if w.axis is None:
        factor += f" * {_number(writer, w.scale)}"
    else:
        scales = f"(gh::vf(scale_) * gh::load({writer.in_memory(w.scale)} + {column}, t))"
    writer.lines.append(f"  const float scale_ = {factor};")
    return scales


def _number(writer: KernelWriter, value: Value) -> str:
    """The only element of a value."""
    if not is_number(value):
        return f"{writer.in_memory(value)}[0]"
    dtype = value.type.dtype
    number = from_storage(value.node.attrs["data"], dtype).reshape(-1)[0].item()
    return number_text(number, float32 if dtype.is_float else dtype)
