"""How further activations and functions are spelled with the core's."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import ShapeError
from glasshouse.ir.dim import floor_div
from glasshouse.ops.pieces import split
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of


def square(x: Any) -> Any:
    return x * x


def reciprocal(x: Any) -> Any:
    return 1.0 / x


def exp2(x: Any) -> Any:
    return (x * math.log(2)).apply("exp")


def log2(x: Any) -> Any:
    return x.apply("log") / math.log(2)


def log10(x: Any) -> Any:
    return x.apply("log") / math.log(10)


def lerp(x: Any, y: Any, weight: Any) -> Any:
    """From x (weight 0) to y (weight 1) in a straight line, which starts at the nearer end: an
    infinite end is met exactly."""
    way = y - x
    if isinstance(weight, (int, float)):
        return x + way * weight if abs(weight) < 0.5 else y - way * (1.0 - weight)
    near = weight.apply("absolute") < 0.5
    return near.apply("where", x + way * weight, y - way * (1.0 - weight))


def relu6(x: Any) -> Any:
    return hardtanh(x, 0.0, 6.0)


def hardtanh(x: Any, low: float = -1.0, high: float = 1.0) -> Any:
    return x.apply("clip", low=low, high=high, flat_bounds=True)


def mish(x: Any) -> Any:
    """`x * tanh(softplus(x))`."""
    return x * x.apply("softplus").apply("tanh")


# The two constants for which activations keep mean 0 and variance 1 (Klambauer et al., 2017).
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(x: Any) -> Any:
    return x.apply("elu", alpha=_SELU_ALPHA) * _SELU_SCALE


def celu(x: Any, alpha: float = 1.0) -> Any:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    return x.apply("elu") if alpha == 1 else (x / alpha).apply("elu") * alpha


def softsign(x: Any) -> Any:
    """`x / (1 + |x|)`."""
    return x / (abs(x) + 1.0)


def tanhshrink(x: Any) -> Any:
    return x - x.apply("tanh")


def hardshrink(x: Any, limit: float = 0.5) -> Any:
    """x, and 0 where |x| is at most the limit."""
    return (abs(x) <= limit).apply("where", 0.0, x)


def softshrink(x: Any, limit: float = 0.5) -> Any:
    """x moved towards 0 by the limit, and 0 where it would pass it."""
    return x - x.apply("clip", low=-limit, high=limit)


def threshold(x: Any, limit: float, value: float) -> Any:
    """x where it is above the limit, `value` elsewhere."""
    return (x > limit).apply("where", x, value)


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), which does not overflow for large negative x."""
    return -((-x).apply("softplus"))


def prelu(x: Any, slope: Any) -> Any:
    """x, times a learned slope (one, or one for each channel at axis 1) where it is negative."""
    if slope.type.numel != 1 and x.ndim > 1:
        slope = reshaped(slope, (*slope.shape, *[1] * (x.ndim - 2)))
    return (x > 0).apply("where", x, x * slope)


def glu(x: Any, axis: int = -1) -> Any:
    """The first half of an axis, gated by the sigmoid of the second."""
    at = axis_of(axis, x.ndim)
    half = floor_div(x.shape[at], 2)
    if half * 2 != x.shape[at]:
        raise ShapeError(f"glu({x.type}): axis {at} has no two halves", x.builder.where())
    value, gate = split(x, axis=at, sizes=[half, half])
    return value * gate.apply("sigmoid")


def softmin(x: Any, axis: int = -1) -> Any:
    return (-x).apply("softmax", axis=axis)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow."""
    high = x.apply("maximum", y)
    return high + (-abs(x - y)).apply("exp").apply("log1p")
