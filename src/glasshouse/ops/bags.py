"""Embedding bags: rows of a table, summed or averaged bag by bag, without gathering them first."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, INT
from glasshouse.ir.dtype import float32, float64, int64
from glasshouse.ir.op import Kind
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import full_near
from glasshouse.ops.declare import op
from glasshouse.ops.elementwise import maximum, where
from glasshouse.ops.index import scatter, take, take_grad
from glasshouse.ops.pieces import cut
from glasshouse.ops.reduce import cumsum, sum_
from glasshouse.ops.shape import reshaped


def _infer(
    table: TensorType, indices: TensorType, offsets: TensorType, *scale: TensorType, mean: bool,
    skipped: int, closed: bool,
) -> TensorType:  # fmt: skip
    if not table.dtype.is_float or indices.dtype.is_float or offsets.dtype.is_float:
        raise TypeMismatch("a bag is of real rows, chosen by whole numbers")
    if table.rank != 2 or indices.rank != 1 or offsets.rank != 1 or len(scale) > 1:
        raise ShapeError("a bag needs a table [row, column], indices [place] and offsets [bag]")
    for factors in scale:
        if factors != tensor_type(table.dtype, indices.shape):
            raise TypeMismatch(f"factors are {factors}, one of {table.dtype} for each index wanted")
    count = offsets.shape[0] - 1 if closed else offsets.shape[0]
    return tensor_type(table.dtype, (count, table.shape[1]))


def _ref(
    table: Array, indices: Array, offsets: Array, *scale: Array, mean: bool, skipped: int,
    closed: bool,
) -> Array:  # fmt: skip
    count = len(offsets) - 1 if closed else len(offsets)
    places = np.searchsorted(offsets, np.arange(len(indices)), "right") - 1
    counts = (places >= 0) & (places < count) & ((indices != skipped) | (skipped < 0))
    rows = table[indices[counts]].astype(np.float64)
    if scale:
        rows = rows * scale[0][counts].astype(np.float64)[:, None]
    out = np.zeros((count, table.shape[1]))
    np.add.at(out, places[counts], rows)
    if mean:
        out /= np.maximum(np.bincount(places[counts], minlength=count), 1)[:, None]
    return out


def bag_of_each(indices: Any, offsets: Any) -> Any:
    """The number of the bag in which each index lies: how many bags have begun by then, less 1.

    What lies before the first bag has -1, and what lies behind closed offsets one more than there
    are bags.
    """
    size = indices.shape[0] + 1  # bags at the end that are empty begin behind the last index
    none = full_near(offsets, (size,), 0, int64)
    ones = full_near(offsets, offsets.shape, 1, int64)
    begun = scatter(none, offsets.cast(int64), ones, axis=0, mode="add")
    return cut(cumsum(begun, axis=0) - 1, 0, 0, indices.shape[0])


def _vjp(
    g: Any, table: Any, indices: Any, offsets: Any, *rest: Any, mean: bool, skipped: int,
    closed: bool,
) -> tuple[Any, ...]:  # fmt: skip
    scale = rest[:-1]
    count, (places,) = g.shape[0], indices.shape
    bags = bag_of_each(indices, offsets)
    inside = bags.apply("greater_equal", 0).apply("logical_and", bags.apply("less", count))
    if skipped >= 0:
        counts = indices.apply("not_equal", skipped)
        inside = inside.apply("logical_and", counts)
        indices = where(counts, indices, full_near(g, (), 0, indices.dtype))  # it may be no row
    safe = where(inside, bags, full_near(g, (), 0, int64))
    wide = float64 if table.dtype is float64 else float32
    given = g.cast(wide)
    if mean:
        ones = inside.cast(wide)
        used = scatter(full_near(g, (count,), 0, wide), safe, ones, axis=0, mode="add")
        given = given / reshaped(maximum(used, 1.0), (count, 1))
    zero = full_near(g, (), 0, wide)
    used_here = reshaped(inside, (places, 1))
    rows = where(used_here, take(given, safe, axis=0), zero)
    scaled = rows
    if scale:
        scaled = where(used_here, rows * reshaped(scale[0].cast(wide), (places, 1)), zero)
    by_table = take_grad(scaled, indices, axis=0, size=table.shape[0]).cast(table.dtype)
    if not scale:
        return by_table, None, None
    seen = sum_(where(used_here, rows * take(table, indices, axis=0).cast(wide), zero), axes=[1])
    return by_table, None, None, seen.cast(table.dtype)


embedding_bag = op(
    "embedding_bag", kind=Kind.OPAQUE, family="bags", infer=_infer, ref=_ref, vjp=_vjp,
    inputs=("table", "indices", "offsets", "*scale"),
    doc="The sum (or mean) of the rows of each bag: places [offsets[b], offsets[b + 1]) of the "
    "indices, to the end in the last one. `scale` has a factor for each index.",
    mean=BOOL(False), skipped=INT(-1, "an index whose rows do not count; -1: none"),
    closed=BOOL(False, "the last offset ends the last bag, and begins none"),
)  # fmt: skip
