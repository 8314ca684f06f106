"""Embedding bags: rows of a table, gathered and summed bag by bag.

Sums and means are a gather and a scatter that adds: linear in the number of indices. A maximum
compares every bag with every index.
"""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.index import from_front
from glasshouse.frontend.torch.aten.registry import apply, aten, is_static
from glasshouse.ir.dtype import float32, float64, int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import cut
from glasshouse.ops.shape import expanded, reshaped

_SUM, _MEAN, _MAX = 0, 1, 2


@aten("embedding_bag.padding_idx")
def embedding_bag_without(
    weight: Any, indices: Any, offsets: Any, scale_by_freq: bool, mode: int, sparse: bool,
    per_sample: Any, include_last: bool, padding_idx: int | None,
) -> Any:  # fmt: skip
    """Here alone a negative row counts from the end."""
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return embedding_bag(
        weight, indices, offsets, scale_by_freq, mode, sparse, per_sample, include_last, padding_idx
    )


@aten("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample: Any = None, include_last: bool = False,
    padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """The rows of each bag added up (0), averaged (1) or their maximum (2); `offsets` says where
    bags begin."""
    if not is_static(*offsets.shape) or indices.ndim != 1:
        raise Unsupported("an embedding bag without a fixed number of bags")
    count = offsets.shape[0] - (1 if include_last else 0)
    bags = _bag_of_each(indices, offsets)
    rows = weight.apply("take", from_front(indices))
    counted = None
    if padding_idx is not None and padding_idx >= 0:
        counted = indices.apply("not_equal", padding_idx)
    if mode == _MAX:
        out = _largest(rows, bags, counted, count)
    else:
        if per_sample is not None:
            rows = rows * composite.unsqueeze(per_sample, -1)
        if counted is not None:  # not a product with zeros: NaN in the row left out is not seen
            rows = apply("where", composite.unsqueeze(counted, -1), rows, 0.0)
        wide = rows if rows.dtype is float64 else rows.cast(float32)
        out = _summed(wide, bags, count)
        if mode == _MEAN:
            ones = full_near(weight, (*indices.shape, 1), 1.0, wide.dtype)
            if counted is not None:
                ones = reshaped(counted, ones.shape).cast(wide.dtype)
            out = out / apply("maximum", _summed(ones, bags, count), 1.0)
        out = out.cast(weight.dtype)
    empty = full_near(weight, (0,), 0, int64)
    return out, empty, empty, empty


def _bag_of_each(indices: Any, offsets: Any) -> Any:
    """The number of the bag in which each index lies: how many bags have begun by then, less 1.

    What lies before the first bag has -1, and what lies behind `include_last_offset` one more than
    there are bags.
    """
    size = indices.shape[0] + 1  # bags at the end that are empty begin behind the last index
    none = full_near(offsets, (size,), 0, int64)
    ones = full_near(offsets, offsets.shape, 1, int64)
    begun = none.apply("scatter", offsets.cast(int64), ones, axis=0, mode="add")
    numbers = begun.apply("cumsum", axis=0) - 1
    return composite.narrow(numbers, 0, 0, indices.shape[0])


def _summed(rows: Any, bags: Any, count: int) -> Any:
    """The sum of each bag's rows; the bag behind the last takes those that lie in none."""
    zeros = full_near(rows, (count + 1, rows.shape[1]), 0.0, rows.dtype)
    places = reshaped(bags, (*bags.shape, 1))
    return cut(zeros.apply("scatter_nd", places, rows, mode="add"), 0, 0, count)


def _largest(rows: Any, bags: Any, counted: Any, count: int) -> Any:
    """The maximum of each bag's rows, 0 of an empty one."""
    number = reshaped(arange_near(rows, count), (count, 1))
    inside = expanded(reshaped(bags, (1, *bags.shape)), (count, *bags.shape)).apply("equal", number)
    if counted is not None:
        inside = inside & counted
    held = apply("where", composite.unsqueeze(inside, -1), rows, -math.inf)
    some = inside.apply("any", axes=[1], keepdims=True)
    return apply("where", some, held.apply("max", axes=[1]), 0.0)
