"""Sorts and the top k on GPUs, by the emulator: ties, NaN, infinities, zeros of both signs, lines
of one run and of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import order
from glasshouse.ir import Graph, GraphBuilder, op_named
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run


def graph_of(*cases: tuple[str, Any, dict[str, Any]]) -> Graph:
    builder = GraphBuilder()
    outputs = []
    for op, x, attrs in cases:
        builder.apply(op_named(op), builder.input(as_dtype(str(x.dtype)), x.shape), **attrs)
        outputs += builder.graph.nodes[-1].outputs
    return builder.finish(*map(builder.wrap, outputs))


def check(*cases: tuple[str, Any, dict[str, Any]]) -> None:
    """Values by their bits, and places; all cases as one program, which is built once."""
    graph, arrays = graph_of(*cases), [x for _, x, _ in cases]
    program = program_of(graph)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    ours = run_emulated(program, arrays, fall_back=False)
    for found, expected in zip(ours, run(graph, arrays), strict=True):
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def sort(x: Any, axis: int = 1, descending: bool = True) -> tuple[str, Any, dict[str, Any]]:
    return "sort", x, {"axis": axis, "descending": descending}


def topk(x: Any, k: int, largest: bool = True) -> tuple[str, Any, dict[str, Any]]:
    return "topk", x, {"k": k, "axis": 1, "largest": largest}


def awkward(n: int, dtype: Any, lines: tuple[int, int] = (2, 1)) -> Any:
    """Lines of n elements along the middle axis with ties, and all that compares in its own way."""
    random = np.random.default_rng(n)
    x = random.integers(-9, 9, (lines[0], n, lines[1])).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x += random.integers(0, 3, x.shape).astype(dtype) / 8
        limits = np.finfo(dtype)
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, limits.max, limits.tiny, -np.nan]
        for line in x.reshape(-1, n):
            line[random.permutation(n)[: len(odd)]] = odd[:n]
    elif np.dtype(dtype).kind in "iu":
        x[0, 0], x[0, n // 2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return x


@pytest.fixture
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of 64 items: long lines without long tests."""
    monkeypatch.setattr(order, "ROOM", 512)
    monkeypatch.setattr(order, "LEAST_RUN", 32)
    monkeypatch.setattr(order, "FEW", 4)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64, np.int8, np.uint8])
def test_orders_are_stable_and_nan_is_largest(small_rooms: None, dtype: Any) -> None:
    sizes = ((17, (2, 3)), (64, (1, 1)), (65, (2, 1)), (301, (2, 2)))
    check(*(sort(awkward(n, dtype, lines), 1, d) for n, lines in sizes for d in (False, True)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_first_of_runs_of_runs(small_rooms: None, dtype: Any) -> None:
    """Chosen run by run while few are wanted; all in order where they are many."""
    x = awkward(700, dtype, (2, 2))
    check(*(topk(x, k, largest) for k in (0, 1, 5, 16, 17, 700) for largest in (False, True)))


def test_whole_rooms() -> None:
    check(sort(awkward(4097, np.float32, (1, 1))), topk(awkward(9000, np.float16, (1, 1)), 50))


def test_nothing_one_flags_and_short_lines(small_rooms: None) -> None:
    shapes: list[tuple[int, ...]] = [(), (1,), (0,), (3, 0), (0, 90), (1, 1, 1)]
    flags = np.random.default_rng(1).integers(0, 2, (3, 90)) > 0
    check(
        *(sort(np.full(s, -0.0, np.float32), -1 if s else 0) for s in shapes),
        sort(flags),
        sort(awkward(4, np.int64), descending=False),
    )


def test_too_many_items_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_ITEMS", 99)
    (step,) = program_of(graph_of(sort(awkward(100, np.float32)))).steps
    assert isinstance(step, Fallback)
    assert "too many" in step.why
