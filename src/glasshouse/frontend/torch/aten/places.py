"""How ATen's ops for strided, masked and listed places are spelled."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.index import index, index_put
from glasshouse.frontend.torch.aten.registry import apply, aten, is_static
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import bool_, int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of

MANY = 4096
"""Combinations that are written out as a constant."""


def _flat(x: Any) -> Any:
    return reshaped(x, (product(x.shape),))


@aten("as_strided_scatter")
def as_strided_scatter(x: Any, source: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    """x, row by row in memory, with the source at the places that the strides name."""
    if not is_static(*x.shape, *size, *stride) or not (offset is None or is_static(offset)):
        raise Unsupported("strides that depend on sizes")
    every = torch.arange(product(x.shape), device="cpu")
    numbers = every.as_strided(list(size), list(stride), offset or 0)
    places = x.builder.wrap(x.builder.constant(numbers.reshape(-1).numpy()))
    out = _flat(x).apply("scatter", places, _flat(source), axis=0)
    return reshaped(out, x.shape)


# ------------------------------------------------------------------------------------------- masks
def _inside(x: Any, indices: Any) -> list[Any]:
    """Indices brought into range: what a mask leaves out may point anywhere."""
    ends = [(x.shape[axis], i) for axis, i in enumerate(indices)]
    if not is_static(*(size for size, i in ends if i is not None)):
        raise Unsupported("indices into an axis without a fixed size")
    return [None if i is None else i.apply("clip", low=0, high=size - 1) for size, i in ends]


@aten("_unsafe_masked_index")
def masked_index(x: Any, mask: Any, indices: Any, fill: Any) -> Any:
    found = index(x, _inside(x, indices))
    return apply("where", _spread(mask, found), found, fill)


@aten("_unsafe_masked_index_put_accumulate")
def masked_index_put(x: Any, mask: Any, indices: Any, values: Any) -> Any:
    kept = apply("where", _spread(mask, values), values, 0.0)
    return index_put(x, _inside(x, indices), kept, accumulate=True)


def _spread(mask: Any, like: Any) -> Any:
    return reshaped(mask.cast(bool_), (*mask.shape, *[1] * (like.ndim - mask.ndim)))


@aten("nonzero_static")
def nonzero_static(x: Any, *, size: Any, fill_value: int = -1) -> Any:
    """The places of the first `size` elements that are not zero; `fill_value` where there are
    fewer."""
    if not is_static(*x.shape, size):
        raise Unsupported("places in a tensor without fixed sizes")
    if product(x.shape) == 0:
        return full_near(x, (size, x.ndim), fill_value, int64)
    some = _flat(x).apply("not_equal", 0)
    numbers = some.cast(int64).apply("cumsum", axis=0, exclusive=True)
    # The n-th goes to row n; all others to a row behind the last, which is left out.
    beyond = full_near(x, (), size, int64)
    rows = apply("where", some & (numbers < size), numbers, beyond)
    table = full_near(x, (size + 1,), -1, int64)
    table = table.apply("scatter", rows, arange_near(x, product(x.shape)), axis=0)
    at = composite.narrow(table, 0, 0, size)
    found, columns = at >= 0, []
    for axis in range(x.ndim):
        step = product(x.shape[axis + 1 :])
        place = apply("floor_divide", at, step) % x.shape[axis]
        columns.append(apply("where", found, place, full_near(x, (), fill_value, int64)))
    return composite.stack(columns, 1) if columns else full_near(x, (size, 0), 0, int64)


@aten("combinations")
def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    count = x.shape[0]
    if not is_static(count):
        raise Unsupported("combinations of an unknown number of elements")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    picked = list(itertools.islice(choose(range(count), r), MANY + 1))
    if len(picked) > MANY or not r:
        raise Unsupported(f"more than {MANY} combinations, or of nothing")
    places = torch.tensor(picked, dtype=torch.int64, device="cpu").reshape(len(picked), r)
    return x.apply("take", x.builder.wrap(x.builder.constant(places.numpy())))


# ----------------------------------------------------------------------------------------- windows
@aten("_pdist_forward", "pdist")
def pdist(x: Any, p: float = 2.0) -> Any:
    """The distances between all pairs of rows, first by the lower row."""
    rows = x.shape[0]
    if not is_static(rows):
        raise Unsupported("pairs of an unknown number of rows")
    pairs = torch.triu_indices(rows, rows, 1)
    first, second = (x.builder.wrap(x.builder.constant(p.numpy())) for p in pairs)
    apart = x.apply("take", first) - x.apply("take", second)
    return composite.norm(apart, float(p), [axis_of(-1, apart.ndim)])
