"""The matrix product: batched, broadcast, with either operand transposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import Category
from glasshouse.ir.op import Kind, Operands
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.declare import op
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import broadcast_shapes, require_equal, unbroadcast


def _matrix(shape: Shape, transposed: bool, which: str) -> Shape:
    if not shape:
        raise ShapeError(f"{which} is a scalar; multiply scales a tensor")
    if not transposed:
        return shape
    if len(shape) < 2:
        raise ShapeError(f"{which} has one dimension and cannot be transposed")
    return (*shape[:-2], shape[-1], shape[-2])


def _infer(x: TensorType, y: TensorType, *, transpose_x: bool, transpose_y: bool) -> TensorType:
    if x.dtype is not y.dtype:
        raise TypeMismatch(f"operands have different element types: {x.dtype}, {y.dtype}")
    if x.dtype.category is Category.BOOL:
        raise TypeMismatch("booleans have no product of matrices; cast them first")
    left, right = _matrix(x.shape, transpose_x, "x"), _matrix(y.shape, transpose_y, "y")
    inner = right[-2] if len(right) > 1 else right[0]
    require_equal(left[-1], inner, "the inner sizes differ")
    batch = broadcast_shapes([left[:-2], right[:-2]])
    return tensor_type(x.dtype, (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())))


def _ref(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
    left = x.swapaxes(-1, -2) if transpose_x else x
    right = y.swapaxes(-1, -2) if transpose_y else y
    out: Array = np.matmul(widened(left), widened(right))
    return out


def _vjp(
    g: Any, x: Any, y: Any, z: Any, *, transpose_x: bool, transpose_y: bool
) -> tuple[Any, Any]:
    left, right = x, y
    if x.ndim == 1:
        left = reshaped(x, (1, *x.shape))
        g = reshaped(g, (*g.shape[: g.ndim - (y.ndim > 1)], 1, *g.shape[g.ndim - (y.ndim > 1) :]))
    if y.ndim == 1:
        right = reshaped(y, (*y.shape, 1))
        g = reshaped(g, (*g.shape, 1))
    if right.ndim == 2 and left.ndim > 2 and not transpose_x:
        # One weight for the whole batch: a single product instead of a sum over a batch of them.
        rows = (product(left.shape[:-1]), left.shape[-1])
        left, g = reshaped(left, rows), reshaped(g, (rows[0], g.shape[-1]))
    if transpose_x:
        gx = matmul(right, g, transpose_x=transpose_y, transpose_y=True)
    else:
        gx = matmul(g, right, transpose_y=not transpose_y)
    if transpose_y:
        gy = matmul(g, left, transpose_x=True, transpose_y=transpose_x)
    else:
        gy = matmul(left, g, transpose_x=not transpose_x)
    return reshaped(unbroadcast(gx, left), x.shape), reshaped(unbroadcast(gy, right), y.shape)


matmul = op(
    "matmul", kind=Kind.CONTRACTION, family="matmul", infer=_infer, ref=_ref, vjp=_vjp,
    inputs=("x", "y"), operands=Operands.COMMON,
    doc="The product of the matrices in the last two axes; the axes before them broadcast. An "
    "operand with one dimension is a row (x) or a column (y), as in NumPy. float16 and bfloat16 "
    "are summed in float32.",
    transpose_x=BOOL(False), transpose_y=BOOL(False),
)  # fmt: skip
