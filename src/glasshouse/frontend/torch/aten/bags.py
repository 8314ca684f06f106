"""How ATen's embedding bags are spelled: an op for sums and means; a maximum is spelled out."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.index import from_front
from glasshouse.frontend.torch.aten.registry import apply, aten, is_static
from glasshouse.ir.dtype import int64
from glasshouse.ops import composite
from glasshouse.ops.bags import bag_of_each
from glasshouse.ops.create import arange_near, full_near
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
    skipped = -1 if padding_idx is None else max(padding_idx, -1)
    if mode == _MAX:
        out = _largest(weight, indices, offsets, skipped, include_last)
    else:
        scale = [] if per_sample is None else [per_sample]
        out = weight.apply(
            "embedding_bag", from_front(indices), offsets, *scale, mean=mode == _MEAN,
            skipped=skipped, closed=include_last,
        )  # fmt: skip
    empty = full_near(weight, (0,), 0, int64)
    return out, empty, empty, empty


def _largest(weight: Any, indices: Any, offsets: Any, skipped: int, closed: bool) -> Any:
    """The maximum of each bag's rows, 0 of an empty one."""
    count = offsets.shape[0] - (1 if closed else 0)
    bags = bag_of_each(indices, offsets)
    rows = weight.apply("take", from_front(indices))
    number = reshaped(arange_near(rows, count), (count, 1))
    inside = expanded(reshaped(bags, (1, *bags.shape)), (count, *bags.shape)).apply("equal", number)
    if skipped >= 0:
        inside = inside & indices.apply("not_equal", skipped)
    held = apply("where", composite.unsqueeze(inside, -1), rows, -math.inf)
    some = inside.apply("any", axes=[1], keepdims=True)
    return apply("where", some, held.apply("max", axes=[1]), 0.0)
