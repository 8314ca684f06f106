"""Sweeps over a row keep what later ones compute alike: exponentials and logarithms, once each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
import glasshouse.ops  # fills the registry
from glasshouse.ir import Expr, GraphBuilder
from glasshouse.numpy_ref import run

Array = np.ndarray[Any, Any]


def hostile(shape: tuple[int, ...], dtype: str) -> Array:
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
    rows = x.reshape(-1, shape[-1])
    rows[0, 0] = np.nan
    rows[1, -1] = np.inf
    rows[2, 0], rows[2, -1] = -np.inf, -0.0
    rows[3, 0] = 1e-40
    rows[4] = -np.inf
    return x


def gumbel(x: Expr, u: Expr) -> Expr:
    return (x - u.apply("log").apply("negative").apply("log")).apply("softmax")


# Whole vectors, four side by side, a rest of lanes, fewer lanes than a vector, and one element.
@pytest.mark.parametrize("size", [128, 2056, 133, 3, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_softmax_computes_each_exponential_and_logarithm_once(size: int, dtype: str) -> None:
    builder = GraphBuilder()
    x, u = (builder.input(dtype, (8, size)) for _ in range(2))
    graph = builder.finish(gumbel(x, u))
    arrays = [hostile((8, size), dtype), np.random.default_rng(0).random((8, size)).astype(dtype)]
    arrays[1][6, 0], arrays[1][7, -1] = 0, 1
    module = gh.compile(graph, progress=False)
    with np.errstate(all="ignore"):
        (expected,) = run(graph, arrays)
    np.testing.assert_allclose(module(*arrays), np.asarray(expected), rtol=3e-6, atol=1e-30)
    if size >= 128:  # a vector each; shorter rows may be gone through by lanes
        text = "".join(module.source.kernels.values())
        assert (text.count("gh::exp("), text.count("gh::log(")) == (1, 2)


def test_half_floats_are_kept_as_they_are_computed() -> None:
    builder = GraphBuilder()
    x = builder.input("bfloat16", (8, 200))
    wave = x.apply("exp")
    graph = builder.finish(wave / wave.apply("sum", axes=[-1], keepdims=True))
    module = gh.compile(graph, progress=False)
    array = np.random.default_rng(1).standard_normal((8, 200)).astype(x.dtype.carrier)
    (expected,) = run(graph, [array])
    got, wanted = (np.asarray(a, "f") for a in (module(array), expected))
    np.testing.assert_allclose(got, wanted, rtol=2**-6)  # two steps
    assert "".join(module.source.kernels.values()).count("gh::exp(") == 1


def test_sums_of_another_row_are_not_mixed_up() -> None:
    """Two rows of one length, and one of another, with exponentials of each."""
    builder = GraphBuilder()
    a, b = (builder.input("float32", (6, 70)) for _ in range(2))
    c = builder.input("float32", (6, 90))
    first, second = (v.apply("exp") for v in (a, b))
    total = c.apply("exp").apply("sum", axes=[-1], keepdims=True)
    shares = [v / v.apply("sum", axes=[-1], keepdims=True) for v in (first, second)]
    graph = builder.finish(shares[0] * total + shares[1], c.apply("exp") / total)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((6, n)).astype("f") for n in (70, 70, 90)]
    module = gh.compile(graph, progress=False)
    for got, expected in zip(module(*arrays), run(graph, arrays), strict=True):
        np.testing.assert_allclose(got, np.asarray(expected), rtol=3e-6)


def test_what_costs_little_is_computed_again() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (16, 256))
    twice = x + x
    graph = builder.finish(twice - twice.apply("max", axes=[-1], keepdims=True))
    module = gh.compile(graph, progress=False)
    assert "row1" not in "".join(module.source.kernels.values())


def test_rows_that_are_too_long_for_a_stack_are_not_kept() -> None:
    for size, times in ((32768, 1), (32769, 2)):
        builder = GraphBuilder()
        graph = builder.finish(builder.input("float32", (2, size)).apply("softmax"))
        module = gh.compile(graph, progress=False)
        array = np.random.default_rng(3).standard_normal((2, size)).astype("f")
        np.testing.assert_allclose(module(array), np.asarray(run(graph, [array])[0]), rtol=3e-6)
        assert "".join(module.source.kernels.values()).count("gh::exp(") == times
