"""Products of float64 on a GPU: tensor cores, every tile, operands as they lie."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse as gh
from cuda_emulator import run_emulated
from cuda_samples import program_of
from fake_cuda import fake_cuda
from glasshouse.backend.cuda import matmul as cuda_matmul
from glasshouse.backend.cuda.build import INCLUDE
from glasshouse.backend.cuda.nvrtc import compile_cubin, nvrtc
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.tiles import DMMA, TILES, GemmVariant, variant_named
from glasshouse.errors import CompilerMissing
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import float64
from glasshouse.lower.program import Program
from glasshouse.numpy_ref import run


def checked(graph: Graph, tolerance: float = 1e-13) -> Program:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal([int(d) for d in v.type.shape]) for v in graph.inputs]
    program = program_of(graph, over_graph=True)
    ours = run_emulated(program, arrays, fall_back=False)
    for mine, theirs in zip(ours, run(graph, arrays), strict=True):
        assert np.abs(mine - theirs).max() <= tolerance * max(np.abs(theirs).max(), 1e-300)
    return program


def variant_of(program: Program) -> str:
    (kernel,) = program.kernels
    return kernel.tiles[0].variant


_QUICK = ("dmma64x32x64", "dmma32x32x64_split3")
_EVERY = [
    pytest.param(v, marks=[] if v.name in _QUICK else pytest.mark.slow, id=v.name)
    for tile in TILES.values()
    if tile.kind == DMMA
    for v in (GemmVariant(tile), GemmVariant(tile, 3))
]


@pytest.mark.parametrize("variant", _EVERY)
def test_every_tile(variant: GemmVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that no tile divides, operands along the depth and across it, results alone or in
    pairs."""
    monkeypatch.setattr(cuda_matmul, "variants", lambda *sizes: [variant])
    rows = variant.tile.m + 6
    for turned, across, columns in ((True, False, 74), (False, False, 33), (False, True, 40)):
        depth = 2 * variant.splits * 16 + 7 + turned
        builder = GraphBuilder()
        x = builder.input(float64, (depth, rows) if across else (rows, depth))
        w = builder.input(float64, (columns, depth) if turned else (depth, columns))
        bias = builder.input(float64, (columns,))
        out = x.apply("matmul", w, transpose_x=across, transpose_y=turned) + bias
        program = checked(builder.finish(out.apply("tanh")))
        assert variant_of(program) == variant.name


def test_products_of_a_batch_and_what_is_around_them() -> None:
    """Keys lie along the depth, values across it; heads are cut out of wider rows."""
    builder = GraphBuilder()
    x = builder.input(float64, (2, 20, 3, 16)).apply("permute", axes=(0, 2, 1, 3))
    y = builder.input(float64, (2, 3, 24, 16))
    scores = x.apply("matmul", y, transpose_y=True)
    checked(builder.finish(scores, scores.apply("softmax").apply("matmul", y)))


def test_products_that_share_a_kernel() -> None:
    """Both of an attention: rows outside of the second one's tile asked for memory anywhere."""
    builder = GraphBuilder()
    shapes = ((4, 5), (6, 5), (6, 3))
    q, k, v = (builder.input(float64, shape) for shape in shapes)
    out = q.apply("attention", k, v, causal=False, scale=None)
    (kernel,) = checked(builder.finish(out)).kernels
    assert [variant_named(t.variant).tile.kind for t in kernel.tiles] == [DMMA, DMMA]


@pytest.mark.parametrize(("rows", "depth"), [(1, 600), (7, 1), (70, 0)])
def test_few_rows_and_little_depth(rows: int, depth: int) -> None:
    builder = GraphBuilder()
    x, w = builder.input(float64, (rows, depth)), builder.input(float64, (40, depth))
    program = checked(builder.finish(x.apply("matmul", w, transpose_y=True)))
    assert not depth or variant_named(variant_of(program)).tile.kind == DMMA


def test_hostile_values() -> None:
    """An infinity or NaN of a row stays in it; -0 and the smallest numbers are kept."""
    builder = GraphBuilder()
    x, w = builder.input(float64, (20, 16)), builder.input(float64, (16, 12))
    program = program_of(builder.finish(x.apply("matmul", w)))
    rows, eye = np.ones((20, 16)), np.eye(16, 12)
    rows[1, 3], rows[2, 5], rows[3] = np.inf, np.nan, 5e-324
    (ours,) = run_emulated(program, [rows, eye], fall_back=False)
    assert np.isnan(ours[2]).all()
    assert ours[1, 3] == np.inf
    np.testing.assert_array_equal(ours[3], 5e-324)
    np.testing.assert_array_equal(ours[4:], 1.0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_it_compiles(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        nvrtc()
    except CompilerMissing as error:
        pytest.skip(str(error))
    monkeypatch.setattr(cuda_matmul, "variants", lambda *s: [variant_named("dmma64x64x64_split2")])
    builder = GraphBuilder()
    x, w = builder.input(float64, (70, 256)), builder.input(float64, (256, 64))
    graph = builder.finish(x.apply("matmul", w).apply("tanh"))
    (kernel,) = program_of(graph, over_graph=True, arch=arch).kernels
    shown = render(kernel)
    assert compile_cubin(shown.text, shown.name, arch, INCLUDE)[:4] == b"\x7fELF"


def test_shared_memory_is_asked_for_beside_what_a_function_declares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tile of 48 KB and a flag of its own are more than a function has unasked."""
    one = variant_named("dmma32x32x64_split3")
    assert one.shared == 48 << 10
    monkeypatch.setattr(cuda_matmul, "variants", lambda *sizes: [one])
    with fake_cuda(monkeypatch) as cuda:
        x = np.random.default_rng(0).standard_normal((40, 96))
        module = gh.compile(gh.trace(lambda a: a @ a.T, gh.array(x)), target="cuda", progress=False)
        np.testing.assert_allclose(module(x), x @ x.T, atol=1e-12)
        assert "cuFuncSetAttribute" in cuda.calls
