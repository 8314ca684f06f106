"""How ONNX's quantised ops are spelled: whole-number products between quantize and
dequantize, so that scales and zero points stay in sight."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.ops.arithmetic import converted
from glasshouse.frontend.onnx.ops.conv import convolved
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import FLOAT8, DType, float32, int8, int16, int32, uint8
from glasshouse.ops import composite
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of

_STORED = (int8, uint8, int16, int32)


def _alone(x: Any, axis: int | None, like: Any) -> tuple[Any, int | None]:
    """A scale or zero point as the core wants it: no axes, or one along `axis`."""
    if x.ndim == 0 or x.shape == (1,):
        return reshaped(x, ()), None
    if x.ndim != 1 or axis is None:
        raise Unsupported(f"scales of shape {list(x.shape)}")
    return x, axis_of(axis, like.ndim)


def _zero(c: OnnxCall, place: int, scale: Any, dtype: DType) -> Any:
    if c.has(place):
        return c[place]
    return c.full(scale.shape, 0, dtype)


@spell("QuantizeLinear")
def quantize(c: OnnxCall) -> Any:
    x, scale = c[0], c[1]
    dtype = c.item(2).dtype if c.has(2) else c.dtype("output_dtype", uint8)
    if dtype in FLOAT8:
        return converted(x / _beside(c, x, scale), dtype, c.attr("saturate", 1))
    if dtype not in _STORED:
        raise Unsupported(f"quantising to {dtype}")
    if c.attr("block_size", 0) or scale.ndim > 1:
        return _blocked_quantize(c, x, scale, dtype)
    scale, axis = _alone(scale, c.attr("axis", 1), x)
    zero, _ = _alone(_zero(c, 2, scale, dtype), c.attr("axis", 1), x)
    real = x if x.dtype.is_float else x.cast(float32)
    return real.apply("quantize", scale, zero, axis=axis, dtype=dtype)


def _beside(c: OnnxCall, x: Any, scale: Any) -> Any:
    """A scale as it broadcasts against x: of 8-bit floats, whose zero point is 0."""
    if c.attr("block_size", 0) or scale.ndim > 1:
        return _spread(c, x, scale)
    alone, axis = _alone(scale, c.attr("axis", 1), x)
    return alone if axis is None else reshaped(alone, (alone.shape[0], *(1,) * (x.ndim - axis - 1)))


def _spread(c: OnnxCall, x: Any, scale: Any) -> Any:
    """A scale for each block along an axis as one for each element."""
    axis = axis_of(c.attr("axis", 1), x.ndim)
    have, count = x.shape[axis], scale.shape[axis]
    size = c.attr("block_size", 0)
    if not size:
        if have % count != 0:
            raise Unsupported(f"{have} elements in {count} even blocks")
        size = have // count
    wide = composite.repeat_interleave(scale, size, axis)
    return composite.narrow(wide, axis, 0, have)


def _blocked_quantize(c: OnnxCall, x: Any, scale: Any, dtype: DType) -> Any:
    wide = _spread(c, x, scale)
    steps = (x / wide).apply("round")
    if c.has(2):
        steps = steps + _spread(c, x, c[2]).cast(steps.dtype)
    low, high = _limits(dtype)
    return steps.apply("clip", low=low, high=high).cast(dtype)


def _limits(dtype: DType) -> tuple[float, float]:
    least = 0 if dtype is uint8 else -(2 ** (dtype.bits - 1))
    return float(least), float(least + 2**dtype.bits - 1)


@spell("DequantizeLinear")
def dequantize(c: OnnxCall) -> Any:
    x, scale = c[0], c[1]
    if x.dtype in FLOAT8:
        return x.cast(c.dtype("output_dtype", scale.dtype)) * _beside(c, x, scale)
    if x.dtype not in _STORED:
        raise Unsupported(f"dequantising {x.dtype}")
    if c.attr("block_size", 0) or scale.ndim > 1:
        wide = x.cast(int32)
        if c.has(2):
            wide = wide - _spread(c, x, c[2].cast(int32))
        return wide.cast(scale.dtype) * _spread(c, x, scale)
    kind = c.dtype("output_dtype", scale.dtype)
    scale, axis = _alone(scale, c.attr("axis", 1), x)
    zero, _ = _alone(_zero(c, 2, scale, x.dtype), c.attr("axis", 1), x)
    return x.apply("dequantize", scale, zero, axis=axis, dtype=kind)


# ------------------------------------------------------------------------ products of whole numbers
def _centred(x: Any, zero: Any, shape: Any = None) -> Any:
    """x minus its zero point, wide enough for sums of products."""
    wide = x.cast(int32)
    if zero is None:
        return wide
    moved = zero.cast(int32)
    if moved.ndim == 1 and moved.shape[0] == 1:
        moved = reshaped(moved, ())
    return wide - (moved if shape is None or not moved.ndim else reshaped(moved, shape))


@spell("MatMulInteger")
def matmul_integer(c: OnnxCall) -> Any:
    x, y = c[0], c[1]
    rows = (*[1] * 0, x.shape[-2], 1) if x.ndim > 1 else None
    return _centred(x, c[2], rows if c[2] is not None and c[2].ndim == 1 else None).apply(
        "matmul", _centred(y, c[3])
    )


@spell("ConvInteger")
def conv_integer(c: OnnxCall) -> Any:
    x, w = c[0], c[1]
    per_output = (w.shape[0], *[1] * (w.ndim - 1))
    return convolved(c, _centred(x, c[2]), _centred(w, c[3], per_output))


def scaled(total: Any, factor: Any, bias: Any = None) -> Any:
    """A product of whole numbers as the real numbers it stands for. Its bias is added behind the
    cast, so that what is cast is the product alone: kernels compute that with the bytes."""
    factor = factor.cast(float32)
    real = total.cast(float32) * factor
    return real if bias is None else real + bias.cast(float32) * factor


def _requantized(real: Any, scale: Any, zero: Any) -> Any:
    return real.apply(
        "quantize", reshaped(scale, ()).cast(float32), reshaped(zero, ()), dtype=zero.dtype
    )


@spell("QLinearMatMul")
def qlinear_matmul(c: OnnxCall) -> Any:
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = (c[i] for i in range(8))
    total = _centred(x, x_zero).apply("matmul", _centred(y, y_zero))
    return _requantized(scaled(total, x_scale * y_scale), scale, zero)


@spell("QLinearConv")
def qlinear_conv(c: OnnxCall) -> Any:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (c[i] for i in range(8))
    rank = x.ndim - 2
    per_output = (w.shape[0], *[1] * (rank + 1))
    total = convolved(c, _centred(x, x_zero), _centred(w, w_zero, per_output))
    factor = reshaped(x_scale, ()) * w_scale
    if factor.ndim == 1:
        factor = reshaped(factor, (*factor.shape, *[1] * rank) if factor.shape != (1,) else ())
    bias = c[8] if c[8] is None else reshaped(c[8], (*c[8].shape, *[1] * rank))
    return _requantized(scaled(total, factor, bias), scale, zero)
