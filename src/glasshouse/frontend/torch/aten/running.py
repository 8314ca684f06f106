"""Decides how ATen's running products and extremes, and bags of rows, are spelled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.arithmetic import logaddexp
from glasshouse.frontend.torch.aten.index import from_front
from glasshouse.frontend.torch.aten.registry import apply, aten, is_static, scalar
from glasshouse.frontend.torch.dtypes import is_integral
from glasshouse.ir.dtype import DType, int64
from glasshouse.ir.types import tensor_type
from glasshouse.ops import composite
from glasshouse.ops.control import body_of
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.scan import scan
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of


def _folded(x: Any, dim: int, first: float, fold: Callable[[Any, Any], Any]) -> Any:
    """fold(fold(first, x[0]), x[1]) and so on along an axis, with every result on the way."""
    if not x.ndim:
        return x
    at = axis_of(dim, x.ndim)
    front = composite.moveaxis(x, at, 0)
    step = tensor_type(x.dtype, front.shape[1:])

    def one(running: Any, element: Any) -> Any:
        out = fold(running, element)
        return out, out

    start = full_near(x, step.shape, first, x.dtype)
    _, found = scan(start, front, body=body_of(one, step, step), carries=1)
    return composite.moveaxis(found, 0, at)


@aten("cumprod")
def cumprod(x: Any, dim: int, dtype: DType | None = None) -> Any:
    kind = dtype or (int64 if is_integral(x.dtype) else x.dtype)
    return _folded(x.cast(kind), dim, 1, lambda running, element: running * element)


@aten("logcumsumexp")
def logcumsumexp(x: Any, dim: int) -> Any:
    return _folded(x, dim, -math.inf, logaddexp)


def _extreme(better: str) -> Any:
    """The extreme so far and where it is: the last of equals, and NaN beats everything."""

    def spelling(x: Any, dim: int) -> Any:
        if not x.ndim:
            return x, full_near(x, (), 0, int64)
        at = axis_of(dim, x.ndim)
        front = composite.moveaxis(x, at, 0)
        rest = front.shape[1:]
        types = [tensor_type(x.dtype, rest), tensor_type(int64, rest), tensor_type(int64, ())]

        def one(value: Any, place: Any, number: Any, element: Any) -> Any:
            wins = element.apply(better, value)
            if not is_integral(element.dtype):
                wins = wins | element.apply("isnan")
            value = apply("where", wins, element, value)
            place = apply("where", wins, number, place)
            return value, place, number + 1, value, place

        start = reshaped(cut(front, 0, 0, 1), rest)
        zeros = full_near(x, rest, 0, int64)
        body = body_of(one, *types, tensor_type(x.dtype, rest))
        *_, values, places = scan(start, zeros, scalar(x, 0, int64), front, body=body, carries=3)
        return composite.moveaxis(values, 0, at), composite.moveaxis(places, 0, at)

    return spelling


aten("cummax")(_extreme("greater_equal"))
aten("cummin")(_extreme("less_equal"))


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
    begins = reshaped(offsets.cast(int64), (offsets.shape[0], 1))
    number = arange_near(weight, indices.shape[0])
    after = begins.apply("less_equal", number)  # [bags, indices]: the bag has begun
    inside = cut(after, 0, 0, count)
    if include_last or count > 1:
        later = cut(after, 0, 1, offsets.shape[0])
        if not include_last:
            none = full_near(weight, (1, indices.shape[0]), False, later.dtype)
            later = concat(later, none, axis=0)
        inside = inside & later.apply("logical_not")
    if padding_idx is not None and padding_idx >= 0:
        inside = inside & indices.apply("not_equal", padding_idx)
    total = inside.cast(weight.dtype)
    rows = weight.apply("take", from_front(indices))
    if mode == 2:
        held = apply("where", composite.unsqueeze(inside, -1), rows, -math.inf)
        some = inside.apply("any", axes=[1], keepdims=True)
        out = apply("where", some, held.apply("max", axes=[1]), 0.0)
    else:
        if per_sample is not None:
            rows = rows * composite.unsqueeze(per_sample, -1)
        # Not a product with zeros and ones: NaN in one bag would be NaN in all.
        held = apply("where", composite.unsqueeze(inside, -1), rows, 0.0)
        out = held.apply("sum", axes=[1])
    if mode == 1:
        size = total.apply("sum", axes=[1], keepdims=True)
        out = out / apply("maximum", size, 1.0)
    empty = full_near(weight, (0,), 0, int64)
    return out, empty, empty, empty
