"""The op that reads all windows along an axis: overlapping views, without looking up a place."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import INT
from glasshouse.ir.dim import SymDim, floor_div
from glasshouse.ir.op import Kind
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import arange_near
from glasshouse.ops.declare import op
from glasshouse.ops.index import take_grad
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of


def _windows(x: TensorType, *, axis: int, size: int, step: int, dilation: int) -> TensorType:
    at = axis_of(axis, x.rank)
    if size < 1 or step < 1 or dilation < 1:
        raise ShapeError(f"windows of {size}, {step} apart, of elements {dilation} apart")
    count = floor_div(x.shape[at] - (size - 1) * dilation - 1, step) + 1
    if not isinstance(count, SymDim) and count < 1:
        raise ShapeError(f"no window of {size} elements, {dilation} apart, in axis {at} of {x}")
    return tensor_type(x.dtype, (*x.shape[:at], count, *x.shape[at + 1 :], size))


def _windows_ref(x: Array, *, axis: int, size: int, step: int, dilation: int) -> Array:
    span = (size - 1) * dilation + 1
    every = np.lib.stride_tricks.sliding_window_view(x, span, axis)
    chosen = np.moveaxis(np.moveaxis(every, axis % x.ndim, 0)[::step], 0, axis % x.ndim)
    return np.asarray(chosen[..., ::dilation])


def _windows_vjp(
    g: Any, x: Any, y: Any, *, axis: int, size: int, step: int, dilation: int
) -> tuple[Any]:
    at = axis_of(axis, x.ndim)
    begins = reshaped(arange_near(g, y.shape[at]) * step, (y.shape[at], 1))
    places = begins + arange_near(g, size) * dilation
    order = (*range(at + 1), g.ndim - 1, *range(at + 1, g.ndim - 1))
    return (take_grad(g.apply("permute", axes=order), places, axis=at, size=x.shape[at]),)


windows = op(
    "windows", kind=Kind.INJECTIVE, family="shape", narrows=True,
    infer=_windows, ref=_windows_ref, vjp=_windows_vjp,
    doc="All windows of `size` elements, `dilation` apart, that begin `step` apart along an axis; "
    "a window's elements lie along a new last axis.",
    axis=INT, size=INT, step=INT(1), dilation=INT(1),
)  # fmt: skip
