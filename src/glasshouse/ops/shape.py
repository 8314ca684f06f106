"""The ops that give the same elements another shape or order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import DIMS, INTS, Attr
from glasshouse.ir.dim import Dim, SymDim, bounds, product
from glasshouse.ir.op import Kind
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import axes_of, axis_of, unbroadcast

_SHAPE: dict[str, Any] = {"kind": Kind.INJECTIVE, "family": "shape"}

Plan = tuple[tuple[int, ...], ...]


def _plan(given: Any) -> Plan:
    if not isinstance(given, (list, tuple)) or not all(isinstance(g, (list, tuple)) for g in given):
        raise ValueError("a list of lists of axes")
    return tuple(INTS.convert(group) for group in given)


PLAN = Attr("plan", _plan)


def same_count(a: Dim, b: Dim) -> bool:
    """Whether two counts may be equal: False only when no choice of the symbols makes them so."""
    difference = a - b
    if isinstance(difference, SymDim):
        low, high = bounds(difference)
        return low <= 0 <= high
    return difference == 0


def require_sizes(shape: Sequence[Dim]) -> None:
    """Sizes that a tensor can have: none is known to be negative."""
    for size in shape:
        if bounds(size)[1] < 0:
            raise ShapeError(f"size {size} in shape {list(shape)} is negative")


# ----------------------------------------------------------------------------------------- reshape
def _reshape(x: TensorType, *, shape: Shape) -> TensorType:
    require_sizes(shape)
    if not same_count(x.numel, product(shape)):
        raise ShapeError(
            f"{x.numel} elements do not fit the shape {list(shape)} with {product(shape)}"
        )
    return tensor_type(x.dtype, shape)


reshape = op(
    "reshape", view="whole", narrows=True,
    **_SHAPE, infer=_reshape, ref=lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, x, y, *, shape: (reshaped(g, x.shape),),
    doc="The same elements in the same order with another shape.", shape=DIMS,
)  # fmt: skip


def reshaped(x: Any, shape: Sequence[Dim]) -> Any:
    """The handle reshaped, or itself where it has that shape already."""
    return x if x.shape == tuple(shape) else reshape(x, shape=tuple(shape))


# ----------------------------------------------------------------------------- permute, rearrange
def _ordering(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    out = tuple(axis_of(a, rank) for a in axes)
    if sorted(out) != list(range(rank)):
        raise ShapeError(f"axes {list(axes)} do not name each of {rank} dimensions once")
    return out


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The ordering that undoes `axes`."""
    order = [axis_of(a, len(axes)) for a in axes]
    return tuple(order.index(i) for i in range(len(order)))


def _permute(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    return tensor_type(x.dtype, [x.shape[a] for a in _ordering(axes, x.rank)])


permute = op(
    "permute", view="whole", narrows=True,
    **_SHAPE, infer=_permute, ref=lambda x, *, axes: x.transpose(axes),
    vjp=lambda g, x, y, *, axes: (permuted(g, inverse(axes)),),
    doc="Axes in another order: axis i of the output is axis `axes[i]` of the input.", axes=INTS,
)  # fmt: skip


def permuted(x: Any, axes: Sequence[int]) -> Any:
    """The handle permuted, or itself where the order stays."""
    return x if tuple(axes) == tuple(range(len(axes))) else permute(x, axes=tuple(axes))


def _flat(plan: Plan) -> tuple[int, ...]:
    return tuple(a for group in plan for a in group)


def _rearrange(x: TensorType, *, plan: Plan) -> TensorType:
    _ordering(_flat(plan), x.rank)
    return tensor_type(x.dtype, [product(tuple(x.shape[a] for a in group)) for group in plan])


def _rearrange_ref(x: Array, *, plan: Plan) -> Array:
    merged = [int(np.prod([x.shape[a] for a in group])) for group in plan]
    return x.transpose(_flat(plan)).reshape(merged)


def _rearrange_vjp(g: Any, x: Any, y: Any, *, plan: Plan) -> tuple[Any]:
    order = _flat(plan)
    return (permuted(reshaped(g, [x.shape[a] for a in order]), inverse(order)),)


rearrange = op(
    "rearrange", view="whole", narrows=True,
    **_SHAPE, infer=_rearrange, ref=_rearrange_ref, vjp=_rearrange_vjp,
    doc="Axes reordered and merged: output axis i is the product of the input axes `plan[i]`. An "
    "empty group gives an axis of size 1.",
    plan=PLAN,
)  # fmt: skip


# ------------------------------------------------------------------------------------------ expand
def _expand(x: TensorType, *, shape: Shape) -> TensorType:
    require_sizes(shape)
    extra = len(shape) - x.rank
    if extra < 0:
        raise ShapeError(f"the shape {list(shape)} has fewer dimensions than {x}")
    for have, wanted in zip(x.shape, shape[extra:], strict=True):
        if have != 1 and not same_count(have, wanted):
            raise ShapeError(f"size {have} does not expand to {wanted} in {list(shape)}")
    return tensor_type(x.dtype, shape)


expand = op(
    "expand", view="repeat", narrows=True,
    **_SHAPE, infer=_expand, ref=lambda x, *, shape: np.broadcast_to(x, shape),
    vjp=lambda g, x, y, *, shape: (unbroadcast(g, x),),
    doc="Axes of size 1, and new ones in front, repeated until the shape is `shape`.", shape=DIMS,
)  # fmt: skip


def expanded(x: Any, shape: Sequence[Dim]) -> Any:
    """The handle expanded, or itself where it has that shape already."""
    return x if x.shape == tuple(shape) else expand(x, shape=tuple(shape))


# -------------------------------------------------------------------------------------- flip, roll
def _flip(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    axes_of(axes, x.rank)
    return x


flip = op(
    "flip", narrows=True,
    **_SHAPE, infer=_flip, ref=lambda x, *, axes: np.flip(x, axes),
    vjp=lambda g, x, y, *, axes: (g.apply("flip", axes=axes),),
    doc="The order of the elements reversed along `axes`.", axes=INTS,
)  # fmt: skip


def _roll(x: TensorType, *, shifts: tuple[Dim, ...], axes: tuple[int, ...]) -> TensorType:
    if len(shifts) != len(axes):
        raise ShapeError(f"{len(shifts)} shifts for {len(axes)} axes")
    for axis in axes:
        axis_of(axis, x.rank)
    return x


roll = op(
    "roll", narrows=True,
    **_SHAPE, infer=_roll,
    ref=lambda x, *, shifts, axes: np.roll(x, shifts, axes) if axes else x,
    vjp=lambda g, x, y, *, shifts, axes: (g.apply("roll", shifts=[-s for s in shifts], axes=axes),),
    doc="Elements moved by `shifts` along `axes`; what leaves at one end enters at the other.",
    shifts=DIMS, axes=INTS,
)  # fmt: skip
