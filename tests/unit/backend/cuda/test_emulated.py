"""The CUDA C++ of every op of the registry, of products, attention and small models, run by the
emulator against the reference executor: no GPU is needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from cuda_emulator import run_emulated
from cuda_samples import EVERY, FEW, family_program, program_of
from glasshouse.backend.cuda import attention as cuda_attention
from glasshouse.backend.cuda import conv as cuda_conv
from glasshouse.backend.cuda import matmul as cuda_matmul
from glasshouse.backend.cuda import nests
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.target import FALLBACKS
from glasshouse.backend.cuda.tiles import (
    DMMA,
    FETCHED,
    MMA,
    SIMT,
    TILES,
    TURNS,
    GemmTile,
    GemmVariant,
    variant_named,
)
from glasshouse.errors import ExecutionError
from glasshouse.ir import Graph, GraphBuilder, op_named
from glasshouse.ir.dtype import as_dtype, float16, float32, from_storage, int64, to_storage
from glasshouse.lower.program import Fallback, Program
from glasshouse.numpy_ref import run
from ops.harness import assert_close
from ops.samples.sample import Sample
from primitive_models import bert, gpt2, llama, resnet_block, vit

_LOOSER = {"float64": 100.0, "float32": 20.0, "float16": 4.0, "bfloat16": 4.0}


def check_family(cases: list[tuple[str, Sample, str]]) -> None:
    program, arrays, names = family_program(cases)
    undeclared = {
        f"{s.node}: {s.why}"
        for s in program.steps
        if isinstance(s, Fallback) and s.node.op.name not in FALLBACKS
    }
    known = ("3 spatial axes", "no transposed convolution", "no transform of lines")
    undeclared = {u for u in undeclared if not any(words in u for words in known)}
    assert not undeclared, "no kernel and not declared a fallback"
    wrong: list[str] = []
    expected = run(program.graph, arrays)
    for (name, dtype, tol), ours, theirs, value in zip(
        names, run_emulated(program, arrays), expected, program.graph.outputs, strict=True
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


@pytest.mark.parametrize(
    "family", [pytest.param("index", marks=pytest.mark.slow), "norm", "pool", "reduce"]
)
def test_ops_equal_the_reference(family: str) -> None:
    check_family(FEW[family])


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(EVERY))
def test_all_samples_equal_the_reference(family: str) -> None:
    check_family(EVERY[family])


# ----------------------------------------------------------------------------------- tensor cores
def _check(graph: Graph, tolerance: float, seed: int = 0) -> Program:
    random = np.random.default_rng(seed)
    arrays = [
        random.standard_normal([int(d) for d in v.type.shape]).astype(v.type.dtype.carrier)
        if v.type.dtype.is_float
        else random.integers(0, 2, [int(d) for d in v.type.shape]).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]
    program = program_of(graph)
    ours = run_emulated(program, arrays, fall_back=False)
    for mine, theirs in zip(ours, run(graph, arrays), strict=True):
        exact = np.asarray(theirs, np.float64)
        error = np.abs(np.asarray(mine, np.float64) - exact).max()
        assert error <= tolerance * max(np.abs(exact).max(), 1e-30)
    return program


def _variants_of(tile: GemmTile) -> list[GemmVariant]:
    joins = tile.n <= 128 and tile.kind not in (SIMT, TURNS)  # those never are clusters
    joined = [GemmVariant(tile, 3, True)] if joins else []
    shared = [GemmVariant(tile, 3)] if tile.kind not in FETCHED else []
    return [GemmVariant(tile), *shared, *joined]


_QUICK = ("mma64x64x64_split3", "tma64x32x64_by2_join3", "tma128x128x64_by2", "turns128x192x64")
_EVERY = [
    pytest.param(variant, marks=[] if variant.name in _QUICK else pytest.mark.slow, id=variant.name)
    for tile in TILES.values()
    if tile.kind != DMMA  # of float64 alone: `test_double.py`
    for variant in _variants_of(tile)
]


@pytest.mark.parametrize("variant", _EVERY)
def test_every_tile_of_a_product(variant: GemmVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that no tile divides, both layouts of weights, an epilogue with neighbours."""
    monkeypatch.setattr(cuda_matmul, "variants", lambda *sizes: [variant])
    depth = 2 * variant.splits * variant.tile.k + 8
    rows = variant.tile.m + 70 if variant.tile.kind in FETCHED else 70
    for turned, columns in ((True, 72), (False, 40)):
        if variant.tile.kind != MMA and not turned:
            continue
        builder = GraphBuilder()
        x = builder.input(float16, (rows, depth))
        w = builder.input(float16, (columns, depth) if turned else (depth, columns))
        bias = builder.input(float16, (columns,))
        out = (x.apply("matmul", w, transpose_y=turned) + bias).apply("gelu")
        program = _check(builder.finish(out), 3e-3)
        assert program.kernels[0].tiles[0].variant == variant.name


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("tma64x64x64_join6", 64),
        pytest.param("tma64x64x64_join8", 64, marks=pytest.mark.slow),
        pytest.param("tma64x64x64_by2_join2", 40, marks=pytest.mark.slow),
        pytest.param("tma128x128x64_join4", 128, marks=pytest.mark.slow),
        pytest.param("tma128x256x64_join2", 256, marks=pytest.mark.slow),
    ],
)
def test_blocks_that_share_the_depth_add_their_sums(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each owns a run of what a thread holds: of eight neighbours, or of four where more blocks
    share a tile; sums lie behind the stages, or over them."""
    variant, splits = variant_named(name), variant_named(name).splits
    monkeypatch.setattr(cuda_matmul, "variants", lambda *sizes: [variant])
    builder = GraphBuilder()
    x = builder.input(float16, (variant.tile.m + 6, splits * 64 + 8))
    w = builder.input(float16, (columns, splits * 64 + 8))
    more = builder.input(float16, (variant.tile.m + 6, columns))
    program = _check(builder.finish(x.apply("matmul", w, transpose_y=True) + more), 3e-3)
    assert program.kernels[0].tiles[0].variant == variant.name


@pytest.mark.parametrize(
    "tile",
    [
        "turns128x128x64",
        pytest.param("tma128x128x64_by2", marks=pytest.mark.slow),
    ],
)
def test_blocks_stay_for_further_tiles(tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More tiles than blocks: stages go round between tiles, blocks end at different times."""
    variant = GemmVariant(TILES[tile])
    monkeypatch.setattr(cuda_matmul, "variants", lambda *sizes: [variant])
    monkeypatch.setattr(cuda_matmul, "PROCESSORS", 2)
    builder = GraphBuilder()
    depth = 840  # more steps than twice the stages: rounds of a barrier must not be mistaken
    x = builder.input(float16, (128 * 2 * 3 - 5, depth))
    w = builder.constant(np.random.default_rng(1).standard_normal((250, depth)).astype(np.float16))
    _check(builder.finish(x.apply("matmul", w, transpose_y=True)), 3e-3)


@pytest.mark.parametrize(
    "dtype",
    ["float16", *(pytest.param(d, marks=pytest.mark.slow) for d in ("bfloat16", "float32"))],
)
def test_batched_products_read_their_operands_where_they_lie(dtype: str) -> None:
    builder = GraphBuilder()
    kind = as_dtype(dtype)
    x = builder.input(kind, (2, 40, 3, 16)).apply("permute", axes=(0, 2, 1, 3))
    y = builder.input(kind, (2, 3, 24, 16))
    z = builder.input(kind, (2, 3, 40, 48))
    scores = x.apply("matmul", y, transpose_y=True)
    across = x.apply("matmul", z, transpose_x=True)
    _check(builder.finish(scores, across), 2e-2 if dtype == "bfloat16" else 3e-3)


def test_long_sums_lose_nothing() -> None:
    """Equal terms, whose roundings add up: of a row by a block, of columns by a thread each, and
    running. In float32 one after the other they were off by 3e-5."""
    rows, columns = 2000, 4096
    builder = GraphBuilder()
    x = builder.input(float32, (rows, columns))
    line = builder.input(float32, (1, 50_000))
    graph = builder.finish(
        x.apply("sum", axes=(0, 1)), x.apply("sum", axes=(0,)), line.apply("cumsum", axis=1)
    )
    given = [np.full(v.type.shape, 0.1, np.float32) for v in graph.inputs]
    whole, by_column, running = run_emulated(program_of(graph), given)
    term = np.float64(np.float32(0.1))
    np.testing.assert_allclose(whole, term * rows * columns, rtol=1e-6)
    np.testing.assert_allclose(by_column, term * rows, rtol=1e-6)
    np.testing.assert_allclose(running[0, -1], term * 50_000, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "axis", "op"),
    [
        ((200, 40), 0, "sum"),
        ((700, 17), 0, "variance"),
        ((3, 100, 21), 1, "max"),
        ((2, 65, 9, 4), 1, "mean"),
    ],
)
def test_columns_are_shared_by_blocks(shape: tuple[int, ...], axis: int, op: str) -> None:
    """Sixteen columns a block, the last block less; what follows is written once."""
    builder = GraphBuilder()
    x = builder.input(float16, shape)
    folded = x.cast(float32).apply(op, axes=[axis], keepdims=True)
    graph = builder.finish((folded * 2.0 + 1.0).cast(float16))
    program = _check(graph, 2e-3)
    assert any("across_parts" in render(kernel).text for kernel in program.kernels)


