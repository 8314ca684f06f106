"""The ops that read or write elements at places that other tensors name.

Indices are int64 or int32 and may be negative, counting from the end; one out of range is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError, ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, DIM, DTYPE, INT, STR
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.dtype import DType, int32, int64
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array, add_rows, checked_indices, widened
from glasshouse.ops.create import full_near, zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.shape import same_count
from glasshouse.ops.shapes import axis_of, require_dtype, require_equal

_INDEX: dict[str, Any] = {"kind": Kind.INJECTIVE, "family": "index"}
_SCATTER: dict[str, Any] = {"kind": Kind.OPAQUE, "family": "index", "updates": True}
_MODES = ("set", "add", "mul", "max", "min")


def _require_indices(indices: TensorType) -> None:
    require_dtype(indices, (int64, int32), "indices")


def _require_mode(mode: str, x: TensorType, updates: TensorType) -> None:
    if mode not in _MODES:
        raise TypeMismatch(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if x.dtype is not updates.dtype:
        raise TypeMismatch(f"updates of {updates.dtype} into {x.dtype}")


def _nonzero_rank(x: TensorType) -> None:
    if x.rank == 0:
        raise ShapeError("a scalar has no axis to index")


# ------------------------------------------------------------------- from_front: none from the end
def _from_front(x: TensorType, *, besides: int) -> TensorType:
    _require_indices(x)
    return x


def _from_front_ref(x: Array, *, besides: int) -> Array:
    return np.where((x < 0) & (x != besides), np.iinfo(x.dtype).max, x)


from_front = op(
    "from_front", kind=Kind.ELEMENTWISE, family="index", cost=1,
    infer=_from_front, ref=_from_front_ref, vjp=NoGradient("indices have none"),
    besides=INT(0, "a negative number that is kept; 0: none"),
    doc="Indices that may not count from the end: a negative one becomes one outside of every "
    "tensor, so that the op that looks it up ends the run.",
)  # fmt: skip


# -------------------------------------------------------------------------------- take: whole rows
def _take(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    _require_indices(indices)
    _nonzero_rank(x)
    at = axis_of(axis, x.rank)
    return tensor_type(x.dtype, (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def _take_ref(x: Array, indices: Array, *, axis: int) -> Array:
    at = axis % x.ndim
    return np.take(x, checked_indices(indices, x.shape[at], at), axis)


def _take_vjp(g: Any, x: Any, indices: Any, y: Any, *, axis: int) -> tuple[Any, None]:
    at = axis_of(axis, x.ndim)
    return take_grad(g, indices, axis=at, size=x.shape[at]), None


take = op(
    "take", **_INDEX, infer=_take, ref=_take_ref, vjp=_take_vjp, inputs=("x", "indices"),
    doc="The slices of x along an axis that `indices` name; an embedding is a take of rows.",
    axis=INT(0),
)  # fmt: skip


def _take_grad(g: TensorType, indices: TensorType, *, axis: int, size: Dim) -> TensorType:
    _require_indices(indices)
    if not 0 <= axis <= g.rank - indices.rank:
        raise ShapeError(f"axis {axis} does not fit a gradient of {g} by indices of {indices}")
    after = axis + indices.rank
    for have, wanted in zip(g.shape[axis:after], indices.shape, strict=True):
        require_equal(have, wanted, "the gradient does not have the shape of the indices")
    return tensor_type(g.dtype, (*g.shape[:axis], size, *g.shape[after:]))


def _take_grad_ref(g: Array, indices: Array, *, axis: int, size: int) -> Array:
    rows = checked_indices(indices, size, axis).reshape(-1)
    before, after = g.shape[:axis], g.shape[axis + indices.ndim :]
    wide = widened(g).reshape(*before, rows.size, *after)
    front = np.moveaxis(wide, axis, 0)
    out = np.zeros((size, int(np.prod(before + after))), wide.dtype)
    add_rows(out, rows, front.reshape(rows.size, out.shape[1]))
    return np.moveaxis(out.reshape(size, *before, *after), 0, axis)


take_grad = op(
    "take_grad", **_SCATTER, infer=_take_grad, ref=_take_grad_ref, inputs=("g", "indices"),
    vjp=lambda h, g, indices, y, *, axis, size: (take(h, indices, axis=axis), None),
    doc="The gradient of take: slices of g added up where `indices` name the same place.",
    axis=INT, size=DIM,
)  # fmt: skip


# ----------------------------------------------------------------- gather, scatter: along one axis
def _check_along(x: TensorType, indices: TensorType, axis: int) -> None:
    _require_indices(indices)
    _nonzero_rank(x)
    at = axis_of(axis, x.rank)
    if indices.rank != x.rank:
        raise ShapeError(f"indices need the {x.rank} dimensions of {x}, they have {indices.rank}")
    for i, (have, asked) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != at and bounds(asked - have)[0] > 0:
            raise ShapeError(f"indices have {asked} at axis {i}, the tensor has {have}")


def _gather(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    _check_along(x, indices, axis)
    return tensor_type(x.dtype, indices.shape)


def _places(indices: Array, shape: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """For each element of `indices`, where in a tensor of `shape` it points."""
    at = axis % len(shape)
    for i, (have, asked) in enumerate(zip(shape, indices.shape, strict=True)):
        if i != at and asked > have:
            raise ExecutionError(f"indices have {asked} at axis {i}, the tensor has {have}")
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[at] = checked_indices(indices, shape[at], at)
    return tuple(grid)


def _gather_vjp(g: Any, x: Any, indices: Any, y: Any, *, axis: int) -> tuple[Any, None]:
    zeros = full_near(g, x.shape, 0, g.dtype)
    return scatter(zeros, indices, g, axis=axis, mode="add"), None


gather = op(
    "gather", **_INDEX, infer=_gather, inputs=("x", "indices"), vjp=_gather_vjp,
    ref=lambda x, indices, *, axis: x[_places(indices, x.shape, axis)],
    doc="y[i, j] = x[indices[i, j], j] for axis 0, and so for every axis.", axis=INT,
)  # fmt: skip


def _scatter(
    x: TensorType, indices: TensorType, updates: TensorType, *, axis: int, mode: str
) -> TensorType:
    _check_along(x, indices, axis)
    _require_mode(mode, x, updates)
    if updates.rank != indices.rank or not all(map(same_count, updates.shape, indices.shape)):
        raise ShapeError(f"updates {updates} and indices {indices} differ in shape")
    return x


def _written(x: Array, places: tuple[Any, ...], updates: Array, mode: str) -> Array:
    if mode == "set":
        out = np.array(x)
        out[places] = updates
        return out
    if mode in ("add", "mul"):
        out = np.array(widened(x))
        (np.add if mode == "add" else np.multiply).at(out, places, updates)
        return out
    out = np.array(x)
    (np.maximum if mode == "max" else np.minimum).at(out, places, updates)
    return out


def _extreme_vjp(
    g: Any, x: Any, indices: Any, updates: Any, y: Any, read: Any, write: Any, **at: Any
) -> tuple[Any, None, Any]:
    """Elements that are equal to the extreme share its gradient evenly, as in PyTorch."""
    own = x.apply("equal", y).cast(g.dtype)
    new = updates.apply("equal", read(y, indices, **at)).cast(g.dtype)
    share = g / write(own, indices, new, mode="add", **at)
    # A NaN is equal to nothing: 0 / 0 where nothing is, which stays there.
    return share * own, None, read(share, indices, **at) * new


def _product_vjp(
    g: Any, x: Any, indices: Any, updates: Any, y: Any, read: Any, write: Any, **at: Any
) -> tuple[Any, None, Any]:
    """Of each factor, the product of the others: without the zeros, all of it over the factor.

    Next to one zero every other factor has the gradient 0, next to two that zero, too.
    """
    own, new = (v.apply("equal", 0.0) for v in (x, updates))
    zeros = write(own.cast(g.dtype), indices, new.cast(g.dtype), mode="add", **at)
    x1, new1 = own.apply("where", 1.0, x), new.apply("where", 1.0, updates)
    rest = g * write(x1, indices, new1, mode="mul", **at)

    def share(rest: Any, zeros: Any, factor: Any, is_zero: Any) -> Any:
        others = zeros - is_zero.cast(g.dtype)
        return others.apply("equal", 0.0).apply("where", rest / factor, 0.0)

    there, among = read(rest, indices, **at), read(zeros, indices, **at)
    return share(rest, zeros, x1, own), None, share(there, among, new1, new)


def _scatter_vjp(
    g: Any, x: Any, indices: Any, updates: Any, y: Any, *, axis: int, mode: str
) -> tuple[Any, None, Any]:
    if mode in ("max", "min"):
        return _extreme_vjp(g, x, indices, updates, y, gather, scatter, axis=axis)
    if mode == "mul":
        return _product_vjp(g, x, indices, updates, y, gather, scatter, axis=axis)
    gx = g
    if mode == "set":
        gx = scatter(g, indices, zeros_like_type(updates), axis=axis, mode="set")
    return gx, None, gather(g, indices, axis=axis)


scatter = op(
    "scatter", **_SCATTER, inputs=("x", "indices", "updates"), infer=_scatter, vjp=_scatter_vjp,
    ref=lambda x, indices, updates, *, axis, mode: _written(
        x, _places(indices, x.shape, axis), updates, mode
    ),
    doc="x with x[indices[i, j], j] set to (increased by, multiplied with) updates[i, j], and so "
    "for every axis; or to the larger (smaller) of both. Where indices repeat, set keeps one of "
    "the updates.",
    axis=INT, mode=STR("set"),
)  # fmt: skip


# ---------------------------------------------------------------- gather_nd, scatter_nd: by tuples
def _depth(x: TensorType, indices: TensorType) -> int:
    _require_indices(indices)
    if indices.rank == 0 or not isinstance(indices.shape[-1], int):
        raise ShapeError(f"the last axis of indices must have a fixed size, {indices} has not")
    if indices.shape[-1] > x.rank:
        raise ShapeError(f"tuples of {indices.shape[-1]} indices into {x.rank} dimensions")
    return indices.shape[-1]


def _gather_nd(x: TensorType, indices: TensorType) -> TensorType:
    depth = _depth(x, indices)
    return tensor_type(x.dtype, (*indices.shape[:-1], *x.shape[depth:]))


def _nd_places(indices: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    depth = indices.shape[-1]
    return tuple(checked_indices(indices[..., i], shape[i], i) for i in range(depth))


def _gather_nd_ref(x: Array, indices: Array) -> Array:
    if indices.shape[-1] == 0:
        return np.broadcast_to(x, (*indices.shape[:-1], *x.shape))
    return x[_nd_places(indices, x.shape)]


def _gather_nd_vjp(g: Any, x: Any, indices: Any, y: Any) -> tuple[Any, None]:
    zeros = full_near(g, x.shape, 0, g.dtype)
    return scatter_nd(zeros, indices, g, mode="add"), None


gather_nd = op(
    "gather_nd", **_INDEX, infer=_gather_nd, ref=_gather_nd_ref, vjp=_gather_nd_vjp,
    inputs=("x", "indices"),
    doc="y[i] = x[indices[i, 0], indices[i, 1], ...]: the last axis of `indices` is a place in x.",
)  # fmt: skip


def _scatter_nd(
    x: TensorType, indices: TensorType, updates: TensorType, *, mode: str, axis: int
) -> TensorType:
    if not 0 <= axis <= x.rank:
        raise ShapeError(f"axis {axis} of {x}")
    inner = _gather_nd(tensor_type(x.dtype, x.shape[axis:]), indices)
    wanted = (*x.shape[:axis], *inner.shape)
    _require_mode(mode, x, updates)
    if updates.rank != len(wanted) or not all(map(same_count, updates.shape, wanted)):
        raise ShapeError(f"updates must have the shape {list(wanted)}, they are {updates}")
    return x


def _scatter_nd_ref(x: Array, indices: Array, updates: Array, *, mode: str, axis: int) -> Array:
    if indices.shape[-1] > 0:
        places = _nd_places(indices, x.shape[axis:])
        return _written(x, (*[slice(None)] * axis, *places), updates, mode)
    inner = x.shape[axis:]
    flat = np.moveaxis(updates.reshape(*x.shape[:axis], -1, *inner), axis, 0)
    if mode == "add":
        return np.asarray(widened(x) + widened(flat).sum(0))
    if mode == "mul":
        return np.asarray(widened(x) * widened(flat).prod(0))
    if mode in ("max", "min"):
        both = np.concatenate([x[None], flat])
        return np.asarray(both.max(0) if mode == "max" else both.min(0))
    return flat[-1] if len(flat) else x


def _read_from(x: Any, indices: Any, *, axis: int) -> Any:
    """What `scatter_nd` writes to: tuples name places of the axes from `axis` on."""
    if not axis:
        return gather_nd(x, indices)
    read = gather_nd(x.apply("permute", axes=(*range(axis, x.ndim), *range(axis))), indices)
    back = range(read.ndim - axis, read.ndim)
    return read.apply("permute", axes=(*back, *range(read.ndim - axis)))


def _scatter_nd_vjp(
    g: Any, x: Any, indices: Any, updates: Any, y: Any, *, mode: str, axis: int
) -> tuple[Any, None, Any]:
    if mode in ("max", "min"):
        return _extreme_vjp(g, x, indices, updates, y, _read_from, scatter_nd, axis=axis)
    if mode == "mul":
        return _product_vjp(g, x, indices, updates, y, _read_from, scatter_nd, axis=axis)
    gx = g
    if mode == "set":
        gx = scatter_nd(g, indices, zeros_like_type(updates), mode="set", axis=axis)
    return gx, None, _read_from(g, indices, axis=axis)


scatter_nd = op(
    "scatter_nd", **_SCATTER, infer=_scatter_nd, ref=_scatter_nd_ref, vjp=_scatter_nd_vjp,
    inputs=("x", "indices", "updates"),
    doc="x with x[indices[i, 0], indices[i, 1], ...] set to (increased by, multiplied with) "
    "updates[i], or to the larger (smaller) of both. Tuples name places of the axes from `axis` "
    "on; `updates` has those in front of it, too.",
    mode=STR("set"), axis=INT(0),
)  # fmt: skip


# ------------------------------------------------------------------------------- triangle, one_hot
def _triangle(x: TensorType, *, diagonal: Dim, upper: bool) -> TensorType:
    if x.rank < 2:
        raise ShapeError(f"a triangle needs two dimensions, {x} has {x.rank}")
    return x


triangle = op(
    "triangle", **_INDEX, infer=_triangle,
    ref=lambda x, *, diagonal, upper: np.triu(x, diagonal) if upper else np.tril(x, diagonal),
    vjp=lambda g, x, y, *, diagonal, upper: (g.apply("triangle", diagonal=diagonal, upper=upper),),
    doc="The lower (or upper) triangle of the matrices in the last two axes, zeros elsewhere. The "
    "triangle includes `diagonal`: 0 is the main one, 1 the one above it.",
    diagonal=DIM(0), upper=BOOL(False),
)  # fmt: skip


def _one_hot(indices: TensorType, *, depth: Dim, dtype: DType) -> TensorType:
    _require_indices(indices)
    if isinstance(depth, int) and depth < 1:
        raise ShapeError(f"depth {depth} is not positive")
    return tensor_type(dtype, (*indices.shape, depth))


def _one_hot_ref(indices: Array, *, depth: int, dtype: DType) -> Array:
    places = checked_indices(indices, depth, indices.ndim)
    hot: Array = places[..., None] == np.arange(depth)
    return hot.astype(dtype.carrier)


one_hot = op(
    "one_hot", **_INDEX, infer=_one_hot, ref=_one_hot_ref, inputs=("indices",),
    vjp=NoGradient("indices are not differentiable"),
    doc="1 where the position along a new last axis of size `depth` is the index, 0 elsewhere.",
    depth=DIM, dtype=DTYPE(int64),
)  # fmt: skip
