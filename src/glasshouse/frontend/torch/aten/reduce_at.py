"""How ATen's reductions of elements that share a place are spelled.

All but segments are scatters. For those every segment looks at every element and takes those that
belong to it: exact, at a cost of segments times elements. Where that is more than `LARGEST`, the op
stays opaque.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.arithmetic import as_index
from glasshouse.frontend.torch.aten.index import scattered
from glasshouse.frontend.torch.aten.registry import apply, aten, is_handle
from glasshouse.ir.dim import Dim, SymDim, product
from glasshouse.ir.dtype import Category, float32, float64, int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import concat
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import axis_of

LARGEST = 2**24
# Reduction -> (core op, what changes nothing in it).
_CORE = {
    "sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0),
    "max": ("max", -math.inf), "min": ("min", math.inf),
}  # fmt: skip


# Reduction -> (how elements that share a place meet, what changes nothing there).
_SCATTERS: dict[str, tuple[str, float]] = {
    "sum": ("add", 0.0), "mean": ("add", 0.0), "prod": ("mul", 1.0),
    "amax": ("max", -math.inf), "amin": ("min", math.inf),
}  # fmt: skip


def _scattered(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    mode, neutral = _SCATTERS[reduce]
    if not index.type.numel:
        return x
    if not x.ndim:
        s1 = reshaped(source, (1,)) if is_handle(source) else source
        x1, i1 = reshaped(x, (1,)), reshaped(index, (1,))
        return reshaped(_scattered(x1, 0, i1, s1, reduce, include_self), ())
    start = x
    if not include_self:
        if mode in ("max", "min") and not x.dtype.is_float:
            limits = np.iinfo(x.dtype.carrier)
            neutral = int(limits.min if mode == "max" else limits.max)
        start = scattered(x, dim, index, neutral, "set")
    out = scattered(start, dim, index, source, mode)
    if reduce != "mean":
        return out
    wide = float64 if x.dtype is float64 else float32  # halves count no further than 2048 and 256
    none = full_near(x, x.shape, 1.0 if include_self else 0.0, wide)
    count = scattered(none, dim, index, 1.0, "add")
    return out / apply("maximum", count, 1.0).cast(x.dtype)


def _reduced(hits: Any, values: Any, how: str, axis: int, first: Any = None) -> Any:
    """The reduction along an axis of the values that are hit, and of `first`."""
    op, neutral = _CORE[how]
    taken = apply("where", hits, values, neutral)
    if first is not None:
        taken = concat(taken, first, axis=axis)
    return taken.apply(op, axes=[axis])


@aten("scatter_reduce.two")
def scatter_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    integers = reduce != "mean" and x.dtype.category is not Category.BOOL
    if reduce == "sum" or (reduce in _SCATTERS and (x.dtype.is_float or integers)):
        return _scattered(x, dim, index, source, reduce, include_self)
    raise Unsupported(f"a scatter of {x.type} that takes the {reduce}")


@aten("scatter.reduce", "scatter.value_reduce")
def scatter_with(x: Any, dim: int, index: Any, source: Any, reduce: str) -> Any:
    if reduce == "add":
        return scattered(x, dim, index, source, "add")
    return scatter_reduce(x, dim, index, source, "prod")


@aten("index_reduce")
def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    if not x.ndim:
        x1, s1 = reshaped(x, (1,)), reshaped(source, (product(source.shape),))
        places = reshaped(index, (product(index.shape),))
        return reshaped(index_reduce(x1, 0, places, s1, reduce, include_self), ())
    at = axis_of(dim, x.ndim)
    shape: list[Dim] = [1] * x.ndim
    shape[at] = product(index.shape)
    places = expanded(reshaped(index, shape), source.shape)
    return scatter_reduce(x, at, places, source, reduce, include_self)


@aten("segment_reduce")
def segment_reduce(
    x: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """Neighbours along an axis, so many at a time as `lengths` says, reduced to one."""
    if lengths is not None:
        lengths = as_index(lengths).cast(int64)
        begins = lengths.apply("cumsum", axis=-1, exclusive=True)
        ends = begins + lengths
    elif offsets is not None:
        offsets = as_index(offsets).cast(int64)
        count = offsets.shape[-1] - 1
        begins = composite.narrow(offsets, -1, 0, count)
        ends = composite.narrow(offsets, -1, 1, count)
    else:
        raise Unsupported("segments that are given by neither lengths nor offsets")
    at = begins.ndim - 1
    cost = product((*x.shape, begins.shape[-1]))
    if isinstance(cost, SymDim) or cost > LARGEST:
        raise Unsupported("segments of so many elements")
    number = arange_near(x, x.shape[at])
    hits = composite.unsqueeze(begins, -1) <= number
    hits = hits & (composite.unsqueeze(ends, -1) > number)
    hits = reshaped(hits, (*hits.shape, *[1] * (x.ndim - at - 1)))
    size = hits.cast(x.dtype).apply("sum", axes=[at + 1])
    values = composite.unsqueeze(x, at)
    first = None
    if initial is not None:
        one = (*values.shape[:at], hits.shape[at], 1, *values.shape[at + 2 :])
        first = full_near(x, one, float(initial), x.dtype)
        values = expanded(values, (*one[: at + 1], *values.shape[at + 1 :]))
    out = _reduced(hits, values, reduce, at + 1, first)
    if reduce != "mean":
        return out
    empty = math.nan if initial is None else float(initial)
    return apply("where", size > 0.0, out / apply("maximum", size, 1.0), empty)
