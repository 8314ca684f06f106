"""How elements are put in order: stable, with NaN above every number."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import BOOL, INT
from glasshouse.ir.dtype import int32, int64
from glasshouse.ir.op import Kind
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import axis_of, require_dtype


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Indices that put x in order; equal elements keep their order both ways."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # Turned round twice, so that equal elements end in the order in which they came.
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    out: Array = x.shape[axis] - 1 - np.flip(backwards, axis)
    return out


def _sorted(x: Array, axis: int, descending: bool, limit: int | None) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    indices = _order(x, axis, descending)
    if limit is not None:
        indices = np.take(indices, np.arange(limit), axis)
    return np.take_along_axis(x, indices, axis), indices


def _sort_type(x: TensorType, *, axis: int, descending: bool) -> tuple[TensorType, TensorType]:
    axis_of(axis, x.rank)
    return x, tensor_type(int64, x.shape)


def _topk_type(x: TensorType, *, k: int, axis: int, largest: bool) -> tuple[TensorType, TensorType]:
    at = axis_of(axis, x.rank)
    size = x.shape[at] if x.rank else 1
    if k < 0 or (isinstance(size, int) and k > size):
        raise ShapeError(f"k is {k}, axis {at} has {size} elements")
    shape = tuple(k if i == at else d for i, d in enumerate(x.shape))
    return tensor_type(x.dtype, shape), tensor_type(int64, shape)


def _nth_type(
    x: TensorType, ranks: TensorType, *, axis: int, descending: bool
) -> tuple[TensorType, TensorType]:
    at = axis_of(axis, x.rank)
    require_dtype(ranks, (int64, int32), "ranks")
    if ranks.rank != x.rank or not x.rank:
        raise ShapeError(f"ranks of {x} have as many axes, got {ranks}")
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, ranks.shape, strict=True)) if i != at):
        raise ShapeError(f"ranks of {x} differ from it along axis {at} alone, got {ranks}")
    return tensor_type(x.dtype, ranks.shape), tensor_type(int64, ranks.shape)


def _nth(x: Array, ranks: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    indices = np.take_along_axis(_order(x, axis, descending), ranks, axis)
    return np.take_along_axis(x, indices, axis), indices


def _nth_back(
    gs: Any, x: Any, ranks: Any, values: Any, indices: Any, *, axis: int, **_: Any
) -> tuple[Any, None]:
    if gs[0] is None:
        return None, None
    at = axis_of(axis, x.ndim)
    return zeros_like_type(x).apply("scatter", indices, gs[0], axis=at, mode="add"), None


def _back(gs: Any, x: Any, values: Any, indices: Any, *, axis: int, **_: Any) -> tuple[Any]:
    if gs[0] is None or not x.ndim:
        return (gs[0],)
    zeros = zeros_like_type(x)
    return (zeros.apply("scatter", indices, gs[0], axis=axis_of(axis, x.ndim), mode="set"),)


sort = op(
    "sort", kind=Kind.OPAQUE, family="sort", infer=_sort_type, vjp=_back,
    ref=lambda x, *, axis, descending: _sorted(x, axis, descending, None),
    doc="Elements in order along an axis, and where they were; equal ones keep their order",
    axis=INT(-1), descending=BOOL(False),
)  # fmt: skip
topk = op(
    "topk", kind=Kind.OPAQUE, family="sort", infer=_topk_type, vjp=_back,
    ref=lambda x, *, k, axis, largest: _sorted(x, axis, largest, k),
    doc="The k largest (or smallest) elements along an axis, best first, and where they were",
    k=INT, axis=INT(-1), largest=BOOL(True, "False: the smallest"),
)  # fmt: skip
nth = op(
    "nth", kind=Kind.OPAQUE, family="sort", infer=_nth_type, vjp=_nth_back, ref=_nth,
    inputs=("x", "ranks"),
    doc="The elements at given ranks of the order along an axis, and where they were",
    axis=INT(-1), descending=BOOL(False),
)  # fmt: skip
