"""Scatters, gradients of gathers and bags on GPUs, by the emulator: repeated, negative and
foreign indices, odd sizes, NaN, and what is too large for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import atomics, order
from glasshouse.backend.cuda import places as cuda_places
from glasshouse.backend.cuda.render import render
from glasshouse.errors import ExecutionError
from glasshouse.ir import Graph, GraphBuilder, op_named
from glasshouse.ir.dtype import as_dtype, float32, int64
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run


def graph_of(op: str, *arrays: Any, **attrs: Any) -> Graph:
    builder = GraphBuilder()
    inputs = [builder.input(as_dtype(str(a.dtype)), a.shape) for a in arrays]
    builder.apply(op_named(op), *inputs, **attrs)
    return builder.finish(*(builder.wrap(v) for v in builder.graph.nodes[-1].outputs))


def check(op: str, *arrays: Any, over_graph: bool = False, rtol: float = 1e-6, **attrs: Any) -> Any:
    graph = graph_of(op, *arrays, **attrs)
    program = program_of(graph, over_graph=over_graph)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    for ours, theirs in zip(
        run_emulated(program, list(arrays), fall_back=False), run(graph, list(arrays)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol, rtol)
    return program


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("before", "count", "after", "dtype", "kind"),
    [
        ((), 700, (300,), np.float16, np.int64),  # more columns than a warp holds, six looks
        ((2,), 33, (5, 3), np.float32, np.int32),
        ((), 1, (), np.float32, np.int64),
        ((), 0, (4,), np.float32, np.int64),
    ],
)
def test_gradients_of_rows(
    before: tuple[int, ...], count: int, after: tuple[int, ...], dtype: Any, kind: Any
) -> None:
    places = np.random.default_rng(0).integers(-9, 9, count).astype(kind)
    places[: count // 2] = 4  # a token that stands in half of all texts
    g = normal(*before, count, *after, dtype=dtype)
    check(
        "take_grad", g, places, axis=len(before), size=9, rtol=2e-3 if dtype == np.float16 else 1e-6
    )


def test_sums_of_one_place_lose_nothing() -> None:
    g = np.full((3000, 1), 0.1, np.float32)
    g[0] = 1e6
    graph = graph_of("take_grad", g, np.zeros(3000, np.int64), axis=0, size=1)
    (ours,) = run_emulated(program_of(graph), [g, np.zeros(3000, np.int64)], fall_back=False)
    assert ours[0, 0] == np.float32(g.astype(np.float64).sum())


@pytest.mark.parametrize("mode", ["set", "add", "mul", "max", "min"])
def test_tuples_and_elements_meet_in_order(mode: str) -> None:
    random = np.random.default_rng(1)
    x, rows = normal(2, 4, 5, 7), normal(2, 40, 7)
    rows[0, 3, 2] = np.nan
    tuples = np.stack([random.integers(-4, 4, 40), random.integers(0, 5, 40)], -1)
    check("scatter_nd", x, tuples, rows, axis=1, mode=mode)
    along = random.integers(-5, 5, (2, 3, 9, 6))
    check("scatter", x, along, normal(2, 3, 9, 6), axis=2, mode=mode)


@pytest.mark.parametrize("mode", ["set", "add", "mul", "max"])
@pytest.mark.parametrize("axis", [0, 1])
def test_one_element_of_a_line_is_chosen(mode: str, axis: int) -> None:
    """As a cross entropy's gradient has it: one kernel, with what stands around it."""
    shape = (1, 33) if axis == 0 else (6, 1)
    places = np.random.default_rng(2).integers(-6, 6, shape)
    x, new = normal(6, 33), normal(*shape)
    builder = GraphBuilder()
    given, where, put = (
        builder.input(t, s)
        for t, s in zip((float32, int64, float32), ((6, 33), shape, shape), strict=True)
    )
    graph = builder.finish(
        given.apply("exp").apply("scatter", where, put, axis=axis, mode=mode) * given
    )
    program = program_of(graph, over_graph=True)
    assert len(program.steps) == 1
    (ours,) = run_emulated(program, [x, places, new], fall_back=False)
    np.testing.assert_allclose(ours, run(graph, [x, places, new])[0], 1e-5, 1e-6)
    with pytest.raises(ExecutionError):
        run_emulated(program, [x, np.full(shape, 99), new], fall_back=False)