def test_columns_with_a_number_for_each_term_are_shared_too() -> None:
    """The gradient of a norm's scale: what is added up has a mean and a factor for each row."""
    builder = GraphBuilder()
    x, g = builder.input(float16, (3, 70, 40)), builder.input(float16, (3, 70, 40))
    mean, factor = (builder.input(float32, (3, 70, 1)) for _ in range(2))
    terms = (x.cast(float32) - mean) * factor * g.cast(float32)
    graph = builder.finish(terms.apply("sum", axes=[0, 1], keepdims=False))
    program = program_of(graph, over_graph=True)
    (kernel,) = program.kernels
    assert "across_parts" in render(kernel).text
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(v.type.shape).astype(v.type.dtype.storage) for v in graph.inputs
    ]
    (ours,) = run_emulated(program, arrays, fall_back=False)
    np.testing.assert_allclose(ours, run(graph, arrays)[0], rtol=1e-4, atol=1e-4)


def test_a_column_that_is_added_up_loses_nothing() -> None:
    x = np.full((20000, 16), 0.1, np.float32)
    x[0] = 1e7
    builder = GraphBuilder()
    graph = builder.finish(builder.input(float32, x.shape).apply("sum", axes=[0], keepdims=False))
    (ours,) = run_emulated(program_of(graph), [x], fall_back=False)
    exact = x.astype(np.float64).sum(0)
    assert np.abs(ours - exact).max() <= np.abs(exact).max() * 2.0**-24


