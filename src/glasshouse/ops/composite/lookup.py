"""How tables are read and written by index, and windows and diagonals taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError
from glasshouse.ir.dim import SymDim
from glasshouse.ops.composite.shape import moveaxis, unsqueeze
from glasshouse.ops.create import arange_near
from glasshouse.ops.pieces import concat
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import axis_of, broadcast_shapes


def index_select(x: Any, axis: int, indices: Any) -> Any:
    """The slices along an axis that a list of indices names."""
    return x.apply("take", indices, axis=axis)


def embedding(indices: Any, weight: Any) -> Any:
    """The row of the weight for each index."""
    return weight.apply("take", indices)


def places_of(x: Any, arrays: Sequence[Any]) -> Any:
    """Index arrays, which broadcast, as one tensor whose last axis is a place in x."""
    handles = [
        a.cast("int64") if hasattr(a, "builder") else x.builder.wrap(x.builder.constant(a))
        for a in arrays
    ]
    shape = broadcast_shapes([h.shape for h in handles])
    parts = [unsqueeze(expanded(h, shape), len(shape)) for h in handles]
    return concat(*parts, axis=len(shape)) if len(parts) > 1 else parts[0]


def index_put(x: Any, arrays: Sequence[Any], value: Any, accumulate: bool = False) -> Any:
    """x with `x[arrays[0], arrays[1], ...]` set to, or increased by, a value that broadcasts."""
    if not 0 < len(arrays) <= x.ndim:
        what = f"index_put({x.type}): {len(arrays)} index arrays for {x.ndim} dimensions"
        raise ShapeError(what, x.builder.where())
    places = places_of(x, arrays)
    if not hasattr(value, "builder"):
        value = x.builder.wrap(x.builder.constant(value, x.dtype))
    shape = (*places.shape[:-1], *x.shape[len(arrays) :])
    updates = expanded(value.cast(x.dtype), shape)
    return x.apply("scatter_nd", places, updates, mode="add" if accumulate else "set")


def unfold(x: Any, axis: int, size: int, step: int) -> Any:
    """All windows of `size` along an axis, `step` apart, with the window as a new last axis."""
    return x.apply("windows", axis=axis, size=size, step=step)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements of two axes whose indices differ by `offset`, as a new last axis."""
    first, second = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    rows, columns = x.shape[first], x.shape[second]
    if first == second or isinstance(rows, SymDim) or isinstance(columns, SymDim):
        what = f"diagonal({x.type}): needs two axes of fixed sizes"
        raise ShapeError(what, x.builder.where())
    down, right = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - down, columns - right))
    front = moveaxis(x, [first, second], [0, 1])
    steps = arange_near(x, count)
    found = front.apply("gather_nd", places_of(x, [steps + down, steps + right]))
    return moveaxis(found, 0, -1)
