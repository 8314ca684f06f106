"""How real numbers become small integers and back: scale and zero point are operands.

`q = clip(round(x / scale) + zero_point, low, high)` and `x = (q - zero_point) * scale`, computed in
float32 (float64 when an operand is). Halves round to even, overflow saturates, NaN becomes the zero
point. One scale and zero point for the tensor, or (with `axis`) one for each index along that axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import DTYPE, OPT_INT
from glasshouse.ir.dtype import Category, DType, float32, int8, int16, int32, uint8
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.reduce import sum_
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of, require_dtype, require_equal

_INTS = (int8, uint8, int16, int32)
_QUANT: dict[str, Any] = {
    "kind": Kind.ELEMENTWISE, "family": "quant", "inputs": ("x", "scale", "zero_point"),
    "axis": OPT_INT(None, "None: one scale for the whole tensor"),
}  # fmt: skip


def _check_params(x: TensorType, scale: TensorType, zero: TensorType, axis: int | None) -> None:
    if not scale.dtype.is_float:
        raise TypeMismatch(f"scale must be floating, not {scale.dtype}")
    if zero.dtype.category is not Category.INT:
        raise TypeMismatch(f"zero_point must be an integer, not {zero.dtype}")
    for t, what in ((scale, "scale"), (zero, "zero_point")):
        if axis is None:
            if t.rank:
                raise ShapeError(
                    f"{what} must be a scalar, not {t}; or give the axis it lies along"
                )
            continue
        at = axis_of(axis, x.rank)
        if t.rank != 1:
            raise ShapeError(f"{what} must have one dimension, like axis {at} of x, not {t}")
        require_equal(t.shape[0], x.shape[at], f"{what} does not fit axis {at} of {x}")


def _beside(shape: tuple[Any, ...], axis: int | None) -> tuple[Any, ...]:
    """The shape in which scales broadcast against x."""
    at = None if axis is None else axis_of(axis, len(shape))
    return () if at is None else tuple(d if i == at else 1 for i, d in enumerate(shape))


def _params(x: Array, scale: Array, zero: Array, axis: int | None) -> tuple[Array, Array]:
    shape = _beside(x.shape, axis)
    kind = np.result_type(scale.dtype, np.float32)
    return scale.astype(kind).reshape(shape), zero.astype(np.int64).reshape(shape)


# ---------------------------------------------------------------------------------------- quantize
def limits_of(dtype: DType, low: int | None, high: int | None) -> tuple[int, int]:
    """The least and the greatest that `quantize` gives."""
    limits = np.iinfo(dtype.carrier)
    return int(limits.min) if low is None else low, int(limits.max) if high is None else high


def _quantize_type(
    x: TensorType, scale: TensorType, zero: TensorType, *,
    axis: int | None, dtype: DType, low: int | None, high: int | None,
) -> TensorType:  # fmt: skip
    if not x.dtype.is_float:
        raise TypeMismatch(f"x must be floating, not {x.dtype}")
    require_dtype(tensor_type(dtype, ()), _INTS, "dtype")
    _check_params(x, scale, zero, axis)
    least, most = limits_of(dtype, None, None)
    begin, end = limits_of(dtype, low, high)
    if not least <= begin <= end <= most:
        raise TypeMismatch(
            f"low {begin} and high {end} do not lie within {least}..{most} of {dtype}"
        )
    return tensor_type(dtype, x.shape)


def _quantize_ref(
    x: Array, scale: Array, zero: Array, *,
    axis: int | None, dtype: DType, low: int | None, high: int | None,
) -> Array:  # fmt: skip
    scale, zero = _params(x, scale, zero, axis)
    steps = np.rint(x / scale)
    begin, end = limits_of(dtype, low, high)
    # Clipped as a float first: an infinite or huge quotient has no integer. 2**40 leaves room for
    # every zero point and is exact in float32.
    whole = np.clip(np.where(np.isnan(steps), 0, steps), -(2.0**40), 2.0**40).astype(np.int64)
    return np.clip(whole + zero, begin, end).astype(dtype.carrier)


quantize = op(
    "quantize", cost=5,
    **_QUANT, infer=_quantize_type, ref=_quantize_ref,
    vjp=NoGradient("its output is an integer; training uses a straight-through composite"),
    doc="clip(round(x / scale) + zero_point, low, high)",
    dtype=DTYPE, low=OPT_INT(None, "None: the least of dtype"),
    high=OPT_INT(None, "None: the greatest of dtype"),
)  # fmt: skip


# -------------------------------------------------------------------------------------- dequantize
def _dequantize_type(
    x: TensorType, scale: TensorType, zero: TensorType, *, axis: int | None, dtype: DType
) -> TensorType:
    require_dtype(x, _INTS, "x")
    if not dtype.is_float:
        raise TypeMismatch(f"dtype must be floating, not {dtype}")
    _check_params(x, scale, zero, axis)
    return tensor_type(dtype, x.shape)


def _dequantize_ref(
    x: Array, scale: Array, zero: Array, *, axis: int | None, dtype: DType
) -> Array:
    scale, zero = _params(x, scale, zero, axis)
    out: Array = (x.astype(np.int64) - zero).astype(scale.dtype) * scale
    return out


def _dequantize_vjp(
    g: Any, x: Any, scale: Any, zero: Any, y: Any, *, axis: int | None, dtype: DType
) -> tuple[None, Any, None]:
    steps = x.cast(scale.dtype) - reshaped(zero, _beside(x.shape, axis)).cast(scale.dtype)
    at = None if axis is None else axis_of(axis, x.ndim)
    return None, sum_(g.cast(scale.dtype) * steps, axes=[i for i in range(x.ndim) if i != at]), None


dequantize = op(
    "dequantize", cost=2,
    **_QUANT, infer=_dequantize_type, ref=_dequantize_ref, vjp=_dequantize_vjp,
    doc="(x - zero_point) * scale", dtype=DTYPE(float32),
)  # fmt: skip
