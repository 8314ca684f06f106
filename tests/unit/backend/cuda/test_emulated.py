"""The CUDA C++ of every op of the registry, of products, attention and small models, run by the
emulator against the reference executor: no GPU is needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import EVERY, FEW, family_program, program_of
from glasshouse.backend.cuda import conv as cuda_conv
from glasshouse.backend.cuda import matmul as cuda_matmul
from glasshouse.backend.cuda.target import FALLBACKS
from glasshouse.backend.cuda.tiles import TILES, GemmWay
from glasshouse.ir import Graph, GraphBuilder, op_named
from glasshouse.ir.dtype import as_dtype, float16
from glasshouse.lower.program import Fallback, Program
from glasshouse.numpy_ref import run
from ops.harness import assert_close
from ops.samples.sample import Sample
from primitive_models import bert, gpt2, llama, resnet_block, vit

_LOOSER = {"float64": 100.0, "float32": 20.0, "float16": 4.0, "bfloat16": 4.0}


def check_family(cases: list[tuple[str, Sample, str]], folder: Path) -> None:
    program, arrays, names = family_program(cases)
    undeclared = {
        f"{s.node}: {s.why}"
        for s in program.steps
        if isinstance(s, Fallback) and s.node.op.name not in FALLBACKS
    }
    undeclared = {u for u in undeclared if "3 spatial axes" not in u}
    assert not undeclared, "no kernel and not declared a fallback"
    wrong: list[str] = []
    expected = run(program.graph, arrays)
    for (name, dtype, tol), ours, theirs, value in zip(
        names, run_emulated(program, arrays, folder), expected, program.graph.outputs, strict=True
    ):
        kind = value.type.dtype.name
        looser = tol * _LOOSER.get(kind, 1.0)
        if name == "normal":  # its logarithm and cosine are taken in float32 for every type
            looser *= 1e5 if kind == "float64" else 1.0
        try:
            assert_close(ours, theirs, kind, looser, f"{name} {dtype}")
        except AssertionError as error:
            wrong.append(" ".join(str(error).split())[:300])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("family", ["index", "norm", "pool", "reduce"])
def test_ops_equal_the_reference(family: str, tmp_path: Path) -> None:
    check_family(FEW[family], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(EVERY))
def test_all_samples_equal_the_reference(family: str, tmp_path: Path) -> None:
    check_family(EVERY[family], tmp_path)


# ----------------------------------------------------------------------------------- tensor cores
def _check(graph: Graph, folder: Path, tolerance: float, seed: int = 0) -> Program:
    random = np.random.default_rng(seed)
    arrays = [
        random.standard_normal([int(d) for d in v.type.shape]).astype(v.type.dtype.carrier)
        if v.type.dtype.is_float
        else random.integers(0, 2, [int(d) for d in v.type.shape]).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]
    program = program_of(graph)
    ours = run_emulated(program, arrays, folder, fall_back=False)
    for mine, theirs in zip(ours, run(graph, arrays), strict=True):
        exact = np.asarray(theirs, np.float64)
        error = np.abs(np.asarray(mine, np.float64) - exact).max()
        assert error <= tolerance * max(np.abs(exact).max(), 1e-30)
    return program


_QUICK = {"mma64x64x64": 3, "wgmma64x32x64": 3}
_SLOW = [
    pytest.param(tile, splits, marks=pytest.mark.slow)
    for tile in sorted(TILES)
    for splits in (1, 3)
    if _QUICK.get(tile) != splits
]


@pytest.mark.parametrize(("tile", "splits"), [*_QUICK.items(), *_SLOW])
def test_every_tile_of_a_product(
    tile: str, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes that no tile divides, both layouts of weights, an epilogue with neighbours."""
    way = GemmWay(TILES[tile], splits)
    monkeypatch.setattr(cuda_matmul, "ways", lambda *sizes: [way])
    depth = 2 * splits * way.tile.k + 8
    for turned, columns in ((True, 72), (False, 40)):
        if way.tile.hopper and not turned:
            continue
        builder = GraphBuilder()
        x = builder.input(float16, (70, depth))
        w = builder.input(float16, (columns, depth) if turned else (depth, columns))
        bias = builder.input(float16, (columns,))
        out = (x.apply("matmul", w, transpose_y=turned) + bias).apply("gelu")
        program = _check(builder.finish(out), tmp_path, 3e-3)
        assert program.kernels[0].tiles[0].variant == way.name


