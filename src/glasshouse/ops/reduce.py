"""The folds along axes, and running sums.

The reference accumulates floats in float64 and rounds once, so that what faster kernels are
compared with has no error of its own. Sums of integers and bools are int64, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import BOOL, INT, OPT_INTS
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, bool_, float32, int64
from glasshouse.ir.op import Kind, NoGradient, Op, Operands
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import full_near
from glasshouse.ops.declare import op
from glasshouse.ops.elementwise import equal, where
from glasshouse.ops.shape import expand, reshaped
from glasshouse.ops.shapes import axes_of, axis_of, reduced

Axes = tuple[int, ...] | None


def accumulated(x: Array) -> Array:
    """x in the type in which it is summed."""
    return x.astype(np.float64 if x.dtype.kind == "f" else np.int64, copy=False)


def restored(g: Any, like: Any, axes: Axes, keepdims: bool) -> Any:
    """A reduced tensor over the shape that it had before."""
    kept = reduced(like.shape, axes, keepdims=True)
    return expand(g if keepdims else reshaped(g, kept), shape=like.shape)


def shared(g: Any, dims: tuple[Dim, ...], less: int = 0) -> Any:
    """g divided by how many elements `dims` hold, `less` of them left out.

    Half types take the detour over float32: float16 ends at 65504, and counts do not.
    """
    size = product(dims) - less
    kind = float32 if g.dtype.bits < 32 else g.dtype
    by = float(size) if isinstance(size, int) else full_near(g, (), size, kind)
    return (g.cast(kind) / by).cast(g.dtype)


# ------------------------------------------------------------------------------------- shape rules
def _same_type(x: TensorType, *, axes: Axes, keepdims: bool, **_: Any) -> TensorType:
    return tensor_type(x.dtype, reduced(x.shape, axes, keepdims))


def _sum_type(x: TensorType, *, axes: Axes, keepdims: bool) -> TensorType:
    return tensor_type(sum_dtype(x.dtype), reduced(x.shape, axes, keepdims))


def _bool_type(x: TensorType, *, axes: Axes, keepdims: bool) -> TensorType:
    return tensor_type(bool_, reduced(x.shape, axes, keepdims))


def _extreme_type(x: TensorType, *, axes: Axes, keepdims: bool) -> TensorType:
    for axis in axes_of(axes, x.rank):
        _require_elements(x, axis)
    return tensor_type(x.dtype, reduced(x.shape, axes, keepdims))


def _index_type(x: TensorType, *, axis: int, keepdims: bool) -> TensorType:
    at = axis_of(axis, x.rank)
    if x.rank:
        _require_elements(x, at)
    return tensor_type(int64, reduced(x.shape, (at,) if x.rank else (), keepdims))


def _running_type(x: TensorType, *, axis: int, **_: Any) -> TensorType:
    axis_of(axis, x.rank)
    return tensor_type(sum_dtype(x.dtype), x.shape)


def sum_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_float else int64


def _require_elements(x: TensorType, axis: int) -> None:
    if x.shape[axis] == 0:
        raise ShapeError(f"axis {axis} is empty: no elements to choose from")


_FOLD: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "reduce",
    "axes": OPT_INTS(None, "None: all axes"), "keepdims": BOOL(False),
}  # fmt: skip


# -------------------------------------------------------------------------------------------- folds
sum_ = op(
    "sum", **_FOLD, infer=_sum_type, doc="Sum along axes",
    ref=lambda x, *, axes, keepdims: np.sum(accumulated(x), axis=axes, keepdims=keepdims),
    vjp=lambda g, x, y, *, axes, keepdims: (restored(g, x, axes, keepdims),),
)  # fmt: skip


def _mean_ref(x: Array, *, axes: Axes, keepdims: bool) -> Array:
    size = np.prod([x.shape[a] for a in axes_of(axes, x.ndim)])
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=np.float64) / np.float64(size))


def _mean_vjp(g: Any, x: Any, y: Any, *, axes: Axes, keepdims: bool) -> tuple[Any]:
    dims = tuple(x.shape[a] for a in axes_of(axes, x.ndim))
    if 0 in dims:
        return (None,)
    return (restored(shared(g, dims), x, axes, keepdims),)


mean = op(
    "mean", **_FOLD, infer=_same_type, operands=Operands.FLOAT, ref=_mean_ref, vjp=_mean_vjp,
    doc="Mean along axes; NaN where there are no elements",
)  # fmt: skip


def _prod_vjp(g: Any, x: Any, y: Any, *, axes: Axes, keepdims: bool) -> tuple[Any]:
    # The product of the others: y / x, without dividing by a zero. Zeros are replaced by ones in
    # `rest`; that is right where no other element is zero. Where one is, the value is rest * 0,
    # written with the zero itself, so that the gradient of this gradient sees it. With two or more
    # both are 0 (what comes after them, the third derivative at two zeros, is not seen).
    zero = equal(x, 0.0)
    safe, zeros = where(zero, 1.0, x), where(zero, x, 0.0)
    counted = zero.cast(x.dtype)
    others = sum_(counted, axes=axes, keepdims=True) - counted
    other_zero = sum_(zeros, axes=axes, keepdims=True) - zeros
    rest = prod(safe, axes=axes, keepdims=True) / safe
    with_one_zero = where(equal(others, 1.0), rest * other_zero, 0.0)
    return (restored(g, x, axes, keepdims) * where(equal(others, 0.0), rest, with_one_zero),)


prod = op(
    "prod", **_FOLD, infer=_sum_type, vjp=_prod_vjp, doc="Product along axes",
    ref=lambda x, *, axes, keepdims: np.prod(accumulated(x), axis=axes, keepdims=keepdims),
)  # fmt: skip


def _extreme_vjp(g: Any, x: Any, y: Any, *, axes: Axes, keepdims: bool) -> tuple[Any]:
    chosen = equal(x, restored(y, x, axes, keepdims)).cast(x.dtype)
    share = reshaped(g, reduced(x.shape, axes, True)) / sum_(chosen, axes=axes, keepdims=True)
    return (chosen * share,)


max_ = op(
    "max", narrows=True,
    **_FOLD, infer=_extreme_type, vjp=_extreme_vjp,
    ref=lambda x, *, axes, keepdims: np.max(x, axis=axes, keepdims=keepdims),
    doc="Maximum along axes; NaN if there is one. Equal maxima share the gradient",
)  # fmt: skip
min_ = op(
    "min", narrows=True,
    **_FOLD, infer=_extreme_type, vjp=_extreme_vjp,
    ref=lambda x, *, axes, keepdims: np.min(x, axis=axes, keepdims=keepdims),
    doc="Minimum along axes; NaN if there is one. Equal minima share the gradient",
)  # fmt: skip
any_ = op(
    "any", **_FOLD, infer=_bool_type, vjp=NoGradient("its output is bool"),
    ref=lambda x, *, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims),
    doc="Whether an element along the axes is not 0",
)  # fmt: skip
all_ = op(
    "all", **_FOLD, infer=_bool_type, vjp=NoGradient("its output is bool"),
    ref=lambda x, *, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims),
    doc="Whether all elements along the axes are not 0",
)  # fmt: skip


# ----------------------------------------------------------------------------------------- variance
def _variance_ref(x: Array, *, axes: Axes, keepdims: bool, correction: int) -> Array:
    apart = x - _mean_ref(x, axes=axes, keepdims=True)
    size = np.prod([x.shape[a] for a in axes_of(axes, x.ndim)])
    total = np.sum(apart * apart, axis=axes, keepdims=keepdims)
    out: Array = total / np.float64(max(size - correction, 0))
    return out


def _variance_vjp(
    g: Any, x: Any, y: Any, *, axes: Axes, keepdims: bool, correction: int
) -> tuple[Any]:
    dims = tuple(x.shape[a] for a in axes_of(axes, x.ndim))
    if 0 in dims:
        return (None,)
    freedom = product(dims) - correction
    if isinstance(freedom, int) and freedom <= 0:
        return (restored(g, x, axes, keepdims) * float("nan"),)
    apart = x - mean(x, axes=axes, keepdims=True)
    return (restored(shared(g * 2.0, dims, correction), x, axes, keepdims) * apart,)


variance = op(
    "variance", cost=4,
    **_FOLD, infer=_same_type, operands=Operands.FLOAT, ref=_variance_ref,
    vjp=_variance_vjp, correction=INT(1, "subtracted from the number of elements; 0: biased"),
    doc="Mean squared distance from the mean along axes",
)  # fmt: skip


# ------------------------------------------------------------------------------ choice of an index
def _index_ref(how: Any) -> Any:
    def ref(x: Array, *, axis: int, keepdims: bool) -> Array:
        if x.ndim == 0:
            return np.zeros((), np.int64)
        out: Array = how(x, axis=axis, keepdims=keepdims)
        return out

    return ref


_INDEX: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "reduce", "infer": _index_type,
    "vjp": NoGradient("its output is an index"), "axis": INT, "keepdims": BOOL(False),
}  # fmt: skip
argmax = op(
    "argmax", cost=2,
    **_INDEX, ref=_index_ref(np.argmax),
    doc="Where along the axis the maximum is: the first of equal ones; NaN counts as the largest",
)  # fmt: skip
argmin = op(
    "argmin", cost=2,
    **_INDEX, ref=_index_ref(np.argmin),
    doc="Where along the axis the minimum is: the first of equal ones; NaN counts as the smallest",
)  # fmt: skip


# -------------------------------------------------------------------------------------- running sum
def _cumsum_ref(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    wide = accumulated(x)
    if x.ndim == 0:
        return np.zeros_like(wide) if exclusive else wide
    if reverse:
        wide = np.flip(wide, axis)
    out: Array = np.cumsum(wide, axis=axis)
    if exclusive:
        out = np.roll(out, 1, axis)
        np.moveaxis(out, axis, 0)[:1] = 0
    return np.flip(out, axis) if reverse else out


cumsum: Op = op(
    "cumsum", kind=Kind.OPAQUE, family="reduce", infer=_running_type, ref=_cumsum_ref,
    vjp=lambda g, x, y, *, axis, exclusive, reverse: (
        cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),
    ),
    doc="Running sum along an axis",
    axis=INT, exclusive=BOOL(False, "leave out the element itself"),
    reverse=BOOL(False, "from the end"),
)  # fmt: skip
