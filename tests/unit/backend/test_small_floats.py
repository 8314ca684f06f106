"""Floats within int32 become places by way of it, with what int64 would have made of them."""

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import int64

LEAST = np.iinfo(np.int64).min
HOSTILE = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, -0.9, 0.9, 62.99999, 63.0, 63.5, 1e-42]
HOSTILE += [2.0**31, -(2.0**31), 2.0**40, -(2.0**62), 2.0**63, 3e38, -3e38, 2147483520.0]


def _points(dtype: str) -> np.ndarray:
    drawn = np.random.default_rng(0).standard_normal(300) * 60
    return np.concatenate([np.array(HOSTILE), drawn]).astype(dtype)


def _clipped(low: float | None, high: float | None, dtype: str, *, guarded: bool) -> Graph:
    """Places of points; with NaN 0 where that is guarded, as grid_sample's are."""
    b = GraphBuilder()
    x = b.input(dtype, [320])
    y = x.apply("clip", low=low, high=high).apply("floor")
    if guarded:
        zero = b.constant(np.zeros((), dtype))
        y = x.apply("isnan").apply("where", zero, x.apply("clip", low=low, high=high))
    return b.finish(y.apply("cast", dtype=int64) * 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("bounds", [(0, 63), (-7.5, 2.0**30), (-(2.0**31), 3), (None, 9)])
def test_places_are_those_of_the_reference(bounds, guarded, dtype):
    x = _points(dtype)
    with np.errstate(all="ignore"):
        clipped = np.clip(x, *bounds)
        y = np.where(np.isnan(x), 0, clipped) if guarded else np.floor(clipped)
        held = np.abs(y) < 2.0**63
        wanted = np.where(held, np.where(held, y, 0).astype(np.int64), LEAST) * 2
    module = gh.compile(_clipped(*bounds, dtype, guarded=guarded))
    np.testing.assert_array_equal(module(x), wanted)
    (text,) = module.source.kernels.values()
    small = all(b is not None and abs(b) <= 2.0**30 for b in bounds)
    assert ("convert<int32_t>" in text) == small
    assert ("numeric_limits" in text) == (small and not guarded)


def test_what_is_nan_elsewhere_is_still_the_least():
    """The guard asks about another variable than the one that was clipped."""
    b = GraphBuilder()
    x, other = b.input("float32", [320]), b.input("float32", [320])
    zero = b.constant(np.zeros((), np.float32))
    y = other.apply("isnan").apply("where", zero, x.apply("clip", low=0.0, high=9.0))
    module = gh.compile(b.finish(y.apply("cast", dtype=int64)))
    data = _points("float32")
    wanted = np.where(np.isnan(data), LEAST, np.clip(np.nan_to_num(data, nan=0), 0, 9))
    np.testing.assert_array_equal(module(data, np.ones(320, np.float32)), wanted.astype(np.int64))