@pytest.mark.parametrize("op", ["gelu", "silu"])
def test_an_activation_of_every_float16(op: str) -> None:
    """As exact as a float16 can be, but for a seventh of its last place; infinities too."""
    builder = GraphBuilder()
    graph = builder.finish(builder.input(float16, (1 << 16,)).apply(op))
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (ours,) = run_emulated(program_of(graph), [every])
    with np.errstate(all="ignore"):
        wide = torch.from_numpy(every.astype(np.float64))
        share = (
            0.5 * torch.special.erfc(-wide / 2**0.5) if op == "gelu" else 1 / (1 + (-wide).exp())
        )
        exact = (wide * share).numpy()
        finite = np.isfinite(exact)
        ends = [ours[~finite], exact[~finite].astype(np.float16)]
        np.testing.assert_array_equal(*ends)
        last = np.spacing(np.abs(exact[finite]).astype(np.float16)).astype(np.float64)
        off = np.abs(ours[finite].astype(np.float64) - exact[finite]) / last
    assert off.max() <= 0.64


def test_rows_that_are_gathered_move_as_vectors() -> None:
    """The number of a row is read once, before its neighbours are loaded."""
    builder = GraphBuilder()
    table, rows = builder.input(float16, (30, 1024)), builder.input(int64, (6,))
    taken = table.apply("take", rows, axis=0)
    program = program_of(builder.finish(taken.apply("softmax")), over_graph=True)
    (kernel,) = program.kernels
    assert "gh::load_vec<8>(x0 + ctx.index(" in render(kernel).text
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((30, 1024)).astype(np.float16), random.integers(0, 30, 6)]
    (ours,) = run_emulated(program, arrays)
    (theirs,) = run(program.graph, arrays)
    np.testing.assert_allclose(ours, theirs, rtol=4e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("pieces", "runs"), [((32, 32), 2), ((24, 40), 2), ((8, 48, 8), 2), ((36, 28), 0)]
)
def test_pieces_of_a_concatenation_are_loaded_in_runs(
    pieces: tuple[int, ...], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The halves of a head that is turned change places; runs lie in one piece as a whole."""
    monkeypatch.setattr(nests, "ENOUGH_THREADS", 1)
    builder = GraphBuilder()
    x = builder.input(float16, (3, 4 * 64))
    heads = x.apply("reshape", shape=(3, 4, 64))
    ends = np.cumsum((0, *pieces)).tolist()
    cut = [heads.apply("slice", starts=(0, 0, a), ends=(3, 4, b)) for a, b in pairwise(ends)]
    turned = (-cut[-1]).apply("concat", *cut[:-1], axis=2)
    graph = builder.finish(turned * 2.0 + heads)
    program = program_of(graph, over_graph=True)
    given = np.random.default_rng(0).standard_normal((3, 256)).astype(np.float16)
    (ours,), (theirs,) = run_emulated(program, [given], fall_back=False), run(graph, [given])
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-3)
    (kernel,) = program.kernels
    text = render(kernel).text
    assert sum("load_vec<8>" in line and "clamp" in line for line in text.splitlines()) == runs


def test_the_border_that_is_repeated_is_not_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nests, "ENOUGH_THREADS", 1)
    builder = GraphBuilder()
    x = builder.input(float16, (3, 48))
    padded = [x.apply("pad", padding=(0, 8, 0, 8), mode=m) for m in ("edge", "reflect", "constant")]
    _check(builder.finish(*(p * 2.0 for p in padded)), 1e-3)


@pytest.mark.parametrize("count", [1, 5])
def test_rows_of_a_cache_are_written_without_a_scatter(count: int) -> None:
    """In one kernel, along an inner axis; of equal places the last wins; none lies outside."""
    builder = GraphBuilder()
    cache, places = builder.input(float16, (1, 3, 16, 8)), builder.input(int64, (count,))
    new = builder.input(float16, (1, 3, count, 8))
    at = places.apply("reshape", shape=(count, 1))
    graph = builder.finish(cache.apply("scatter_nd", at, new, axis=2))
    program = program_of(graph, over_graph=True)
    assert len(program.steps) == (1 if count == 1 else 2)
    random = np.random.default_rng(0)
    held, added = (random.standard_normal((1, 3, n, 8)).astype(np.float16) for n in (16, count))
    arrays = [held, np.array([3, 7, 2, 7, 0][:count]), added]
    (ours,) = run_emulated(program, arrays, fall_back=False)
    np.testing.assert_array_equal(ours, run(graph, arrays)[0])
    with pytest.raises(ExecutionError):
        run_emulated(program, [held, np.full(count, 99), added], fall_back=False)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 520, 33), (5, 520, 33), (1, 4616, 7), (1, 8, 600), (2, 2048, 5)],
)
def test_few_rows_read_each_weight_once(rows: int, depth: int, columns: int) -> None:
    """Depths of one warp and of several, columns for less than all blocks and for more."""
    builder = GraphBuilder()
    x = builder.input(float16, (rows, depth))
    w = builder.constant(
        np.random.default_rng(1).standard_normal((columns, depth)).astype(np.float16)
    )
    program = _check(builder.finish(x.apply("matmul", w, transpose_y=True)), 3e-3)
    assert program.kernels[0].variant == "gemv"


@pytest.mark.parametrize(
    ("length", "keys", "dim", "heads", "causal", "mask"),
    [
        (33, 70, 40, (2, 1), False, "float16"),
        (1, 200, 64, (4, 2), False, "bool"),
        (1, 1030, 64, (2, 1), False, "bool"),  # eight blocks share the keys
        (3, 515, 24, (2, 2), True, None),  # four, some of which see none
        (2, 530, 64, (8, 2), False, "bool"),  # a block takes four heads
        pytest.param(17, 65, 96, (1, 1), False, "bool", marks=pytest.mark.slow),
        (70, 70, 32, (2, 1), True, None),
        pytest.param(130, 130, 64, (4, 2), True, None, marks=pytest.mark.slow),
    ],
)
def test_attention(
    length: int, keys: int, dim: int, heads: tuple[int, int], causal: bool, mask: str | None,
) -> None:  # fmt: skip
    builder = GraphBuilder()
    q = builder.input(float16, (1, heads[0], length, dim))
    k, v = (builder.input(float16, (1, heads[1], keys, dim)) for _ in range(2))
    rest = [builder.input(as_dtype(mask), (1, 1, length, keys))] if mask is not None else []
    attrs = {"causal": causal, "scale": None, "fill": None}
    builder.apply(op_named("attention"), q, k, v, *rest, **attrs)
    out = builder.wrap(builder.graph.nodes[-1].output)
    _check(builder.finish(out), 4e-3)


_GROUPED = [
    (130, 130, 64, (1, 1), True, None, "wgmma128x128"),
    (100, 140, 64, (2, 1), False, "float16", "wgmma64x128"),
    (70, 200, 64, (2, 1), False, "float16", "wgmma192x128"),
    (260, 100, 64, (1, 1), False, None, "wgmma256x64"),
    pytest.param(70, 300, 128, (1, 1), False, "bool", "wgmma128x128", marks=pytest.mark.slow),
    pytest.param(200, 200, 128, (2, 1), True, None, "wgmma128x128", marks=pytest.mark.slow),
    pytest.param(200, 400, 64, (4, 2), True, "float16", "wgmma192x128", marks=pytest.mark.slow),
    pytest.param(300, 520, 64, (2, 2), False, "bool", "wgmma256x64", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("length", "keys", "dim", "heads", "causal", "mask", "variant"), _GROUPED)
def test_attention_by_warpgroups(
    length: int, keys: int, dim: int, heads: tuple[int, int], causal: bool, mask: str | None,
    variant: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Queries, keys and values lie in one tensor, as a projection leaves them; sizes that no tile
    divides; scores that grow along the keys, so that weights are anchored anew."""
    monkeypatch.setattr(cuda_attention, "_grouped", lambda node: (variant,))
    builder = GraphBuilder()
    x = builder.input(float16, (2, length, heads[0], dim))
    both = builder.input(float16, (2, keys, 2, heads[1], dim))
    ramp = np.linspace(0.1, 9.0, keys, dtype=np.float32).astype(np.float16)
    ends = (2, keys, 1, heads[1], dim)
    first = both.apply("slice", starts=(0,) * 5, ends=ends)
    second = both.apply("slice", starts=(0, 0, 1, 0, 0), ends=(2, keys, 2, heads[1], dim))
    k, v = (y.apply("reshape", shape=(2, keys, heads[1], dim)) for y in (first, second))
    grown = k * builder.wrap(builder.constant(ramp.reshape(1, keys, 1, 1)))
    q, k, v = (y.apply("permute", axes=(0, 2, 1, 3)) for y in (x, grown, v))
    rest = [builder.input(as_dtype(mask), (2, 1, 1, keys))] if mask is not None else []
    builder.apply(op_named("attention"), q, k, v, *rest, causal=causal, scale=None, fill=None)
    out = builder.wrap(builder.graph.nodes[-1].output)
    program = _check(builder.finish(out), 4e-3)
    assert variant in {t.variant for kernel in program.kernels for t in kernel.tiles}


@pytest.mark.parametrize(
    ("variant", "dtype", "keys"),
    [
        ("wgmma128x128", "bool", 208),
        ("wgmma64x128_by2", "bool", 208),
        pytest.param("wgmma128x128", "float16", 130, marks=pytest.mark.slow),
        pytest.param("wgmma256x64", "bool", 80, marks=pytest.mark.slow),
        pytest.param("wgmma128x128", "bool", 131, marks=pytest.mark.slow),  # one by one
    ],
)
def test_a_mask_of_queries_and_keys(
    variant: str, dtype: str, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded ahead of the scores, numbers in pairs, flags in 16s; the last queries and keys
    end inside a tile."""
    monkeypatch.setattr(cuda_attention, "_grouped", lambda node: (variant,))
    builder = GraphBuilder()
    q = builder.input(float16, (2, 2, 150, 64))
    k, v = (builder.input(float16, (2, 1, keys, 64)) for _ in range(2))
    mask = builder.input(as_dtype(dtype), (2, 1, 150, keys))
    builder.apply(op_named("attention"), q, k, v, mask, causal=False, scale=None, fill=None)
    program = _check(builder.finish(builder.wrap(builder.graph.nodes[-1].output)), 4e-3)
    (kernel,) = program.kernels
    how = "gh::pair_mask" if dtype == "float16" else "gh::flag_mask"
    assert (how in render(kernel).text) == (keys % 2 == 0)


@pytest.mark.parametrize(
    ("fill", "variant"),
    [(None, "wgmma128x128"), (-1e4, "wgmma128x128"), (None, "wgmma64x128_by2")],
)
def test_keys_that_no_query_of_a_block_sees_are_left_out(
    fill: float | None, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt in a longer cache: what lies behind it is never read, unless it has a weight; and a
    block of queries that see nothing gives 0."""
    monkeypatch.setattr(cuda_attention, "_grouped", lambda node: (variant,))
    length, keys = 300, 528
    builder = GraphBuilder()
    q = builder.input(float16, (1, 2, length, 64))
    k, v = (builder.input(float16, (1, 1, keys, 64)) for _ in range(2))
    mask = builder.input(as_dtype("bool"), (1, 1, length, keys))
    builder.apply(op_named("attention"), q, k, v, mask, causal=False, scale=None, fill=fill)
    graph = builder.finish(builder.wrap(builder.graph.nodes[-1].output))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(x.type.shape).astype(np.float16) for x in graph.inputs[:3]]
    seen = np.tril(np.ones((length, keys), bool))
    seen[128:256] = False  # a block of its own
    seen[5, 140] = True
    arrays.append(seen[None, None])
    program = program_of(graph)
    (theirs,) = run(graph, arrays)
    if fill is None:
        arrays[2][:, :, 384:] = np.nan  # which no step may take
    (ours,) = run_emulated(program, arrays, fall_back=False)
    np.testing.assert_allclose(ours, theirs, atol=4e-3 * np.abs(theirs).max())
    assert (not ours[:, :, 128:256].any()) == (fill is None)


@pytest.mark.parametrize(
    "variant", ["wgmma128x128", pytest.param("wgmma256x64", marks=pytest.mark.slow)]
)
def test_hostile_values_in_attention_by_warpgroups(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN makes its own query NaN, an infinite score too; who sees no key gets 0."""
    monkeypatch.setattr(cuda_attention, "_grouped", lambda node: (variant,))
    builder = GraphBuilder()
    q = builder.input(float16, (2, 1, 70, 64))
    k, v = (builder.input(float16, (2, 1, 130, 64)) for _ in range(2))
    mask = builder.input(float16, (2, 1, 1, 130))
    builder.apply(op_named("attention"), q, k, v, mask, causal=False, scale=None, fill=None)
    graph = builder.finish(builder.wrap(builder.graph.nodes[-1].output))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(x.type.shape).astype(np.float16) for x in graph.inputs]
    arrays[0][0, 0, 3, 7] = np.nan
    arrays[1][0, 0, 5, 0] = np.inf
    arrays[3][0, ..., 9], arrays[3][0, ..., 20:], arrays[3][1] = -np.inf, 60000, -np.inf
    (ours,) = run_emulated(program_of(graph), arrays, fall_back=False)
    with np.errstate(all="ignore"):
        (theirs,) = run(graph, arrays)
    lost = np.isnan(theirs)
    assert 0 < lost[0].sum() < lost[0].size
    assert lost[0, 0, 3].all()
    np.testing.assert_array_equal(np.isnan(ours), lost)
    np.testing.assert_array_equal(ours[1], 0)
    np.testing.assert_allclose(ours[~lost], theirs[~lost], atol=4e-3 * np.abs(theirs[~lost]).max())


@pytest.mark.parametrize(
    ("variant", "queries", "dtype"),
    [
        ("wgmma128x128", 1, "float32"),
        ("wgmma128x128", 70, "bfloat16"),
        ("flash64", 1, "bfloat16"),
        ("flash64", 70, "float32"),
        ("rows", 1, "float32"),
    ],
)
def test_the_lowest_number_hides_no_key(
    variant: str, queries: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query whose every key has it sees all of them alike, as softmax has it; -inf hides a key.
    So does a lowest number beside others."""
    monkeypatch.setattr(cuda_attention, "_grouped", lambda node: ())
    monkeypatch.setattr(cuda_attention, "_variants", lambda node, clusters: (variant,))
    builder = GraphBuilder()
    q, k, v = (builder.input(as_dtype("bfloat16"), (3, 1, n, 64)) for n in (70, 130, 130))
    mask = builder.input(as_dtype(dtype), (3, 1, queries, 130))
    builder.apply(op_named("attention"), q, k, v, mask, causal=False, scale=None, fill=None)
    graph = builder.finish(builder.wrap(builder.graph.nodes[-1].output))
    random = np.random.default_rng(0)
    kinds = [x.type.dtype for x in graph.inputs]
    arrays = [random.standard_normal(x.type.shape).astype(np.float32) for x in graph.inputs]
    lowest = {"float32": -3.4028235e38, "bfloat16": -3.3895314e38}[dtype]
    arrays[3][0], arrays[3][1, ..., :100], arrays[3][2] = lowest, lowest, -np.inf
    arrays[3][0, ..., 0] = -np.inf
    given = [to_storage(a, kind) for a, kind in zip(arrays, kinds, strict=True)]
    (made,) = run_emulated(program_of(graph), given, fall_back=False)
    ours = np.asarray(from_storage(made, kinds[0]), np.float32)
    values = np.asarray(from_storage(given[2], kinds[0]), np.float32)
    mean = np.broadcast_to(values[0, 0, 1:].mean(0), (70, 64))
    np.testing.assert_allclose(ours[0, 0], mean, atol=2e-3)
    with np.errstate(all="ignore"):
        (theirs,) = run(graph, given)
    wanted = np.asarray(from_storage(theirs, kinds[0]), np.float32)
    np.testing.assert_allclose(ours, wanted, atol=2e-2)
    np.testing.assert_array_equal(ours[2], 0)


@pytest.mark.parametrize(
    ("groups", "channels", "tile"),
    [
        (1, 8, "mma64x32x64"),
        (1, 6, "mma64x32x64"),
        (1, 64, "tma64x32x64_by2"),
        pytest.param(1, 3, "wgmma64x32x64", marks=pytest.mark.slow),
        pytest.param(1, 128, "tma128x128x64_by2", marks=pytest.mark.slow),
        pytest.param(2, 8, "mma64x32x64", marks=pytest.mark.slow),
        pytest.param(2, 6, "mma64x32x64", marks=pytest.mark.slow),
        (4, 4, "mma64x32x64"),  # groups of four filters: their results are not aligned to 16 bytes
    ],
)
def test_convolutions_are_products(
    groups: int, channels: int, tile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = GemmVariant(TILES[tile])
    monkeypatch.setattr(cuda_conv, "variants", lambda *sizes: [variant])
    builder = GraphBuilder()
    x = builder.input(float16, (2, channels * groups, 9, 11))
    shape = (16, channels, 3, 3)
    if variant.tile.kind != MMA:
        w = builder.constant(np.random.default_rng(1).standard_normal(shape).astype(np.float16))
    else:
        w = builder.input(float16, shape)
    few = channels < 4  # whose windows are runs where the stride is even
    stride, dilation = ((1, 2), (2, 1)) if few else ((2, 1), (1, 2))
    attrs = {"stride": stride, "padding": (1, 0, 1, 2), "dilation": dilation, "groups": groups}
    out = x.apply("conv", w, **attrs).apply("relu")
    _check(builder.finish(out), 3e-3)


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "vit": vit, "resnet block": resnet_block}


@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=pytest.mark.slow) for n in sorted(MODELS))]
)
def test_models_equal_the_reference(name: str) -> None:
    graph = MODELS[name]()
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(v.type.shape).astype(v.type.dtype.carrier)
        if v.type.dtype.is_float
        else random.integers(0, 8, v.type.shape).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]
    program = program_of(graph, over_graph=True)
    ours = run_emulated(program, arrays, fall_back=False)
    for mine, theirs in zip(ours, run(graph, arrays), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-4 * np.abs(theirs).max())


