"""Products of float32 on a GPU without tensor cores: every tile, depths that blocks share, operands
as they lie, and which tiles suit few rows and long depths."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import matmul as cuda_matmul
from glasshouse.backend.cuda.tiles import SIMT, TILES, GemmVariant, blocks, variant_named, variants
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float32
from glasshouse.numpy_ref import run

_QUICK = ("simt32x32x64", "simt16x16x128_split3")
_EVERY = [
    pytest.param(v, marks=[] if v.name in _QUICK else pytest.mark.slow, id=v.name)
    for tile in TILES.values()
    if tile.kind == SIMT
    for v in (GemmVariant(tile), GemmVariant(tile, 3))
]


@pytest.mark.parametrize("variant", _EVERY)
def test_every_tile(variant: GemmVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that no tile divides, of a batch, operands along the depth and across it."""
    monkeypatch.setattr(cuda_matmul, "variants", lambda *sizes: [variant])
    random = np.random.default_rng(0)
    rows = variant.tile.m + 6
    for turned, across, batch in ((True, False, ()), (False, True, (2, 3))):
        depth = 2 * variant.splits * variant.tile.k // 2 + 7
        builder = GraphBuilder()
        x = builder.input(float32, (*batch, depth, rows) if across else (*batch, rows, depth))
        w = builder.input(float32, (*batch, 74, depth) if turned else (*batch, depth, 74))
        out = x.apply("matmul", w, transpose_x=across, transpose_y=turned) + builder.input(
            float32, (74,)
        )
        graph = builder.finish(out.apply("tanh"))
        arrays = [random.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]
        arrays[0] /= np.float32(depth**0.5)
        program = program_of(graph, over_graph=True)
        assert program.kernels[0].tiles[0].variant == variant.name
        (ours,) = run_emulated(program, arrays, fall_back=False)
        np.testing.assert_allclose(ours, run(graph, arrays)[0], 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("m", "n", "k", "batch"),
    [
        (256, 32, 512, 1),
        (128, 192, 768, 1),
        (12, 12, 2304, 4),
        (2, 4992, 192, 1),
        (32, 512, 512, 1),
    ],
)
def test_few_tiles_are_shared_by_many_blocks(m: int, n: int, k: int, batch: int) -> None:
    """64 x 64 tiles left a chip of 132 multiprocessors to 4 to 78 blocks."""
    best = variants(m, n, 2 * k, batch, (SIMT,))[0]
    assert blocks(best, m, n, batch) >= 48
    assert variant_named(best.name) == best


def test_large_products_have_large_tiles() -> None:
    assert variants(4096, 4096, 2 * 1024, 1, (SIMT,))[0].name == "simt64x64x32"


@pytest.mark.parametrize(("rows", "depth"), [(1, 192), (5, 1032), (8, 4096)])
def test_few_rows_read_each_weight_once(rows: int, depth: int) -> None:
    """Of weights that lie along the depth, as those of a linear layer do."""
    builder = GraphBuilder()
    x, w = builder.input(float32, (rows, depth)), builder.input(float32, (37, depth))
    bias = builder.input(float32, (37,))
    graph = builder.finish((x.apply("matmul", w, transpose_y=True) + bias).apply("relu"))
    program = program_of(graph, over_graph=True)
    assert program.kernels[0].variant == "gemv"
    random = np.random.default_rng(rows)
    arrays = [random.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]
    (ours,) = run_emulated(program, arrays, fall_back=False)
    np.testing.assert_allclose(ours, run(graph, arrays)[0], 1e-4, 1e-4)
