"""Reductions over axes that are not the last: each lane of a vector folds its own column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir import Expr, GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.module import Module

Array = np.ndarray[Any, Any]


def compiled(x: Array, *folds: tuple[str, tuple[int, ...]]) -> tuple[Module, list[Array]]:
    """A module with one output for each (op, axes), and what the reference says."""
    builder = GraphBuilder()
    given = builder.input("float32", x.shape)
    outputs: list[Expr] = [given.apply(op, axes=axes, keepdims=False) for op, axes in folds]
    graph = builder.finish(*outputs)
    return compile_graph(graph), [np.asarray(y) for y in run(graph, [x])]


# Columns: whole strips of vectors, a few vectors, a rest of lanes, and fewer than a vector.
@pytest.mark.parametrize("columns", [300, pytest.param(49, marks=pytest.mark.slow), 5])
def test_columns_equal_the_reference(columns: int) -> None:
    x = np.random.default_rng(columns).standard_normal((61, columns), "f")
    module, wanted = compiled(x, ("sum", (0,)), ("max", (0,)), ("prod", (0,)), ("mean", (0,)))
    for got, want in zip(module(x), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
    assert all("for_each_strip" in text for text in module.source.kernels.values())


@pytest.mark.parametrize("columns", [300, 17, 5])
def test_a_column_folds_what_its_own_fold_gave(columns: int) -> None:
    """The variance takes each column's mean, another one in each lane."""
    x = np.random.default_rng(columns).standard_normal((2, 61, columns), "f") * 3 + 40
    x[:, :, 1] = 1003.0
    builder = GraphBuilder()
    given = builder.input("float32", x.shape)
    graph = builder.finish(given.apply("variance", axes=(1,), keepdims=True, correction=0))
    module = compile_graph(graph)
    assert "for_each_strip" in str(module.source.kernels)
    np.testing.assert_allclose(module(x), run(graph, [x])[0], rtol=2e-5, atol=1e-6)


