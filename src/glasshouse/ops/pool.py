"""Pooling: the maximum or mean of windows, and of the parts of an evenly divided axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, DIMS, INTS
from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.ir.dtype import int64
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops import pool_ref
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.declare import op
from glasshouse.ops.pool_ref import pool_window
from glasshouse.ops.shape import permuted, reshaped
from glasshouse.ops.window import DILATION, PADDING, STRIDE

_POOL: dict[str, Any] = {"kind": Kind.REDUCTION, "family": "pool"}
_WINDOW: dict[str, Any] = {
    "kernel": INTS, "stride": STRIDE, "padding": PADDING, "dilation": DILATION,
    "ceil_mode": BOOL(False),
}  # fmt: skip
_COUNT = BOOL(True, "whether padding counts as elements of a mean")


def _check(x: TensorType, spatial: Sequence[Any], what: str) -> None:
    if not 3 <= x.rank <= 5:
        raise ShapeError(f"needs [batch, channels, 1 to 3 spatial axes], {x} has {x.rank}")
    if len(spatial) != x.rank - 2:
        raise ShapeError(f"{what} {list(spatial)} for {x.rank - 2} spatial axes")


def _pooled(
    x: TensorType, *, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, **_: Any,
) -> TensorType:  # fmt: skip
    _check(x, kernel, "kernel")
    window = pool_window(kernel, stride, padding, dilation)
    for i, k in enumerate(kernel):
        pads = (window.begins[i], window.ends[i])
        if max(pads) >= k:  # a window could lie in the padding alone
            raise ShapeError(f"padding {pads} at spatial axis {i} must be below the kernel's {k}")
    return tensor_type(x.dtype, (*x.shape[:2], *window.outputs(x.shape[2:], ceil_mode)))


def _mean(x: TensorType, **attrs: Any) -> TensorType:
    if not x.dtype.is_float:
        raise TypeMismatch(f"a mean needs a floating type, not {x.dtype}; cast it first")
    return _pooled(x, **attrs)


# -------------------------------------------------------------------------------------- max_pool
max_pool = op(
    "max_pool", narrows=True, image=True,
    **_POOL, infer=_pooled, ref=pool_ref.max_pool_ref,
    vjp=lambda g, x, y, **attrs: (g.apply("max_pool_grad", x, **attrs),),
    doc="The maximum of each window; padding never wins. The stride is the kernel unless given. "
    "`ceil_mode` lets a last window begin inside and end outside.",
    **_WINDOW,
)  # fmt: skip
max_pool_indices = op(
    "max_pool_indices", **_POOL, ref=pool_ref.max_pool_indices_ref,
    infer=lambda x, **attrs: tensor_type(int64, _pooled(x, **attrs).shape),
    vjp=NoGradient("indices are not differentiable"),
    doc="Where max_pool finds each maximum: the flat index into the spatial axes, the first of "
    "equals.",
    **_WINDOW,
)  # fmt: skip


def _max_pool_grad(g: TensorType, x: TensorType, **attrs: Any) -> TensorType:
    wanted = _pooled(x, **attrs)
    if g.dtype is not x.dtype or g.rank != x.rank:
        raise TypeMismatch(f"the gradient must be like {wanted}")
    for have, want in zip(g.shape, wanted.shape, strict=True):
        if isinstance(have, int) and isinstance(want, int) and have != want:
            raise ShapeError(f"the gradient must have the shape of {wanted}")
    return x


def _at_maxima(h: Any, index: Any) -> Any:
    """The elements of h at flat spatial indices."""
    lead = h.shape[:2]
    planes = reshaped(h, (*lead, product(h.shape[2:])))
    found = planes.apply("gather", reshaped(index, (*lead, product(index.shape[2:]))), axis=2)
    return reshaped(found, index.shape)


max_pool_grad = op(
    "max_pool_grad", image=True,
    **_POOL, infer=_max_pool_grad, ref=pool_ref.max_pool_grad_ref,
    vjp=lambda h, g, x, y, **attrs: (
        reshaped(_at_maxima(h, max_pool_indices(x, **attrs)), g.shape), None,
    ),
    inputs=("g", "x"), doc="The gradient of max_pool: g added where x has the maxima.", **_WINDOW,
)  # fmt: skip


# -------------------------------------------------------------------------------------- avg_pool
def _avg_pool_grad(g: TensorType, *, size: Sequence[Dim], **attrs: Any) -> TensorType:
    _check(g, size, "size")
    wanted = _mean(tensor_type(g.dtype, (*g.shape[:2], *size)), **attrs)
    for have, want in zip(g.shape, wanted.shape, strict=True):
        if isinstance(have, int) and isinstance(want, int) and have != want:
            raise ShapeError(f"the gradient must have the shape of {wanted}")
    return tensor_type(g.dtype, (*g.shape[:2], *size))


avg_pool = op(
    "avg_pool", image=True,
    **_POOL, infer=_mean, ref=pool_ref.avg_pool_ref,
    vjp=lambda g, x, y, **attrs: (g.apply("avg_pool_grad", size=x.shape[2:], **attrs),),
    doc="The mean of each window. The stride is the kernel unless given. What a window of "
    "ceil_mode covers beyond the padding does not count.",
    **_WINDOW, count_include_pad=_COUNT,
)  # fmt: skip
avg_pool_grad = op(
    "avg_pool_grad", image=True,
    **_POOL, infer=_avg_pool_grad, ref=pool_ref.avg_pool_grad_ref,
    vjp=lambda h, g, y, *, size, **attrs: (reshaped(h.apply("avg_pool", **attrs), g.shape),),
    inputs=("g",),
    doc="The gradient of avg_pool: g spread evenly over each window of an input of this spatial "
    "size.",
    size=DIMS, **_WINDOW, count_include_pad=_COUNT,
)  # fmt: skip


# -------------------------------------------------------------------------------------- adaptive
def _adaptive(x: TensorType, *, size: Sequence[Dim]) -> TensorType:
    _check(x, size, "size")
    for have, wanted in zip(x.shape[2:], size, strict=True):
        if bounds(wanted)[1] < 0 or (have == 0 and wanted != 0):
            raise ShapeError(f"{have} elements cannot be pooled into {wanted}")
    return tensor_type(x.dtype, (*x.shape[:2], *size))


def _adaptive_mean(x: TensorType, *, size: Sequence[Dim]) -> TensorType:
    if not x.dtype.is_float:
        raise TypeMismatch(f"a mean needs a floating type, not {x.dtype}; cast it first")
    return _adaptive(x, size=size)


def _shares(near: Any, size: Dim, count: Dim) -> Any:
    """A matrix [count, size]: the part that each input element has in each output element."""
    length, parts = (full_near(near, (), n, int64) for n in (size, count))
    row = reshaped(arange_near(near, count), (count, 1))
    column = arange_near(near, size)
    begin = (row * length) // parts
    end = ((row + 1) * length + (parts - 1)) // parts
    inside = column.apply("greater_equal", begin).apply("logical_and", column < end)
    return inside.cast(near.dtype) / (end - begin).cast(near.dtype)


def _adaptive_avg_vjp(g: Any, x: Any, y: Any, *, size: Sequence[Dim]) -> tuple[Any]:
    for axis in range(2, x.ndim):
        have, count = x.shape[axis], g.shape[axis]
        if have == count:
            continue
        last = [i for i in range(x.ndim) if i != axis] + [axis]
        spread = permuted(g, last).apply("matmul", _shares(g, have, count))
        g = permuted(spread, [last.index(i) for i in range(x.ndim)])
    return (g,)


adaptive_avg_pool = op(
    "adaptive_avg_pool", image=True,
    **_POOL, infer=_adaptive_mean, ref=pool_ref.adaptive_avg_pool_ref,
    vjp=_adaptive_avg_vjp,
    doc="Means that give the spatial axes these sizes: part i of n takes the elements from "
    "floor(i * length / n) to ceil((i + 1) * length / n).",
    size=DIMS,
)  # fmt: skip
adaptive_max_pool_indices = op(
    "adaptive_max_pool_indices", **_POOL, ref=pool_ref.adaptive_max_pool_indices_ref,
    infer=lambda x, *, size: tensor_type(int64, _adaptive(x, size=size).shape),
    vjp=NoGradient("indices are not differentiable"),
    doc="Where adaptive_max_pool finds each maximum: the flat index into the spatial axes.",
    size=DIMS,
)  # fmt: skip


def _adaptive_max_vjp(g: Any, x: Any, y: Any, *, size: Sequence[Dim]) -> tuple[Any]:
    lead, count = x.shape[:2], product(tuple(size))
    zeros = full_near(x, (*lead, product(x.shape[2:])), 0, x.dtype)
    index = reshaped(adaptive_max_pool_indices(x, size=size), (*lead, count))
    flat = zeros.apply("scatter", index, reshaped(g, (*lead, count)), axis=2, mode="add")
    return (reshaped(flat, x.shape),)


adaptive_max_pool = op(
    "adaptive_max_pool", narrows=True, image=True,
    **_POOL, infer=_adaptive, ref=pool_ref.adaptive_max_pool_ref,
    vjp=_adaptive_max_vjp, doc="As adaptive_avg_pool, with maxima.", size=DIMS,
)  # fmt: skip
