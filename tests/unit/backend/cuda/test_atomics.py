"""Scatters by atomics on GPUs, by the emulator: every way to meet, numbers that are not finite, -0,
sums that lose nothing, and the scatters that are put in order instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import atomics
from glasshouse.backend.cuda import places as cuda_places
from glasshouse.backend.cuda.render import render
from glasshouse.errors import ExecutionError
from glasshouse.numpy_ref import run
from unit.backend.cuda.test_places import OUTSIDE, check, graph_of, normal


@pytest.fixture
def unordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers meet by atomics however few they are, in runs of a thread."""
    monkeypatch.setattr(cuda_places, "FEW_ROWS", 0)
    monkeypatch.setattr(cuda_places, "FEW_ALONG", 0)
    monkeypatch.setattr(atomics, "SPARSE", 1000)
    monkeypatch.setattr(atomics, "ENOUGH", 1)


def ours(op: str, *arrays: Any, **attrs: Any) -> Any:
    graph = graph_of(op, *arrays, **attrs)
    (made,) = run_emulated(program_of(graph), list(arrays), fall_back=False)
    return made


@pytest.mark.parametrize("mode", ["set", "add", "max", "min"])
def test_writers_meet_in_any_order(unordered: None, mode: str) -> None:
    random = np.random.default_rng(5)
    x, rows = normal(2, 4, 5, 7), normal(2, 140, 7)
    rows[0, 3, 2], rows[1, 7, 6] = np.nan, np.inf
    tuples = np.stack([random.integers(-4, 4, 140), random.integers(0, 5, 140)], -1)
    tuples[:60] = tuples[0]  # a place that many come to
    program = check("scatter_nd", x, tuples, rows, axis=1, mode=mode, rtol=1e-5)
    assert "gh::RowsToPlaces" in render(program.kernels[0]).text
    wide = normal(9, 15, dtype=np.float16)
    at = random.integers(0, 9, (40, 1)).astype(np.int32)
    check("scatter_nd", wide, at, normal(40, 15, dtype=np.float16), axis=0, mode=mode, rtol=1e-3)
    along = random.integers(-7, 7, (2, 3, 5, 100))
    along[:, :, :, :30] = 6
    program = check("scatter", x, along, normal(2, 3, 5, 100), axis=3, mode=mode, rtol=1e-5)
    assert "gh::ElementsAlong" in render(program.kernels[0]).text
    check("scatter", x, along[:, :, :, :6] // 2, normal(2, 3, 5, 6), axis=1, mode=mode)


@pytest.mark.parametrize("mode", ["add", "min"])
@pytest.mark.parametrize("dtype", [np.int64, np.int8])
def test_whole_numbers_meet(unordered: None, mode: str, dtype: Any) -> None:
    random = np.random.default_rng(6)
    x = random.integers(0, 100, (7, 2)).astype(dtype) - dtype(40)
    at = random.integers(0, 7, (40, 2))
    check("scatter", x, at, random.integers(-90, 90, (40, 2)).astype(dtype), axis=0, mode=mode)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_is_not_finite_meets(unordered: None, dtype: Any) -> None:
    """At places of their own: infinities of one sign, of both, NaN, and a large finite one that
    stands alone."""
    inf, nan = np.inf, np.nan
    rows = np.array([[inf], [1], [inf], [-inf], [inf], [nan], [1], [-inf], [60000], [1]], dtype)
    at = np.array([[0], [0], [1], [1], [2], [2], [3], [3], [4], [5]])
    x = np.array([[1], [1], [1], [1], [1], [inf], [-0.0]], dtype)
    made = ours("scatter_nd", x, at, rows, axis=0, mode="add")
    np.testing.assert_array_equal(
        made, np.array([[inf], [nan], [nan], [-inf], [60001], [inf], [-0.0]], dtype)
    )
    assert np.signbit(made[6, 0]), "where nobody comes, -0 stays"


def test_sums_lose_nothing(unordered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the largest number that comes to a place, whatever stands at other places; each
    writer by a thread of its own."""
    monkeypatch.setattr(atomics, "ENOUGH", 1 << 30)
    largest = np.array([1e30, 1.0, 1e-30, 1e-44])
    g = np.broadcast_to(0.1 * largest, (3000, 4)).astype(np.float32)
    g[0] = 1e7 * largest
    made = ours("take_grad", g, np.zeros(3000, np.int64), axis=0, size=1)
    np.testing.assert_array_equal(made[0], g.astype(np.float64).sum(0).astype(np.float32))


def test_sums_of_half_floats_are_exact(unordered: None) -> None:
    g = np.random.default_rng(7).standard_normal((2000, 3)).astype(np.float16)
    g[0], g[1], g[2] = 65504, -65504, np.float16(6e-8)  # the largest and the least that there are
    for order in (g, g[::-1].copy()):
        made = ours("take_grad", order, np.zeros(2000, np.int64), axis=0, size=1)
        np.testing.assert_array_equal(made[0], g.astype(np.float64).sum(0).astype(np.float16))


def test_nan_wins_and_zeros_keep_their_signs(unordered: None) -> None:
    x = np.array([[-0.0], [1.0], [np.nan], [-np.inf]], np.float32)
    rows, at = np.array([[np.nan], [2.0]], np.float32), np.array([[1], [2]])
    for mode in ("max", "min"):
        made = ours("scatter_nd", x, at, rows, axis=0, mode=mode)
        np.testing.assert_array_equal(made, np.array([[-0.0], [np.nan], [np.nan], [-np.inf]]))
        assert np.signbit(made[0, 0])


def test_an_index_outside_ends_the_run(unordered: None) -> None:
    for op, arrays, attrs in OUTSIDE[:3]:
        program = program_of(graph_of(op, *arrays, **attrs))
        with pytest.raises(ExecutionError):
            run_emulated(program, list(arrays), fall_back=False)


def test_nobody_comes(unordered: None) -> None:
    x, rows = normal(4, 3), normal(0, 3)
    np.testing.assert_array_equal(
        ours("scatter_nd", x, np.zeros((0, 1), np.int64), rows, axis=0, mode="add"), x
    )


@pytest.mark.parametrize(
    ("mode", "dtype", "reason"),
    [("mul", np.float32, "no whole numbers"), ("add", np.float64, "more than 64 bits")],
)
def test_others_are_put_in_order(unordered: None, mode: str, dtype: Any, reason: str) -> None:
    x, at, rows = normal(4, 3, dtype=dtype), np.zeros((9, 1), np.int64), normal(9, 3, dtype=dtype)
    graph = graph_of("scatter_nd", x, at, rows, axis=0, mode=mode)
    program = program_of(graph)
    assert "meet_ordered_rows" in render(program.kernels[0]).text, reason
    (made,) = run_emulated(program, [x, at, rows], fall_back=False)
    np.testing.assert_allclose(made, run(graph, [x, at, rows])[0], 1e-6)
