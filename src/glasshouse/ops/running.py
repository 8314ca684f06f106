"""Running products, extremes and log-sum-exps along an axis, and linear recurrences.

A linear recurrence is its own gradient, and that of the products and log-sum-exps: none of them
divides, so zeros among the factors are no special case. The reference computes floats in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, INT
from glasshouse.ir.dtype import int64
from glasshouse.ir.op import Kind, Op
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import full_near, zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.elementwise import equal, where
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.reduce import accumulated, sum_dtype
from glasshouse.ops.shapes import axis_of

_RUNNING: dict[str, Any] = {"kind": Kind.OPAQUE, "family": "running"}


def moved(x: Any, axis: int, back: bool, fill: float) -> Any:
    """Each element's successor (`back`: predecessor) along an axis, `fill` at the end."""
    size = x.shape[axis]
    if size == 0:
        return x
    rest = cut(x, axis, 0, size - 1) if back else cut(x, axis, 1, size)
    return _with_edge(rest, axis, back, fill)


def _with_edge(x: Any, axis: int, first: bool, fill: float) -> Any:
    """x and one more place along an axis."""
    edge = full_near(x, tuple(1 if a == axis else d for a, d in enumerate(x.shape)), fill, x.dtype)
    return concat(edge, x, axis=axis) if first else concat(x, edge, axis=axis)


# ------------------------------------------------------------------------------- linear recurrence
def _recurrence(a: TensorType, b: TensorType, *, axis: int, reverse: bool) -> TensorType:
    if a != b:
        raise TypeMismatch(f"factors and terms differ: {a}, {b}")
    axis_of(axis, a.rank)
    return a


def _recurrence_ref(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    a, b = accumulated(a), accumulated(b)
    if not b.ndim:
        return b
    out = np.empty_like(b)
    rows = [np.moveaxis(v, axis, 0) for v in (a, b, out)]
    order = range(rows[1].shape[0])
    held: Array | None = None
    for i in reversed(order) if reverse else order:
        held = rows[1][i] if held is None else rows[0][i] * held + rows[1][i]
        rows[2][i] = held
    return out


def _recurrence_vjp(g: Any, a: Any, b: Any, y: Any, *, axis: int, reverse: bool) -> tuple[Any, Any]:
    if not a.ndim:
        return zeros_like_type(a), g
    at = axis_of(axis, a.ndim)
    size = a.shape[at]
    if size == 0:
        return a, g
    by_b = linear_recurrence(moved(a, at, reverse, 0.0), g, axis=at, reverse=not reverse)
    # The first factor is never used: its gradient is 0, of infinite terms too.
    later, before = (0, 1) if reverse else (1, 0)
    used = cut(by_b, at, later, size - before) * cut(y, at, before, size - later)
    return _with_edge(used, at, not reverse, 0.0), by_b


linear_recurrence: Op = op(
    "linear_recurrence", **_RUNNING, infer=_recurrence, ref=_recurrence_ref, vjp=_recurrence_vjp,
    inputs=("a", "b"),
    doc="y[i] = a[i] y[i - 1] + b[i] along an axis, y[0] = b[0]",
    axis=INT, reverse=BOOL(False, "from the end"),
)  # fmt: skip


# ----------------------------------------------------------------------------------------- product
def _product(x: TensorType, *, axis: int) -> TensorType:
    axis_of(axis, x.rank)
    return tensor_type(sum_dtype(x.dtype), x.shape)


def _product_vjp(g: Any, x: Any, y: Any, *, axis: int) -> tuple[Any]:
    if not x.ndim:
        return (g,)
    at = axis_of(axis, x.ndim)
    behind = linear_recurrence(moved(x, at, False, 0.0), g, axis=at, reverse=True)
    return (moved(y, at, True, 1.0) * behind,)


cumprod = op(
    "cumprod", **_RUNNING, infer=_product, vjp=_product_vjp,
    ref=lambda x, *, axis: np.cumprod(accumulated(x), axis) if x.ndim else accumulated(x),
    doc="Running product along an axis", axis=INT,
)  # fmt: skip


# --------------------------------------------------------------------------------- log of sum of e
def _log_sum(x: TensorType, *, axis: int) -> TensorType:
    if not x.dtype.is_float:
        raise TypeMismatch(f"logarithms are of real numbers, not of {x.dtype}")
    axis_of(axis, x.rank)
    return x


def _log_sum_ref(x: Array, *, axis: int) -> Array:
    wide = accumulated(x)
    with np.errstate(all="ignore"):
        out: Array = np.logaddexp.accumulate(wide, axis) if x.ndim else wide
    return out


def _log_sum_vjp(g: Any, x: Any, y: Any, *, axis: int) -> tuple[Any]:
    if not x.ndim:
        return (g,)
    at = axis_of(axis, x.ndim)
    one = full_near(x, (), 1.0, x.dtype)
    # Equal sums have equal shares; two infinite ones have no difference to tell that.
    after = moved(y, at, False, 0.0)
    share = where(equal(y, after), one, (y - after).apply("exp"))
    behind = linear_recurrence(share, g, axis=at, reverse=True)
    return (where(equal(x, y), one, (x - y).apply("exp")) * behind,)


logcumsumexp = op(
    "logcumsumexp", **_RUNNING, infer=_log_sum, ref=_log_sum_ref, vjp=_log_sum_vjp,
    doc="Logarithm of the running sum of exponentials along an axis", axis=INT,
)  # fmt: skip


# --------------------------------------------------------------------------------------- extremes
def _extreme(x: TensorType, *, axis: int, largest: bool) -> tuple[TensorType, TensorType]:
    if x.rank and x.shape[axis_of(axis, x.rank)] == 0:
        raise ShapeError(f"axis {axis} is empty: no elements to choose from")
    axis_of(axis, x.rank)
    return x, tensor_type(int64, x.shape)


def _extreme_ref(x: Array, *, axis: int, largest: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    rows = np.moveaxis(x, axis, 0)
    values, places = np.empty_like(rows), np.zeros(rows.shape, np.int64)
    best, place = rows[0], np.zeros(rows.shape[1:], np.int64)
    for i, row in enumerate(rows):
        wins = (row >= best if largest else row <= best) | (row != row)
        best, place = np.where(wins, row, best), np.where(wins, i, place)
        values[i], places[i] = best, place
    return np.moveaxis(values, 0, axis), np.moveaxis(places, 0, axis)


def _extreme_vjp(
    gs: Any, x: Any, values: Any, places: Any, *, axis: int, largest: bool
) -> tuple[Any]:
    if gs[0] is None or not x.ndim:
        return (gs[0],)
    at = axis_of(axis, x.ndim)
    return (zeros_like_type(x).apply("scatter", places, gs[0], axis=at, mode="add"),)


cummax = op(
    "cummax", **_RUNNING, infer=_extreme, ref=_extreme_ref, vjp=_extreme_vjp,
    doc="The largest element so far along an axis, and where it is: the last of equal ones; NaN "
    "counts as the largest, and as the smallest",
    axis=INT, largest=BOOL(True, "False: the smallest"),
)  # fmt: skip
