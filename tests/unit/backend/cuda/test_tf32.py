"""Products of float32 on a GPU in TF32: only where it was asked for, as exact as it promises."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse as gh
from cuda_emulator import run_emulated
from glasshouse.backend.cuda.target import cuda_target
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import float32
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref import run
from glasshouse.passes.pipeline import optimize_program


def program_of(graph: Graph, precision: str, arch: str = "sm_90") -> Program:
    ctx = gh.PassContext(precision=precision, options={"resolve_variant": {"measure": "none"}})
    ctx.target = cuda_target(f"cuda:{arch}", arch)
    return optimize_program(graph, ctx)


def product(m: int, n: int, k: int, transposed: bool = True, batch: int = 0) -> Graph:
    builder = GraphBuilder()
    random = np.random.default_rng(0)
    if batch:
        x, y = (builder.input(float32, (batch, rows, k)) for rows in (m, n))
        return builder.finish(x.apply("matmul", y, transpose_y=True))
    x = builder.input(float32, (m, k))
    shape = (n, k) if transposed else (k, n)
    w = builder.wrap(builder.constant(random.standard_normal(shape).astype(np.float32)))
    return builder.finish(x.apply("matmul", w, transpose_y=transposed).apply("gelu"))


def variants_of(program: Program) -> list[str]:
    calls = [s for s in program.steps if isinstance(s, Call)]
    return [tile.variant for call in calls for tile in call.kernel.tiles]


@pytest.mark.parametrize(
    "sizes",
    [(70, 40, 72), (33, 17, 19), (5, 64, 520)],
    ids=["whole", "odd", "deep"],
)
@pytest.mark.parametrize(
    ("form", "arch"),
    [("transposed", "sm_80"), ("transposed", "sm_90"), ("turned", "sm_90"), ("batched", "sm_90")],
)
def test_products_round_to_ten_digits(sizes: tuple[int, int, int], form: str, arch: str) -> None:
    graph = product(*sizes, transposed=form == "transposed", batch=2 * (form == "batched"))
    program = program_of(graph, "tf32", arch)
    assert [v[:3] for v in variants_of(program)] == ["mma"]
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]
    (ours,) = run_emulated(program, arrays, fall_back=False)
    (exact,) = run(graph, arrays)
    error = np.abs(ours - exact).max() / np.abs(exact).max()
    assert 1e-5 < error < 1e-3, "rounded, and no more than that"


def test_nothing_rounds_unasked() -> None:
    assert variants_of(program_of(product(70, 40, 72), "float32"))[0].startswith("simt")


def test_operands_that_lie_across_stay_in_float32() -> None:
    builder = GraphBuilder()
    x, y = builder.input(float32, (2, 32, 24)), builder.input(float32, (2, 24, 40))
    program = program_of(builder.finish(x.apply("matmul", y)), "tf32")
    assert variants_of(program)[0].startswith("simt")


def test_hostile_values_in_tf32() -> None:
    """Infinities and NaN stay what they are; what is past the largest TF32 number is infinite."""
    graph = product(16, 16, 32)
    program = program_of(graph, "tf32")
    x = np.ones((16, 32), np.float32)
    x[1, 3], x[2, 5], x[3, 0], x[4] = np.inf, np.nan, 1e-40, 0.0
    (ours,) = run_emulated(program, [x], fall_back=False)
    assert not np.isfinite(ours[1]).any()
    assert np.isnan(ours[2]).all()
    assert np.isfinite(ours[3]).all()
    np.testing.assert_array_equal(ours[4], 0)


def test_the_cpu_takes_no_notice() -> None:
    x = np.random.default_rng(2).standard_normal((8, 8)).astype(np.float32)
    graph = gh.trace(lambda a: a @ a, gh.array(x))
    plain = gh.compile(graph, progress=False)(x)
    np.testing.assert_array_equal(gh.compile(graph, progress=False, precision="tf32")(x), plain)
