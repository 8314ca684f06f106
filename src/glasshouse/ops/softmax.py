"""Softmax and its logarithm: shifted by the maximum, so that nothing overflows."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.ir.attrs import INT
from glasshouse.ir.op import Kind, Operands
from glasshouse.ir.types import TensorType
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.math import exp
from glasshouse.ops.reduce import sum_
from glasshouse.ops.shapes import axis_of


def _type(x: TensorType, *, axis: int) -> TensorType:
    axis_of(axis, x.rank)
    return x


def _shifted(x: Array, axis: int) -> tuple[Array, int | None]:
    """x minus its maximum, in float64, and the axis (None for a scalar, which has no axes)."""
    along = axis if x.ndim else None
    wide = x.astype(np.float64)
    return wide - np.max(wide, axis=along, keepdims=True, initial=-np.inf), along


def _softmax_ref(x: Array, *, axis: int) -> Array:
    shifted, along = _shifted(x, axis)
    powers = np.exp(shifted)
    out: Array = powers / np.sum(powers, axis=along, keepdims=True)
    return out


def _log_softmax_ref(x: Array, *, axis: int) -> Array:
    shifted, along = _shifted(x, axis)
    out: Array = shifted - np.log(np.sum(np.exp(shifted), axis=along, keepdims=True))
    return out


def _sum(x: Any, axis: int) -> Any:
    return sum_(x, axes=[axis] if x.ndim else [], keepdims=True)


_SOFTMAX: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "softmax", "infer": _type, "operands": Operands.FLOAT,
    "axis": INT(-1),
}  # fmt: skip
softmax = op(
    "softmax", cost=18, never_negative=True,
    **_SOFTMAX, ref=_softmax_ref,
    vjp=lambda g, x, y, *, axis: (y * (g - _sum(g * y, axis)),),
    doc="exp(x) divided by its sum along the axis; NaN where all elements are -inf",
)  # fmt: skip
log_softmax = op(
    "log_softmax", cost=18,
    **_SOFTMAX, ref=_log_softmax_ref,
    vjp=lambda g, x, y, *, axis: (g - exp(y) * _sum(g, axis),),
    doc="log(softmax(x)), without the loss of digits",
)  # fmt: skip
