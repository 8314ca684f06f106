"""How ATen's histograms are spelled: every element is added to the bin that it lies in."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import apply, aten, is_static, scalar
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32, int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import reshaped


@aten("histc")
def histc(x: Any, bins: int = 100, low: Any = 0, high: Any = 0) -> Any:
    flat = reshaped(x, (product(x.shape),))
    wide = flat if flat.dtype.is_float else flat.cast(float32)
    low, high = scalar(wide, float(low), wide.dtype), scalar(wide, float(high), wide.dtype)
    equal = low.apply("equal", high)
    if product(x.shape) != 0:
        # Without limits those of the data; and where it is all the same, one to each side.
        low = apply("where", equal, wide.apply("min"), low)
        high = apply("where", equal, wide.apply("max"), high)
        equal = low.apply("equal", high)
    low, high = apply("where", equal, low - 1.0, low), apply("where", equal, high + 1.0, high)
    place = ((wide - low) * float(bins) / (high - low)).apply("floor")
    place = apply("where", wide.apply("equal", high), float(bins - 1), place)
    inside = (wide >= low) & (wide <= high)
    # What lies outside adds nothing to the first bin. An element just below the upper limit can be
    # rounded up to it.
    bin_ = apply("where", inside, apply("minimum", place, float(bins - 1)), 0.0).cast(int64)
    none = full_near(x, (bins,), 0, int64)
    return none.apply("scatter", bin_, inside.cast(int64), axis=0, mode="add").cast(x.dtype)


@aten("bincount")
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    raise Unsupported("the number of bins depends on data")


# ---------------------------------------------------------------------------------- bins and edges
@aten("histogram.bins_tensor")
def histogram(x: Any, edges: Any, *, weight: Any = None, density: bool = False) -> Any:
    """How much lies between each edge and the next; the last edge belongs to the last bin."""
    bins = edges.shape[0] - 1
    if not is_static(bins):
        raise Unsupported("an unknown number of bins")
    column = reshaped(x, (product(x.shape), 1))
    low, high = composite.narrow(edges, 0, 0, bins), composite.narrow(edges, 0, 1, bins)
    last = arange_near(x, bins).apply("equal", bins - 1)
    hits = (column >= low) & ((column < high) | (last & (column <= high)))
    share = hits.cast(x.dtype)
    if weight is not None:
        share = share * reshaped(weight, (product(x.shape), 1))
    count = share.apply("sum", axes=[0])
    if density:
        count = count / (high - low) / count.apply("sum")
    return count, edges


@aten("histogram.bin_ct")
def histogram_of(
    x: Any, bins: int = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Bins of one width, between the limits that are given or those of the data."""
    if not x.dtype.is_float:
        raise Unsupported(f"a histogram of {x.type}")
    if range is None and product(x.shape) != 0:
        low, high = x.apply("min"), x.apply("max")
    else:
        low, high = (scalar(x, float(v), x.dtype) for v in range or (0.0, 1.0))
    equal = low.apply("equal", high)
    low, high = (apply("where", equal, v + d, v) for v, d in ((low, -0.5), (high, 0.5)))
    step = (high - low) / float(bins)
    # From both ends to the middle, as PyTorch has it.
    at = np.arange(bins + 1)
    numbers = x.builder.wrap(x.builder.constant(at.astype(x.dtype.carrier), x.dtype))
    first = x.builder.wrap(x.builder.constant(at < (bins + 1) // 2))
    edges = apply("where", first, low + step * numbers, high - step * (float(bins) - numbers))
    return histogram(x, edges, weight=weight, density=density)