def test_outer_axes_around_kept_ones() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6, 3, 70), "f")
    module, wanted = compiled(x, ("sum", (0, 2)), ("min", (1,)))
    for got, want in zip(module(x), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_nan_and_infinity_stay_in_their_columns() -> None:
    x = np.random.default_rng(1).standard_normal((40, 37), "f")
    x[3, 5], x[7, 20], x[9, 20], x[0, 36] = np.nan, np.inf, -np.inf, -np.inf
    module, wanted = compiled(x, ("sum", (0,)), ("max", (0,)), ("min", (0,)))
    for got, want in zip(module(x), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_products_take_one_instruction_a_turn(dtype: str, axis: int) -> None:
    builder = GraphBuilder()
    x, y = (builder.input(dtype, (35, 53)) for _ in range(2))
    apart = x - y
    graph = builder.finish((apart * apart).apply("sum", axes=[axis]))
    rng = np.random.default_rng(axis)
    arrays = [rng.standard_normal((35, 53)).astype(x.dtype.carrier) for _ in range(2)]
    arrays[0][3, 7], arrays[0][9, 50], arrays[1][30, 2] = np.nan, np.inf, 1e-40
    module = gh.compile(graph, progress=False)
    # Products of half floats are rounded before they are added.
    assert ("gh::fma" in str(module.source.kernels)) is (dtype != "bfloat16")
    expected = np.asarray(run(graph, arrays)[0])
    np.testing.assert_allclose(
        module(*arrays), expected, rtol=1e-2 if dtype == "bfloat16" else 1e-5
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_rows_too_short_for_vectors(size: int) -> None:
    """Distances of points and folds of their coordinates: each lane folds a row of its own."""
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((n, size), "f") for n in (19, 35))
    a[3, 0], a[5, size - 1], b[34, 0] = np.nan, np.inf, 1e-40
    builder = GraphBuilder()
    x, y = (builder.input("float32", v.shape) for v in (a, b))
    apart = x.apply("reshape", shape=(19, 1, size)) - y.apply("reshape", shape=(1, 35, size))
    folds = [y.apply(op, axes=[1]) for op in ("max", "prod", "mean")]
    graph = builder.finish((apart * apart).apply("sum", axes=[2]).apply("exp"), *folds)
    module = compile_graph(graph)
    for got, want in zip(module(a, b), run(graph, [a, b]), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
    if size == 3:
        assert "reduce_add" not in str(module.source.kernels)


def bags(columns: int) -> gh.Graph:
    """Rows of a table that whole numbers say, weighed and summed up for each of 7 users."""
    b = GraphBuilder()
    table, ids = b.input("float32", (11, columns)), b.input("int64", (7, 1))
    places = (ids * b.input("int64", (6,))).apply("remainder", b.input("int64", ()))
    kept = (places > 0).apply("cast", dtype="float32").apply("reshape", shape=(7, 6, 1))
    return b.finish((table.apply("take", places, axis=0) * kept).apply("sum", axes=[1]))


def bag_data(columns: int, buckets: int = 11) -> list[Array]:
    drawn = np.random.default_rng(columns)
    table = drawn.standard_normal((11, columns)).astype("f")
    table[3, 0], table[5, columns - 1] = np.nan, np.inf
    ids, salts = drawn.integers(1, 100, (7, 1)), drawn.integers(1, 100, 6)
    return [table, ids, salts, np.array(buckets)]


@pytest.mark.parametrize("columns", [33, 5])
def test_lanes_fold_rows_whose_place_is_found_once(columns: int) -> None:
    graph = bags(columns)
    module, data = gh.compile(graph), bag_data(columns)
    (wanted,) = run(graph, data)
    np.testing.assert_allclose(module(*data), wanted, rtol=1e-5, atol=1e-5)
    (text,) = (k for k in module.source.kernels.values() if "for_each_strip" in k)
    (place,) = (n for n, line in enumerate(text.splitlines()) if "ctx.index" in line)
    assert "GH_UNROLL" in text.splitlines()[place + 1]


def test_a_row_outside_of_the_table_is_reported() -> None:
    module = gh.compile(bags(33))
    with pytest.raises(ExecutionError, match="index"):
        module(*bag_data(33, buckets=97))


# ---------------------------------------------------------- columns that are gone through once more
def _normed(x: Expr, axis: int) -> list[Expr]:
    """What folds along an axis, and is computed along it again with what came of that."""
    mean = x.apply("mean", axes=[axis], keepdims=True)
    apart = x - mean
    spread = (apart * apart).apply("mean", axes=[axis], keepdims=True)
    return [
        x.apply("softmax", axis=axis),
        x.apply("log_softmax", axis=axis),
        apart / (spread + 1e-5).apply("sqrt"),
    ]


@pytest.mark.parametrize(
    ("dtype", "shape", "axis"),
    [
        ("float32", (3, 5, 2, 150), 1),
        ("float32", (300, 5), 0),
        ("float64", (2, 300, 4), 1),
        ("float16", (2, 3, 5), 1),
        ("bfloat16", (61, 37), 0),
    ],
)
def test_columns_are_gone_through_again(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    builder = GraphBuilder()
    given = builder.input(dtype, shape)
    graph = builder.finish(*_normed(given, axis))
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(given.dtype.carrier)
    flat = x.reshape(-1)
    flat[[0, 9, 11, 13, -1]] = np.nan, np.inf, -np.inf, -0.0, 1e-40
    np.moveaxis(x, axis, 0)[(slice(None), *(0,) * (x.ndim - 2), 2)] = -np.inf
    module = compile_graph(graph)
    assert "for_each_strip" in str(module.source.kernels)
    bound = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    with np.errstate(all="ignore"):
        wanted = run(graph, [x])
    for got, want in zip(module(x), wanted, strict=True):
        a, b = (np.asarray(v, np.float64) for v in (got, want))
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


def test_columns_of_any_number_are_gone_through_again() -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.softmax(1), torch.nn.functional.normalize(x, dim=1), x - x.amax(1, True)

    size = torch.export.Dim("n", min=1, max=500)
    module = gh.compile(Model(), torch.randn(2, 6, 40), dynamic_shapes={"x": {2: size}})
    assert "for_each_strip" in str(module.source.kernels)
    for count in (40, 1, 3, 129, 500, 16):
        x = torch.randn(2, 12, count)[:, ::2]
        for got, want in zip(module(x), Model()(x), strict=True):
            torch.testing.assert_close(got, want, rtol=2e-5, atol=1e-6)


# -------------------------------------------------------------- rows, four vectors side by side
def test_rows_of_many_vectors() -> None:
    """A single NaN, zero or extreme at every place of a row, so that every lane of each of the
    vectors that go side by side, and of the rest, is seen to count."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            seen = x.isnan().any(1), (x != 7.0).all(1)
            return x.amax(1), x.amin(1), x.sum(1), x.prod(1), x.double().sum(1), *seen

    size = torch.export.Dim("n", min=2, max=4000)
    module = gh.compile(Model(), torch.ones(200, 150), dynamic_shapes={"x": {1: size}})
    text = str(module.source.kernels)
    assert text.count("for_each_four") >= 5
    for count in (2, 127, 150, 143, 200):
        for special in (float("nan"), 0.0, 7.0, float("inf"), -3.0, 1e-40):
            x = torch.ones(200, count)
            row = torch.arange(200)
            x[row, row % count] = special
            for got, want in zip(module(x), Model()(x), strict=True):
                torch.testing.assert_close(got, want, equal_nan=True)