# -------------------------------------------------------------------------- gradients of training
_TRAINED = [
    (70, 64, "bfloat16", True, None),
    (130, 24, "float16", True, "float16"),
    (75, 40, "float16", False, "bool"),
    pytest.param(9, 5, "float16", True, None, marks=pytest.mark.slow),
    pytest.param(200, 128, "float16", True, None, marks=pytest.mark.slow),
    pytest.param(129, 64, "bfloat16", False, "bfloat16", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("length", "dim", "dtype", "causal", "mask"), _TRAINED)
def test_gradients_of_attention(
    length: int, dim: int, dtype: str, causal: bool, mask: str | None
) -> None:
    """q, k and v lie in one tensor, as a projection leaves them, and the gradient of the result as
    the next one does; the last queries and keys end inside a tile, one query sees no key."""
    kind, random = as_dtype(dtype), np.random.default_rng(0)
    builder = GraphBuilder()
    packed = builder.input(kind, (2, length, 3, 2, dim))
    parts = packed.apply("split", sizes=[1, 1, 1], axis=2)
    rows = [x.apply("reshape", shape=(2, length, 2, dim)) for x in parts]
    rows += [builder.input(kind, (2, length, 2, dim)) for _ in range(2)]
    q, k, v, g, y = (x.apply("permute", axes=(0, 2, 1, 3)) for x in rows)
    shape = (1, 2, length, length)
    rest = [builder.input(as_dtype(mask), shape)] if mask is not None else []
    out = g.apply("attention_grad", q, k, v, y, *rest, causal=causal, scale=0.2)
    graph = builder.finish(out.apply("reshape", shape=(2 * length, 6 * dim)))

    def rounded(x: np.ndarray) -> np.ndarray:
        return from_storage(to_storage(x.astype(np.float32), kind), kind)

    arrays = [rounded(random.standard_normal(v.type.shape)) for v in graph.inputs[:2]]
    masks = []
    if mask == "bool":
        masks = [random.integers(0, 3, shape) > 0]
        masks[0][:, :, 3] = False
    elif mask is not None:
        masks = [rounded(random.standard_normal(shape))]
    whole = arrays[0].transpose(2, 0, 3, 1, 4)
    result = op_named("attention").ref(*whole, *masks, causal=causal, scale=0.2, fill=None)
    arrays += [rounded(result.transpose(0, 2, 1, 3)), *masks]
    program = program_of(graph)
    assert "attention_grad" in {t.routine for kernel in program.kernels for t in kernel.tiles}
    (ours,) = run_emulated(program, arrays, fall_back=False)
    (theirs,) = run(graph, [a.astype(np.float64) if a.dtype != bool else a for a in arrays])
    error = np.abs(np.asarray(ours, np.float64) - theirs).max() / np.abs(theirs).max()
    assert error < (8e-3 if dtype == "bfloat16" else 1e-3)


def test_hostile_values_in_gradients_of_attention() -> None:
    """A NaN in one head stays in it, and what comes before a query's keys is not reached by it."""
    builder = GraphBuilder()
    g, q, k, v, y = (builder.input(float16, (1, 2, 80, 16)) for _ in range(5))
    graph = builder.finish(g.apply("attention_grad", q, k, v, y, causal=True, scale=None))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((1, 2, 80, 16)).astype(np.float16) for _ in range(5)]
    arrays[0][0, 0, 70, 3] = np.nan
    arrays[1][0, 0, 75, 2] = np.nan
    (ours,) = run_emulated(program_of(graph), arrays, fall_back=False)
    with np.errstate(all="ignore"):
        (theirs,) = run(graph, arrays)
    lost = np.isnan(ours)
    assert not (lost & ~np.isnan(theirs)).any()
    assert lost[0, [70, 75], 0, 0].all(), "gradients of both queries"
    assert lost[0, :76, 1, 0].all(), "and of the keys that they see"
    assert not lost[0, :, :, 1].any(), "not of the other head"
    assert not lost[0, :70, 0, 0].any(), "nor of queries before"


@pytest.mark.parametrize(("rows", "columns"), [(300, 48), (2, 1000), (37, 33)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_of_norm_weights(rows: int, columns: int, dtype: str) -> None:
    builder = GraphBuilder()
    g, x = (builder.input(as_dtype(dtype), (rows, columns)) for _ in range(2))
    graph = builder.finish(*g.apply("layer_norm_weight_grad", x, axis=-1, eps=1e-5))
    program = _check(graph, 1e-5 if dtype == "float32" else 1e-3)
    assert "layer_norm_weight_grad" in {t.routine for k in program.kernels for t in k.tiles}