@pytest.mark.parametrize(
    "dtype",
    ["float16", *(pytest.param(d, marks=pytest.mark.slow) for d in ("bfloat16", "float32"))],
)
def test_batched_products_read_their_operands_where_they_lie(dtype: str, tmp_path: Path) -> None:
    builder = GraphBuilder()
    kind = as_dtype(dtype)
    x = builder.input(kind, (2, 40, 3, 16)).apply("permute", axes=(0, 2, 1, 3))
    y = builder.input(kind, (2, 3, 24, 16))
    z = builder.input(kind, (2, 3, 40, 48))
    scores = x.apply("matmul", y, transpose_y=True)
    across = x.apply("matmul", z, transpose_x=True)
    _check(builder.finish(scores, across), tmp_path, 2e-2 if dtype == "bfloat16" else 3e-3)


@pytest.mark.parametrize("rows", [1, 5])
def test_few_rows_read_each_weight_once(rows: int, tmp_path: Path) -> None:
    builder = GraphBuilder()
    x, w = builder.input(float16, (rows, 520)), builder.input(float16, (33, 520))
    program = _check(builder.finish(x.apply("matmul", w, transpose_y=True)), tmp_path, 3e-3)
    assert program.kernels[0].variant == "gemv"


@pytest.mark.parametrize(
    ("length", "keys", "dim", "heads", "causal", "mask"),
    [
        (33, 70, 40, (2, 1), False, "float16"),
        (1, 200, 64, (4, 2), False, "bool"),
        pytest.param(17, 65, 96, (1, 1), False, "bool", marks=pytest.mark.slow),
        (70, 70, 32, (2, 1), True, None),
        pytest.param(130, 130, 64, (4, 2), True, None, marks=pytest.mark.slow),
    ],
)
def test_attention(
    length: int, keys: int, dim: int, heads: tuple[int, int], causal: bool, mask: str | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    builder = GraphBuilder()
    q = builder.input(float16, (1, heads[0], length, dim))
    k, v = (builder.input(float16, (1, heads[1], keys, dim)) for _ in range(2))
    rest = [builder.input(as_dtype(mask), (1, 1, length, keys))] if mask is not None else []
    attrs = {"causal": causal, "scale": None, "fill": None}
    builder.apply(op_named("attention"), q, k, v, *rest, **attrs)
    out = builder.wrap(builder.graph.nodes[-1].output)
    _check(builder.finish(out), tmp_path, 4e-3)


@pytest.mark.parametrize(
    ("groups", "channels"),
    [
        (1, 8),
        (1, 6),
        pytest.param(2, 8, marks=pytest.mark.slow),
        pytest.param(2, 6, marks=pytest.mark.slow),
    ],
)
def test_convolutions_are_products(
    groups: int, channels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = GemmWay(TILES["mma64x32x64"])
    monkeypatch.setattr(cuda_conv, "ways", lambda *sizes: [way])
    builder = GraphBuilder()
    x = builder.input(float16, (2, channels * groups, 9, 11))
    w = builder.input(float16, (16, channels, 3, 3))
    attrs = {"stride": (2, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": groups}
    out = x.apply("conv", w, **attrs).apply("relu")
    _check(builder.finish(out), tmp_path, 3e-3)


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "vit": vit, "resnet block": resnet_block}


@pytest.mark.parametrize(
    "name", ["resnet block", *(pytest.param(n, marks=pytest.mark.slow) for n in sorted(MODELS))]
)
def test_models_equal_the_reference(name: str, tmp_path: Path) -> None:
    graph = MODELS[name]()
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(v.type.shape).astype(v.type.dtype.carrier)
        if v.type.dtype.is_float
        else random.integers(0, 8, v.type.shape).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]
    program = program_of(graph, over_graph=True)
    ours = run_emulated(program, arrays, tmp_path, fall_back=False)
    for mine, theirs in zip(ours, run(graph, arrays), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-4 * np.abs(theirs).max())
