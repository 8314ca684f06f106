"""The activation functions that have a kernel of their own; others are composites."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch
from glasshouse.ir.attrs import FLOAT, STR
from glasshouse.ir.dtype import bool_
from glasshouse.ir.op import Kind, Operands
from glasshouse.ir.types import TensorType
from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.declare import op
from glasshouse.ops.elementwise import where
from glasshouse.ops.erf import erf as erf_ref
from glasshouse.ops.math import erf, exp, tanh
from glasshouse.ops.shapes import same_shape

_REAL: dict[str, Any] = {
    "kind": Kind.ELEMENTWISE, "family": "activation", "infer": same_shape,
    "operands": Operands.FLOAT,
}  # fmt: skip


def _sigmoid_ref(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-widened(x)))
    return out


sigmoid = op(
    "sigmoid", cost=16, narrows=True, never_negative=True, onnx="Sigmoid",
    **_REAL, ref=_sigmoid_ref, vjp=lambda g, x, y: (g * (y * (1.0 - y)),),
    doc="1 / (1 + exp(-x))",
)  # fmt: skip


def _relu_type(x: TensorType) -> TensorType:
    if x.dtype is bool_:
        raise TypeMismatch("it is not defined for bool")
    return x


relu = op(
    "relu", narrows=True, never_negative=True, onnx="Relu",
    kind=Kind.ELEMENTWISE, family="activation", infer=_relu_type,
    ref=lambda x: np.maximum(x, 0), vjp=lambda g, x, y: (where(x <= 0, 0.0, g),),
    doc="max(x, 0); NaN stays NaN",
)  # fmt: skip
leaky_relu = op(
    "leaky_relu", cost=2, narrows=True,
    **_REAL, ref=lambda x, *, slope: np.where(x > 0, x, x * slope),
    vjp=lambda g, x, y, *, slope: (where(x > 0, g, g * slope),),
    doc="x where it is positive, else slope * x", slope=FLOAT(0.01),
)  # fmt: skip
elu = op(
    "elu", cost=14, narrows=True,
    **_REAL, ref=lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    vjp=lambda g, x, y, *, alpha: (where(x > 0, g, g * (y + alpha)),),
    doc="x where it is positive, else alpha * (exp(x) - 1)", alpha=FLOAT(1.0),
)  # fmt: skip


# -------------------------------------------------------------------------------------------- gelu
_SCALE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _gelu_type(x: TensorType, *, approximate: str) -> TensorType:
    if approximate not in ("none", "tanh"):
        raise TypeMismatch(f'approximate must be "none" or "tanh", not {approximate!r}')
    return x


def _gelu_ref(x: Array, *, approximate: str) -> Array:
    x = widened(x)
    if approximate == "none":
        below = erf_ref(x * math.sqrt(0.5))
    else:
        below = np.tanh(_SCALE * (x + _CUBIC * x * x * x))
    out: Array = 0.5 * x * (1 + below)
    return out


def _gelu_vjp(g: Any, x: Any, y: Any, *, approximate: str) -> tuple[Any]:
    square = x * x
    if approximate == "none":
        below = erf(x * math.sqrt(0.5)) * 0.5 + 0.5
        density = exp(square * -0.5) * (1 / math.sqrt(2 * math.pi))
        return (g * (below + x * density),)
    t = tanh(x * (square * (_SCALE * _CUBIC) + _SCALE))
    slope = x * (1.0 - t * t) * (square * (3 * _SCALE * _CUBIC) + _SCALE)
    return (g * ((t + 1.0) + slope) * 0.5,)


gelu = op(
    "gelu", cost=26, narrows=True,
    **{**_REAL, "infer": _gelu_type}, ref=_gelu_ref, vjp=_gelu_vjp,
    doc="x times the share of the normal distribution below x; exactly, or with tanh",
    approximate=STR("none", '"none" or "tanh"'),
)  # fmt: skip


# -------------------------------------------------------------------------------- silu and its like
def _silu_vjp(g: Any, x: Any, y: Any) -> tuple[Any]:
    s = sigmoid(x)
    return (g * (s + y * (1.0 - s)),)


silu = op(
    "silu",
    cost=18,
    narrows=True,
    **_REAL,
    ref=lambda x: widened(x) * _sigmoid_ref(x),
    vjp=_silu_vjp,
    doc="x * sigmoid(x)",
)
hardswish = op(
    "hardswish", cost=4, narrows=True, onnx="HardSwish",
    **_REAL, ref=lambda x: widened(x) * _ramp(x) / 6,
    vjp=lambda g, x, y: (where(x <= -3.0, 0.0, where(x >= 3.0, g, g * (x * (1 / 3) + 0.5))),),
    doc="x * clip(x + 3, 0, 6) / 6",
)  # fmt: skip
hardsigmoid = op(
    "hardsigmoid", cost=3, narrows=True, never_negative=True,
    **_REAL, ref=lambda x: _ramp(x) / 6,
    vjp=lambda g, x, y: (where(x.apply("absolute") < 3.0, g * (1 / 6), 0.0),),
    doc="clip(x + 3, 0, 6) / 6",
)  # fmt: skip


def _ramp(x: Array) -> Array:
    out: Array = np.minimum(np.maximum(widened(x) + 3, 0), 6)
    return out


def _softplus_ref(x: Array, *, beta: float, threshold: float) -> Array:
    scaled = widened(x) * beta
    return np.where(scaled > threshold, widened(x), np.log1p(np.exp(scaled)) / beta)


softplus = op(
    "softplus", cost=30, never_negative=True,
    **_REAL, ref=_softplus_ref,
    vjp=lambda g, x, y, *, beta, threshold: (
        where(x * beta > threshold, g, g * sigmoid(x * beta)),
    ),
    doc="log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold",
    beta=FLOAT(1.0), threshold=FLOAT(20.0),
)  # fmt: skip
