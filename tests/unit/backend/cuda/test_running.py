"""Running values, resizing, gradients of recurrent layers on GPUs, by the emulator: sizes at which
threads, blocks and clusters share the work, and numbers that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda.running import parts_of
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run

Array = np.ndarray[Any, Any]


def check(graph: Graph, arrays: list[Array], within: float, arch: str = "sm_90") -> None:
    program = program_of(graph, arch=arch)
    assert not any(isinstance(s, Fallback) for s in program.steps)
    with np.errstate(all="ignore"):
        wanted = run(graph, arrays)
    for ours, theirs in zip(run_emulated(program, arrays), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=within, atol=within)


def one(op: str, arrays: list[Array], **attrs: Any) -> Graph:
    builder = GraphBuilder()
    given = [builder.input(as_dtype(a.dtype.name), a.shape) for a in arrays]
    many = given[0].apply(op, *given[1:], **attrs)
    return builder.finish(*(many if isinstance(many, tuple) else (many,)))


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


_SHAPES = [
    ((3, 300), 1), ((2, 70, 40), 1), ((4, 0, 3), 1),
    *(pytest.param(*x, marks=pytest.mark.slow) for x in (((7,), 0), ((2, 5, 3), 0), ((1, 1), 1))),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), _SHAPES)
def test_lines_are_shared_by_threads(shape: tuple[int, ...], axis: int) -> None:
    x = numbers(*shape)
    x.ravel()[x.size // 3 : x.size // 3 + 2] = (np.inf, -np.inf)[: min(2, x.size)]
    if x.size > 9:
        x.ravel()[-2] = np.nan
    builder = GraphBuilder()
    y = builder.input(as_dtype("float32"), shape)
    made = [y.apply("cumsum", axis=axis, exclusive=e, reverse=e) for e in (False, True)]
    made += [(y * 0.5 + 1).apply("cumprod", axis=axis), y.apply("logcumsumexp", axis=axis)]
    if 0 not in shape:
        made += [*y.apply("cummax", axis=axis), *y.apply("cummax", axis=axis, largest=False)]
    made.append((y * 0.5).apply("linear_recurrence", y, axis=axis, reverse=True))
    check(builder.finish(*made), [x], 1e-5)


def test_a_long_line_is_shared_by_blocks() -> None:
    x = numbers(2, 20_000)
    x[1, 17_000], x[0, 4095:4098] = np.inf, 9.0
    builder = GraphBuilder()
    y = builder.input(as_dtype("float32"), x.shape)
    made = [y.apply("cumsum", axis=1, exclusive=e, reverse=e) for e in (False, True)]
    made += [*y.apply("cummax", axis=1), y.apply("logcumsumexp", axis=1)]
    check(builder.finish(*made), [x], 1e-4)


def test_threads_of_a_line() -> None:
    assert parts_of(1 << 20, 1, 1) == 256, "one long line is not one thread's"
    assert parts_of(256, 256, 8 * 256) == 32
    assert parts_of(4, 1, 100_000) == 1
    assert parts_of(1000, 64, 1 << 20) == 8, "neighbouring lines keep the chip busy"


@pytest.mark.parametrize(
    ("mode", "antialias"),
    [
        ("linear", False), ("cubic", True),
        *(
            pytest.param(*x, marks=pytest.mark.slow)
            for x in (("nearest", False), ("cubic", False), ("linear", True))
        ),
    ],
)  # fmt: skip
def test_images_are_resized_with_what_follows(mode: str, antialias: bool) -> None:
    x = numbers(2, 8, 7, 9)
    x[0, 0, 3, 4], x[1, 2, 0, 0] = np.inf, np.nan
    builder = GraphBuilder()
    given = builder.input(as_dtype("float32"), x.shape)
    how = {"mode": mode, "coordinates": "half_pixel", "antialias": antialias, "scales": ()}
    made = [given.apply("resize", size=size, **how) for size in ((14, 5), (1, 20), (7, 9))]
    check(builder.finish(*[m.apply("relu") + 1 for m in made]), [x], 2e-6)


@pytest.mark.parametrize(
    ("cell", "batch", "hidden"),
    [
        ("lstm", 5, 70),
        pytest.param("gru", 2, 33, marks=pytest.mark.slow),
        pytest.param("tanh", 1, 9, marks=pytest.mark.slow),
    ],
)
def test_the_gradient_of_a_recurrent_layer_is_one_kernel(
    cell: str, batch: int, hidden: int
) -> None:
    gates = {"lstm": 4, "gru": 3}.get(cell, 1)
    states = (3, batch, hidden)
    g, given, recurred = (
        numbers(*states),
        numbers(3, batch, gates * hidden, seed=1),
        numbers(3, batch, gates * hidden, seed=2),
    )
    weights = numbers(gates * hidden, hidden, seed=3) * 0.1
    more: dict[str, list[Array]] = {
        "lstm": [
            numbers(*states, seed=4),
            numbers(*states, seed=5),
            numbers(batch, hidden, seed=6),
        ],
        "gru": [numbers(*states, seed=4), numbers(hidden, seed=5)],
    }
    arrays = [g, given, recurred, weights, *more.get(cell, [])]
    for reverse in (False, True):
        check(one("recurrent_grad", arrays, cell=cell, reverse=reverse), arrays, 2e-5)
