"""How ATen's ops that pick elements by rank are spelled: quantiles, medians, modes."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.reduce import shared_by_equals
from glasshouse.frontend.torch.aten.registry import (
    Context,
    apply,
    aten,
    is_handle,
    is_static,
    scalar,
)
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import concat
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import axis_of


def _last(x: Any, dim: int | None) -> Any:
    """x with the axis in question last; all axes as one where none is named."""
    if dim is None or not x.ndim:
        return reshaped(x, (product(x.shape),))
    return composite.moveaxis(x, axis_of(dim, x.ndim), -1)


def _quantile(ignore_nan: bool) -> Any:
    def spelling(
        x: Any, q: Any, dim: int | None = None, keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Any:  # fmt: skip
        q = q.cast(x.dtype) if is_handle(q) else scalar(x, float(q), x.dtype)
        rows = _last(x, dim)
        missing = rows.apply("isnan")
        values = rows.apply("sort", axis=-1)[0]  # those that are no numbers stand last
        count = missing.apply("logical_not").cast(x.dtype).apply("sum", axes=[-1], keepdims=True)
        last = (count if ignore_nan else count * 0.0 + float(_fixed(rows.shape[-1]))) - 1.0
        # One place for each quantile, along the last axis.
        place = apply("maximum", last, 0.0) * reshaped(q, (product(q.shape),))
        found = _between(values, place, interpolation)
        if not ignore_nan:
            broken = missing.apply("any", axes=[-1], keepdims=True)
            found = apply("where", broken, float("nan"), found)
        return _placed(found, x, q.ndim, dim, keepdim)

    return spelling


def _fixed(size: Any) -> int:
    if not is_static(size):
        raise Unsupported("a quantile along an axis without a fixed size")
    return int(size)


def _between(values: Any, place: Any, how: str) -> Any:
    """The elements of a sorted axis at places that may lie between two of them."""
    low = place.apply("floor")

    def at(where: Any) -> Any:
        return values.apply("gather", where.cast(int64), axis=-1)

    if how == "lower":
        return at(low)
    if how == "higher":
        return at(place.apply("ceil"))
    if how == "nearest":
        return at(place.apply("round"))
    below, above = at(low), at(place.apply("ceil"))
    if how == "midpoint":
        return composite.lerp(below, above, 0.5)
    return composite.lerp(below, above, place - low)


def _placed(found: Any, x: Any, rank: int, dim: int | None, keepdim: bool) -> Any:
    """Quantiles from the last axis to the first; the axis that was reduced where it was."""
    front = composite.moveaxis(found, -1, 0)
    lead = front.shape[:1] if rank else ()
    rest = list(front.shape[1:])
    if keepdim:
        rest = [1] * x.ndim if dim is None else rest
        if dim is not None and x.ndim:
            rest.insert(axis_of(dim, x.ndim), 1)
    return reshaped(front, (*lead, *rest))


aten("quantile")(_quantile(ignore_nan=False))
aten("nanquantile")(_quantile(ignore_nan=True))


@aten("nanmedian.dim")
def nanmedian_dim(x: Any, dim: int, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x, full_near(x, (), 0, int64)
    at = axis_of(dim, x.ndim)
    values, places = x.apply("sort", axis=at)
    count = x.apply("equal", x).cast(int64).apply("sum", axes=[at], keepdims=True)
    middle = (count - 1).apply("right_shift", 1)
    middle = apply("maximum", middle, full_near(x, (), 0, int64))
    found = [v.apply("gather", middle, axis=at) for v in (values, places)]
    return tuple(found) if keepdim else tuple(composite.squeeze(v, [at]) for v in found)


@aten("nanmedian.default", context=True)
def nanmedian(ctx: Context, x: Any) -> Any:
    flat = reshaped(x, (product(x.shape),))
    return shared_by_equals(ctx, nanmedian_dim(flat, 0)[0], flat)


@aten("mode")
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, and the last place where it stands."""
    if not x.ndim:
        return x, full_near(x, (), 0, int64)
    at = axis_of(dim, x.ndim)
    values, places = composite.moveaxis(x, at, -1).apply("sort", axis=-1)
    size = values.shape[-1]
    numbers = expanded(arange_near(x, size), values.shape)
    # A run of equal elements begins where one differs from that before it, and the largest number
    # of a beginning so far is that of the run. NaN differs from itself, too.
    parts = composite.narrow(values, -1, 0, 1), composite.narrow(values, -1, 0, size - 1)
    begins = values.apply("not_equal", concat(*parts, axis=-1))
    starts = apply("where", begins, numbers, full_near(x, (), 0, int64))
    own = starts.apply("cummax", axis=-1)[0]
    last = (numbers - own).apply("argmax", axis=-1, keepdims=True)
    value, place = (v.apply("gather", last, axis=-1) for v in (values, places))
    out = [composite.moveaxis(v, -1, at) for v in (value, place)]
    return tuple(out) if keepdim else tuple(composite.squeeze(v, [at]) for v in out)
