"""Recurrent layers on GPUs, by the emulator: clusters that share the units, blocks alone, weights
that stay and weights that are read again, odd sizes, NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import recurrent
from glasshouse.backend.cuda.render import render
from glasshouse.ir import Graph, GraphBuilder, op_named
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.ops.recurrent import GATES


def made(cell: str, arrays: list[Any], reverse: bool = False) -> Graph:
    builder = GraphBuilder()
    inputs = [builder.input(as_dtype(str(a.dtype)), a.shape) for a in arrays]
    builder.apply(op_named("recurrent"), *inputs, cell=cell, reverse=reverse)
    return builder.finish(*(builder.wrap(v) for v in builder.graph.nodes[-1].outputs))


def check(
    cell: str, steps: int, batch: int, hidden: int, dtype: Any = np.float32, reverse: bool = False,
    arch: str = "sm_90", odd: bool = False,
) -> str:  # fmt: skip
    """Compare with the reference; gives the kernel's text."""
    random = np.random.default_rng(steps + batch)
    shapes = [(steps, batch, GATES[cell] * hidden), (batch, hidden), (GATES[cell] * hidden, hidden)]
    shapes += {"lstm": [(batch, hidden)], "gru": [(hidden,)]}.get(cell, [])
    arrays = [random.standard_normal(s).astype(dtype) for s in shapes]
    arrays[2] /= hidden**0.5
    if odd:
        arrays[0][1, 0, 0], arrays[0][2, 1, 1], arrays[1][2, 0] = np.nan, np.inf, -np.inf
    graph = made(cell, arrays, reverse)
    program = program_of(graph, arch=arch)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    ours = run_emulated(program, arrays, fall_back=False)
    with np.errstate(all="ignore"):
        theirs = run(graph, arrays)
    for found, expected in zip(ours, theirs, strict=True):
        near = 1e-12 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, near, near)
    return render(program.kernels[0]).text if program.kernels else ""  # nothing is to be made


@pytest.mark.parametrize("cell", list(GATES))
def test_clusters_share_the_units(cell: str) -> None:
    assert "__cluster_dims__(8, 1, 1)" in check(cell, 5, 3, 21, odd=cell in ("lstm", "gru"))


@pytest.mark.parametrize("cell", list(GATES))
def test_blocks_alone(cell: str) -> None:
    assert "__cluster_dims__" not in check(cell, 4, 3, 6, reverse=True, arch="sm_80")
    check(cell, 3, 2, 5, np.float64)


@pytest.mark.parametrize(
    ("steps", "batch", "hidden"),
    [(1, 1, 1), (6, 1, 3), (2, 40, 9), (3, 130, 8), (3, 2, 300), (0, 2, 4), (2, 0, 4)],
)
def test_odd_sizes(steps: int, batch: int, hidden: int) -> None:
    """Fewer units than blocks; rows that a cluster takes together; more lines than threads."""
    check("lstm", steps, batch, hidden, reverse=True)


def test_weights_that_do_not_fit_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "MOST_SHARED", 2000)
    assert "false>" in check("gru", 4, 2, 36)
    assert "false>" in check("lstm", 4, 2, 37)


@pytest.mark.parametrize(
    ("hidden", "dtype", "arch", "fits"),
    [
        (4096, np.float32, "sm_90", True), (2048, np.float32, "sm_80", True),
        (4096, np.float32, "sm_80", False), (4096, np.float64, "sm_90", False),
        (5000, np.float32, "sm_90", False),
    ],
)  # fmt: skip
def test_a_state_that_does_not_fit_is_left_to_others(
    hidden: int, dtype: Any, arch: str, fits: bool
) -> None:
    shapes = [(1, 64, 4 * hidden), (64, hidden), (4 * hidden, hidden), (64, hidden)]
    arrays = [np.broadcast_to(np.zeros((), dtype), s) for s in shapes]
    (step,) = program_of(made("lstm", arrays), arch=arch).steps
    assert isinstance(step, Fallback) != fits
    if not isinstance(step, Fallback):
        (launch,) = render(step.kernel).launches
        assert launch.shared <= (227 << 10 if arch == "sm_90" else 99 << 10)
