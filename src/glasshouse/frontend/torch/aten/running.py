"""How ATen's running products and extremes are spelled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from glasshouse.frontend.torch.aten.arithmetic import logaddexp
from glasshouse.frontend.torch.aten.registry import apply, aten, scalar
from glasshouse.frontend.torch.dtypes import is_integral
from glasshouse.ir.dtype import DType, int64
from glasshouse.ir.types import tensor_type
from glasshouse.ops import composite
from glasshouse.ops.control import body_of
from glasshouse.ops.create import full_near
from glasshouse.ops.pieces import cut
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
