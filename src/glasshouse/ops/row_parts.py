"""Products around a layer norm that has no kernel of its own: one leaves statistics of its rows, in
parts, and the next one takes rows as they were before the norm.

A rewrite makes them on targets that have kernels for them (`norms_in_products.py`).
"""

from __future__ import annotations

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import FLOAT
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import require_equal

PART = 32
"""Columns of a row whose sum, and squares of distances from their mean, are one part."""
_NO_GRADIENT = NoGradient("a rewrite makes it of ops whose gradients were taken before")


def _product(x: TensorType, weight: TensorType) -> TensorType:
    if not x.dtype.is_float or weight.dtype is not x.dtype:
        raise TypeMismatch("operands of products are of one floating type")
    if x.rank < 2 or weight.rank != 2:
        raise ShapeError("a product needs x [..., depth] and a weight [columns, depth]")
    require_equal(x.shape[-1], weight.shape[1], "the inner sizes differ")
    return tensor_type(x.dtype, (*x.shape[:-1], weight.shape[0]))


def _parts_type(rows: TensorType) -> TensorType:
    """Of a tensor [..., columns]."""
    columns = rows.shape[-1]
    if not isinstance(columns, int) or columns % PART:
        raise ShapeError(f"rows of {columns} columns do not divide into parts of {PART}")
    return tensor_type(float32, (product(rows.shape[:-1]), columns // PART, 2))


def _require(have: TensorType, want: TensorType, what: str) -> None:
    if have != want:
        raise ShapeError(f"{what} is {have}, {want} is wanted")


def _moments(parts: Array, eps: float) -> tuple[Array, Array]:
    """Mean and 1 / sqrt(variance + eps) of each row, [rows, 1]."""
    sums, rests = np.moveaxis(parts.astype(np.float64), -1, 0)
    width = max(parts.shape[1] * PART, 1)
    mean = sums.sum(1, keepdims=True) / width
    apart = sums - mean * PART
    squares = rests.sum(1, keepdims=True) + (apart * apart).sum(1, keepdims=True) / PART
    return mean, 1.0 / np.sqrt(squares / width + eps)


# ------------------------------------------------------------------- a product that leaves parts
def _left_infer(
    x: TensorType,
    weight: TensorType,
    bias: TensorType,
    residual: TensorType,
    *norm: TensorType,
    eps: float,
) -> tuple[TensorType, TensorType]:
    rows = _product(x, weight)
    along = tensor_type(x.dtype, rows.shape[-1:])
    _require(bias, along, "the bias")
    _require(residual, rows, "the residual")
    parts = _parts_type(rows)
    if norm:
        if len(norm) != 3:
            raise ShapeError("a norm of the residual has parts, a scale and a shift")
        for have, want, what in zip(norm, (parts, along, along), _NORM_WORDS, strict=True):
            _require(have, want, what)
    return rows, parts


_NORM_WORDS = ("the parts of the residual", "the scale of its norm", "the shift of its norm")


def _left_ref(
    x: Array, weight: Array, bias: Array, residual: Array, *norm: Array, eps: float
) -> tuple[Array, Array]:
    rows = widened(residual)
    if norm:
        parts, scale, shift = norm
        mean, factor = (m.reshape(*rows.shape[:-1], 1) for m in _moments(parts, eps))
        rows = (rows - mean) * factor * widened(scale) + widened(shift)
    rows = rows + (np.matmul(widened(x), widened(weight).T) + widened(bias))
    whole = rows.reshape(-1, rows.shape[-1] // PART, PART)
    sums = whole.sum(-1)
    apart = whole - sums[..., None] / PART
    return rows, np.stack([sums, (apart * apart).sum(-1)], -1)


product_and_parts = op(
    "product_and_parts", kind=Kind.CONTRACTION, family="matmul", infer=_left_infer, ref=_left_ref,
    vjp=_NO_GRADIENT,
    inputs=("x", "weight", "bias", "residual", "*norm"),
    doc="residual + (x @ weight.T + bias), and of each row, for each 32 of its columns, their sum "
    "and the squares of their distances from their mean [rows, columns / 32, 2]. With parts, "
    "scale and shift of a layer norm, it is the norm of the residual that is added.",
    eps=FLOAT(1e-5, "of the residual's norm"),
)  # fmt: skip


# -------------------------------------------------------------- a product of rows before a norm
def _normed_infer(
    x: TensorType, parts: TensorType, weight: TensorType, columns: TensorType, *, eps: float
) -> TensorType:
    out = _product(x, weight)
    _require(parts, _parts_type(x), "the parts of x")
    _require(columns, tensor_type(float32, (2, weight.shape[0])), "what is known of columns")
    return out


def _normed_ref(x: Array, parts: Array, weight: Array, columns: Array, *, eps: float) -> Array:
    found = np.matmul(widened(x), widened(weight).T)
    mean, factor = (m.reshape(*found.shape[:-1], 1) for m in _moments(parts, eps))
    sums, shifts = widened(columns)
    out: Array = (found - mean * sums) * factor + shifts
    return out


normed_product = op(
    "normed_product", kind=Kind.CONTRACTION, family="matmul", infer=_normed_infer, ref=_normed_ref,
    vjp=_NO_GRADIENT,
    inputs=("x", "parts", "weight", "columns"),
    doc="(x @ weight.T - mean * columns[0]) / sqrt(variance + eps) + columns[1], where mean and "
    "variance of each row of x come from its parts (`product_and_parts`): a layer norm of x "
    "times W, with the scale in the weight, sums of its rows, and the shift times W.",
    eps=FLOAT(1e-5, "of the norm"),
)  # fmt: skip
