"""Gradients of layer norm as ops of their own: from its operand alone, without saved statistics.

A compiled training step has them where one kernel computes each: that of x goes row by row, those
of weight and bias add up rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import FLOAT, INT
from glasshouse.ir.op import Kind, NoGradient, Operands
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import axis_of

_OF: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "norm", "operands": Operands.FLOAT, "eps": FLOAT(1e-5),
    "axis": INT(-1, "the first of the axes that are normalised"),
    "vjp": NoGradient("it is a gradient itself, which only compiled training steps hold"),
}  # fmt: skip


def _check(g: TensorType, x: TensorType, axis: int) -> int:
    if not x.rank or g != x:
        raise ShapeError(f"the gradient must be {x}, as the operand, which must have axes")
    return axis_of(axis, x.rank)


def _standard(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    apart = wide - np.mean(wide, axes, keepdims=True)
    r = 1 / np.sqrt(np.mean(apart * apart, axes, keepdims=True) + eps)
    return apart * r, r


def _infer(
    g: TensorType, x: TensorType, weight: TensorType | None = None, *, axis: int, eps: float
) -> TensorType:
    wanted = x.shape[_check(g, x, axis) :]
    if weight is not None and weight.shape != wanted:
        raise ShapeError(f"weight must have shape {list(wanted)}, not {list(weight.shape)}")
    return x


def _ref(g: Array, x: Array, weight: Array | None = None, *, axis: int, eps: float) -> Array:
    if not x.size:
        return x
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    hat, r = _standard(x, axes, eps)
    h = g.astype(np.float64) if weight is None else g.astype(np.float64) * weight
    along = hat * np.mean(h * hat, axes, keepdims=True)
    out: Array = r * (h - np.mean(h, axes, keepdims=True) - along)
    return out


layer_norm_grad = op(
    "layer_norm_grad", cost=16, **_OF, infer=_infer, ref=_ref, inputs=("g", "x", "weight?"),
    doc="The gradient of x, where `g` is that of layer_norm(x, weight, ...) over the axes from "
    "`axis` on. Mean and variance are computed again.",
)  # fmt: skip


def _infer_weights(
    g: TensorType, x: TensorType, *, axis: int, eps: float
) -> tuple[TensorType, TensorType]:
    made = tensor_type(x.dtype, x.shape[_check(g, x, axis) :])
    return made, made


def _ref_weights(g: Array, x: Array, *, axis: int, eps: float) -> tuple[Array, Array]:
    first = axis_of(axis, x.ndim)
    before, axes = tuple(range(first)), tuple(range(first, x.ndim))
    hat = _standard(x, axes, eps)[0] if x.size else x
    wide = g.astype(np.float64)
    return (wide * hat).sum(before), wide.sum(before)


layer_norm_weight_grad = op(
    "layer_norm_weight_grad", cost=8, **_OF, infer=_infer_weights, ref=_ref_weights,
    inputs=("g", "x"),
    doc="The gradients of weight and bias, where `g` is that of layer_norm(x, weight, bias) over "
    "the axes from `axis` on. Mean and variance are computed again.",
)  # fmt: skip