OUTSIDE: list[Any] = [
    ("take_grad", (normal(3, 2), np.array([0, 9, 1])), {"axis": 0, "size": 4}),
    ("scatter_nd", (normal(3, 2), np.array([[0, -3]]), normal(1)), {"axis": 0, "mode": "add"}),
    ("scatter", (normal(3, 2), np.full((5, 2), 3), normal(5, 2)), {"axis": 0, "mode": "set"}),
    ("embedding_bag", (normal(3, 2), np.array([0, 3]), np.array([0])), {}),
]


@pytest.mark.parametrize(
    ("op", "arrays", "attrs"), OUTSIDE, ids=["rows", "tuples", "along", "bags"]
)
def test_an_index_outside_ends_the_run(op: str, arrays: Any, attrs: Any) -> None:
    program = program_of(graph_of(op, *arrays, **attrs))
    with pytest.raises(ExecutionError):
        run_emulated(program, list(arrays), fall_back=False)


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers are put in order however few they are, in runs of 32."""
    monkeypatch.setattr(atomics, "MOST_WRITERS", 0)
    monkeypatch.setattr(cuda_places, "FEW_ROWS", 0)
    monkeypatch.setattr(cuda_places, "FEW_ALONG", 0)
    monkeypatch.setattr(order, "ROOM", 256)
    monkeypatch.setattr(order, "LEAST_RUN", 32)


@pytest.mark.parametrize("mode", ["set", "add", "mul", "max", "min"])
def test_writers_in_order_of_their_places(in_order: None, mode: str) -> None:
    random = np.random.default_rng(5)
    x, rows = normal(2, 4, 5, 70), normal(2, 140, 70)
    rows[0, 3, 2], rows[1, 7, 69] = np.nan, np.inf
    tuples = np.stack([random.integers(-4, 4, 140), random.integers(0, 5, 140)], -1)
    tuples[:60] = tuples[0]  # a place that many come to
    check("scatter_nd", x, tuples, rows, axis=1, mode=mode, rtol=1e-5)
    wide = normal(9, 150, dtype=np.float16)
    at = random.integers(0, 9, (40, 1)).astype(np.int32)
    check("scatter_nd", wide, at, normal(40, 150, dtype=np.float16), axis=0, mode=mode, rtol=2e-3)
    along = random.integers(-70, 70, (2, 3, 5, 100))
    along[:, :, :, :30] = 69
    check("scatter", x, along, normal(2, 3, 5, 100), axis=3, mode=mode, rtol=1e-5)
    check("scatter", x, along[:, :, :, :6] // 18, normal(2, 3, 5, 6), axis=1, mode=mode)
    whole = random.integers(0, 6, (40, 2))
    check("scatter", np.arange(14).reshape(7, 2), whole, whole * 3, axis=0, mode=mode)


@pytest.mark.parametrize(("count", "after"), [(700, (3,)), (1, ()), (0, (4,)), (33, (2, 130))])
def test_gradients_of_rows_in_order(in_order: None, count: int, after: tuple[int, ...]) -> None:
    places = np.random.default_rng(6).integers(-50, 50, count)
    places[: count // 2] = 4
    check("take_grad", normal(2, count, *after), places, axis=1, size=50, rtol=1e-5)


def test_an_index_outside_ends_the_run_in_order(in_order: None) -> None:
    for op, arrays, attrs in OUTSIDE[:3]:
        program = program_of(graph_of(op, *arrays, **attrs))
        with pytest.raises(ExecutionError):
            run_emulated(program, list(arrays), fall_back=False)


def test_many_writers_to_many_more_places_are_put_in_order() -> None:
    places = np.random.default_rng(7).integers(0, 900, 5000)
    program = check("take_grad", normal(5000, 3), places, axis=0, size=21_000, rtol=1e-5)
    assert "meet_ordered_rows" in render(program.kernels[0]).text


def test_bags() -> None:
    table, places = normal(9, 37), np.random.default_rng(4).integers(0, 9, 50).astype(np.int32)
    offsets = np.array([0, 0, 17, 50], np.int32)  # two of them empty
    for closed in (False, True):
        for mean in (False, True):
            check(
                "embedding_bag",
                table,
                places,
                offsets,
                normal(50),
                mean=mean,
                skipped=3,
                closed=closed,
            )


def test_too_many_pairs_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = normal(3, 20), np.array([0, 1, 1]), normal(3, 20)
    graph = graph_of("take_grad", *arrays[:2], axis=0, size=4)
    monkeypatch.setattr(cuda_places, "MOST_PAIRS", -1)
    (step,) = program_of(graph).steps
    assert isinstance(step, Fallback)
    assert "too many" in step.why
