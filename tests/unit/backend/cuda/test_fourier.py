"""Fourier transforms on GPUs, by the emulator: lengths of all factors, lines along any axis, pairs,
real signals and their halves; what has no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda.fourier import Transform
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype, float32, float64
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def all_forms(cases: list[tuple[str, tuple[int, ...], int]]) -> tuple[Graph, list[Array]]:
    """Of each type, shape and axis: pairs forwards and backwards, a real signal, a half."""
    builder = GraphBuilder()
    arrays: list[Array] = []
    made = []
    for dtype, shape, axis in cases:
        length = shape[axis]
        half = tuple(length // 2 + 1 if a == axis else d for a, d in enumerate(shape))
        new = [numbers(*given, dtype=dtype) for given in ((*shape, 2), shape, (*half, 2))]
        pairs, signal, kept = (builder.input(as_dtype(dtype), a.shape) for a in new)
        made += [pairs.apply("fft", axis=axis, inverse=back) for back in (False, True)]
        made.append(signal.apply("fft", axis=axis, form="real"))
        made.append(kept.apply("fft", axis=axis, form="half", inverse=True, size=length))
        arrays += new
    return builder.finish(*made), arrays


def check(cases: list[tuple[str, tuple[int, ...], int]]) -> None:
    graph, arrays = all_forms(cases)
    program = program_of(graph)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    ours = run_emulated(program, arrays, fall_back=False)
    for mine, wanted in zip(ours, run(graph, arrays), strict=True):
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-30)
        within = 2e-6 if mine.dtype == np.float32 else 4e-15
        np.testing.assert_allclose(mine / scale, wanted / scale, atol=within, rtol=0)


def test_lengths_and_axes() -> None:
    check(
        [
            ("float32", (3, 60), 1), ("float32", (2, 1), 1), ("float64", (16, 5), 0),
            ("float32", (2, 15, 3), 1), ("float64", (2, 2), 1), ("float32", (0, 8), 1),
        ]
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [3, 4, 6, 26, 49, 77, 180, 512, 2048])
def test_all_radices_and_many_lines(length: int, dtype: str) -> None:
    check([(dtype, (37, length), 1), (dtype, (2, length, 37), 1)])


def test_a_second_round_of_a_block_and_its_last_lines() -> None:
    """More lines than blocks are wanted for: each takes several groups, the last is not full."""
    lines = Transform(8, "complex", False, float32, 140_001, 1)
    assert lines.rounds > 1
    assert lines.count % (lines.rounds * lines.at_a_time)
    builder = GraphBuilder()
    x = numbers(140_001, 8, 2)
    graph = builder.finish(builder.input(float32, x.shape).apply("fft", axis=1))
    (ours,) = run_emulated(program_of(graph), [x], fall_back=False)
    np.testing.assert_allclose(ours, run(graph, [x])[0], atol=2e-6)


def test_what_is_imaginary_at_the_ends_of_a_half_is_ignored() -> None:
    x = numbers(2, 5, 2)
    x[:, 0, 1] = x[0, 4, 1] = np.nan
    x[1, 2, 0] = np.inf
    builder = GraphBuilder()
    given = builder.input(float32, x.shape)
    graph = builder.finish(given.apply("fft", axis=1, form="half", inverse=True, size=8))
    (ours,) = run_emulated(program_of(graph), [x], fall_back=False)
    x[0, [0, 4], 1] = 0
    np.testing.assert_allclose(ours[0], run(graph, [x[:1].repeat(2, 0)])[0][0], atol=1e-5)
    assert not np.isfinite(ours[1]).any()


def test_which_lines_have_a_kernel() -> None:
    def fits(n: int, form: str = "complex", dtype: Any = float32) -> bool:
        return Transform(n, form, False, dtype, 4, 1).fits

    assert fits(8192)
    assert fits(4096, dtype=float64)
    assert fits(6144, "real", float64)
    assert not fits(16384), "it does not fit into the shared memory of all chips"
    assert not fits(17)
    builder = GraphBuilder()
    made = builder.input(float32, (4, 34)).apply("fft", axis=1, form="real").apply("relu")
    steps = program_of(builder.finish(made)).steps
    assert [isinstance(s, Fallback) for s in steps] == [True, False]
