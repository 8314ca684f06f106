"""Quantised programs: PT2E's `quantized_decomposed` ops as quantize and dequantize.

Scales are numbers, tensors of one element, or one for each index along an axis. Ops for tokens and
groups have a scale for each row; they are spelled with plain arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Context, apply, aten, is_handle, scalar
from glasshouse.ir.dtype import DType, float32, float64, int64
from glasshouse.ops.shape import reshaped

_NAME = "quantized_decomposed::"


def _number(ctx: Context, given: Any, dtype: DType) -> Any:
    """A scale or zero point for the whole tensor."""
    if is_handle(given):
        return reshaped(given.cast(dtype), ())
    return ctx.constant(np.asarray(given, dtype.carrier), dtype)


def _limit(given: Any) -> int:
    if not isinstance(given, int):
        raise Unsupported("limits that are tensors")
    return given


@aten(f"{_NAME}quantize_per_tensor", context=True)
def quantize_per_tensor(
    ctx: Context, x: Any, scale: Any, zero: Any, low: Any, high: Any, dtype: DType
) -> Any:
    return x.cast(float32).apply(
        "quantize", _number(ctx, scale, float32), _number(ctx, zero, int64), dtype=dtype,
        low=_limit(low), high=_limit(high),
    )  # fmt: skip


@aten(f"{_NAME}dequantize_per_tensor", context=True)
def dequantize_per_tensor(
    ctx: Context, x: Any, scale: Any, zero: Any, low: Any, high: Any, dtype: DType,
    out_dtype: DType | None = None,
) -> Any:  # fmt: skip
    return x.apply(
        "dequantize", _number(ctx, scale, float32), _number(ctx, zero, int64),
        dtype=out_dtype or float32,
    )  # fmt: skip


@aten(f"{_NAME}quantize_per_channel")
def quantize_per_channel(
    x: Any, scales: Any, zeros: Any, axis: int, low: int, high: int, dtype: DType
) -> Any:
    return x.cast(float32).apply(
        "quantize", scales.cast(float32), zeros.cast(int64), axis=axis, dtype=dtype, low=low,
        high=high,
    )  # fmt: skip


@aten(f"{_NAME}dequantize_per_channel")
def dequantize_per_channel(
    x: Any, scales: Any, zeros: Any, axis: int, low: int, high: int, dtype: DType,
    out_dtype: DType | None = None,
) -> Any:  # fmt: skip
    if zeros is None:
        zeros = scalar(x, 0, int64).apply("expand", shape=scales.shape)
    return x.apply(
        "dequantize", scales.cast(float32), zeros.cast(int64), axis=axis,
        dtype=out_dtype or float32,
    )  # fmt: skip


# ---------------------------------------------------------------------- scales from the data itself
@aten(f"{_NAME}choose_qparams")
def choose_qparams(x: Any, low: int, high: int, eps: float, dtype: DType) -> tuple[Any, Any]:
    x = x.cast(float32)
    least = apply("minimum", x.apply("min"), 0.0)
    most = apply("maximum", x.apply("max"), 0.0)
    scale = apply("maximum", (most - least) / float(high - low), eps)
    steps = (least / scale).apply("round").cast(int64)
    zero = apply("minimum", apply("maximum", scalar(x, low, int64) - steps, low), high)
    return reshaped(scale.cast(float64), (1,)), reshaped(zero, (1,))


@aten(f"{_NAME}choose_qparams_symmetric")
def choose_qparams_symmetric(
    x: Any, low: int, high: int, eps: float, dtype: DType
) -> tuple[Any, Any]:
    most = x.cast(float32).apply("absolute").apply("max")
    scale = apply("maximum", most / (float(high - low) / 2), eps)
    zero = scalar(x, 128 if dtype.name == "uint8" else 0, int64)
    return reshaped(scale.cast(float64), (1,)), reshaped(zero, (1,))


# --------------------------------------------------------------------------- a scale for each row
@aten(f"{_NAME}quantize_per_token")
def quantize_per_token(x: Any, scales: Any, zeros: Any, low: int, high: int, dtype: DType) -> Any:
    steps = (x * (1.0 / scales) + zeros.cast(float32)).apply("round")
    return apply("minimum", apply("maximum", steps, float(low)), float(high)).cast(dtype)


@aten(f"{_NAME}dequantize_per_token")
def dequantize_per_token(
    x: Any, scales: Any, zeros: Any, low: int, high: int, dtype: DType, out_dtype: DType
) -> Any:
    return ((x.cast(float32) - zeros.cast(float32)) * scales.cast(float32)).cast(out_dtype)
