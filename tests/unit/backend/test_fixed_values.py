"""What stays the same in a loop over vectors, or in an epilogue, is read once in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
import glasshouse.ops  # fills the registry
from glasshouse.ir import Expr, GraphBuilder
from glasshouse.numpy_ref import run


def checked(graph: Any, arrays: list[Any]) -> str:
    """The text of the kernels, whose results are the reference's."""
    module = gh.compile(graph, progress=False)
    found = module(*arrays)
    with np.errstate(all="ignore"):
        wanted = run(graph, arrays)
    for got, want in zip(found if len(wanted) > 1 else [found], wanted, strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-6)
    return "".join(module.source.kernels.values())


def is_before(text: str, first: str, then: str) -> bool:
    return 0 <= text.index(first) < text.index(then)


def updated(builder: GraphBuilder, made: Expr, weights: Expr) -> Expr:
    """Weights after a step with a rate of float64 that is data."""
    return weights - made * builder.input("float64", ()).cast("float32")


@pytest.mark.parametrize("columns", [40, 5])
def test_the_rate_of_an_update_is_rounded_once_before_its_product(columns: int) -> None:
    builder = GraphBuilder()
    x, y, w = (builder.input("float32", s) for s in [(17, 9), (9, columns), (17, columns)])
    graph = builder.finish(updated(builder, x.apply("matmul", y), w))
    rng = np.random.default_rng(columns)
    arrays = [rng.standard_normal(v.shape).astype("f") for v in (x, y, w)]
    text = checked(graph, [*arrays, np.asarray(0.3)])
    assert is_before(text, "const double ", "gh::gemm")
    assert "gh::vd(" not in text


@pytest.mark.parametrize("rate", [0.3, np.nan, np.inf, -0.0, 1e-42])
def test_so_it_is_in_front_of_a_loop(rate: float) -> None:
    builder = GraphBuilder()
    x, w = (builder.input("float32", (3, 37)) for _ in range(2))
    graph = builder.finish(updated(builder, x, w))
    arrays = [np.random.default_rng(n).standard_normal((3, 37)).astype("f") for n in range(2)]
    text = checked(graph, [*arrays, np.asarray(rate)])
    assert is_before(text, "const double ", "for_each_vector")


def test_a_factor_of_each_row_is_read_once_a_row() -> None:
    """In a fold of the row and behind it; without rows there is nothing to read."""
    for rows in (5, 0):
        builder = GraphBuilder()
        x, factor = builder.input("float32", (rows, 70)), builder.input("float32", (rows, 1))
        scaled = x * factor
        graph = builder.finish(scaled - scaled.apply("max", axes=[-1], keepdims=True))
        rng = np.random.default_rng(rows)
        arrays = [rng.standard_normal(v.shape).astype("f") for v in (x, factor)]
        text = checked(graph, arrays)
        assert "gh::to_scalar" not in text


def test_places_that_data_say_are_still_reported() -> None:
    builder = GraphBuilder()
    table, place = builder.input("float32", (4, 33)), builder.input("int64", ())
    x = builder.input("float32", (6, 33))
    graph = builder.finish(x + table.apply("take", place, axis=0))
    module = gh.compile(graph, progress=False)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("f") for s in [(4, 33), (6, 33)]]
    np.testing.assert_array_equal(
        module(arrays[0], np.asarray(2), arrays[1]), arrays[1] + arrays[0][2]
    )
    with pytest.raises(gh.errors.ExecutionError):
        module(arrays[0], np.asarray(4), arrays[1])
