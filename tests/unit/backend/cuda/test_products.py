"""Products of one value with several weights: the kernels in the emulator against the reference,
and which graphs become them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.base import target_named
from glasshouse.backend.cuda import products as cuda_products
from glasshouse.backend.cuda.target import cuda_target
from glasshouse.backend.cuda.tiles import GemmVariant, variant_named
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dim import symbol
from glasshouse.ir.dtype import bfloat16, float16
from glasshouse.lower.program import Program
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize


def _weights(builder: GraphBuilder, random: Any, depth: int, *columns: int) -> list[Any]:
    made = [random.standard_normal((n, depth)) * depth**-0.5 for n in columns]
    return [builder.wrap(builder.constant(w, float16)) for w in made]


def _check(graph: Graph, tolerance: float = 4e-3) -> Program:
    random = np.random.default_rng(1)
    arrays = [
        random.standard_normal([int(d) for d in v.type.shape]).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]
    program = program_of(graph)
    for mine, theirs in zip(
        run_emulated(program, arrays, fall_back=False), run(graph, arrays), strict=True
    ):
        exact = np.asarray(theirs, np.float64)
        error = np.abs(np.asarray(mine, np.float64) - exact).max()
        assert error <= tolerance * np.abs(exact).max()
    return program


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("gate", ["", "silu", "gelu"])
@pytest.mark.parametrize("eps", [None, 1e-5])
def test_few_rows(rows: int, gate: str, eps: float | None) -> None:
    """Parts that end anywhere; a residual behind them."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    depth, columns = 328, (40, 40) if gate else (24, 9, 40)
    x = builder.input(float16, (rows, depth))
    scale = builder.wrap(builder.constant(random.uniform(0.5, 2, depth), float16))
    given = [*([] if eps is None else [scale]), *_weights(builder, random, depth, *columns)]
    out = x.apply("products", *given, gate=gate, eps=eps)
    program = _check(builder.finish(out + builder.input(float16, out.shape)))
    assert [t.routine for k in program.kernels for t in k.tiles] == ["products"]


@pytest.mark.parametrize("gate", ["", "silu"])
@pytest.mark.parametrize(
    "name",
    ["tma64x64x64_by2", "turns128x128x64", pytest.param("tma64x64x64_join2", id="shared depth")],
)
def test_many_rows(name: str, gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = variant_named(name)
    if gate and variant.splits > 1:
        assert name not in cuda_products._fetched(128, [256, 256], 512, gate)
        return

    def only(*given: Any) -> list[GemmVariant]:
        assert given[-1](variant), "a box lies in one weight"
        return [variant]

    monkeypatch.setattr(cuda_products, "variants", only)
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    depth, wide = 2 * variant.splits * 64 + 8, variant.tile.n
    columns = (wide, wide) if gate else (wide + 64, 64, wide - 32)  # tiles over two weights
    x = builder.input(float16, (variant.tile.m + 6, depth))
    out = x.apply("products", *_weights(builder, random, depth, *columns), gate=gate)
    program = _check(builder.finish(out))
    assert program.kernels[0].tiles[0].variant == name


def test_rows_whose_number_is_not_known() -> None:
    """One kernel for all of them; the norm is not in it."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    x = builder.input(float16, (symbol("n", 1, 300), 72))
    out = x.apply("products", *_weights(builder, random, 72, 64, 64), gate="silu")
    graph = builder.finish(out, x.apply("products", *_weights(builder, random, 72, 64, 128)))
    program = program_of(graph)
    for rows in (1, 70):
        given = [random.standard_normal((rows, 72)).astype(np.float16)]
        for mine, theirs in zip(
            run_emulated(program, given, fall_back=False), run(graph, given), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, atol=4e-3 * np.abs(theirs).max())


def test_hostile_values_in_few_rows() -> None:
    """A depth that no run of lanes divides: what lies behind it is not multiplied by 0; NaN stays
    in its row; a row of tiny numbers has a norm."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    x = builder.input(float16, (3, 264))
    weights = random.standard_normal((64, 264)).astype(np.float16)
    weights[0, 0], weights[1, 263] = np.inf, -np.inf
    scale = builder.wrap(builder.constant(np.ones(264), float16))
    both = [builder.wrap(builder.constant(w, float16)) for w in (weights, weights[::-1])]
    graph = builder.finish(x.apply("products", scale, *both, eps=1e-6), x.apply("products", *both))
    given = random.standard_normal((3, 264)).astype(np.float16)
    given[1, 5], given[2] = np.nan, 6e-8
    ours = run_emulated(program_of(graph), [given], fall_back=False)
    with np.errstate(all="ignore"):
        theirs = run(graph, [given])
    for mine, exact in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(exact))
        np.testing.assert_array_equal(np.isinf(mine), np.isinf(exact))
        fine = np.isfinite(exact)
        assert fine[0].sum() == 124  # two columns of each weight are not
        np.testing.assert_allclose(mine[fine], exact[fine], atol=0.02 * np.abs(exact[fine]).max())


def test_a_box_that_would_lie_in_two_weights_is_not_proposed() -> None:
    assert cuda_products._fetched(512, [192, 64], 2048, "")
    assert all("x32x" in name for name in cuda_products._fetched(512, [96, 64], 2048, ""))
    assert not cuda_products._fetched(512, [72, 64], 2048, "")


# ------------------------------------------------------------------------------------ the rewrite
def _layer(rows: int, wide: int = 2048, arch: str = "sm_90") -> tuple[Graph, Graph]:
    """Norm, queries, keys and values; norm, gate and what it lets through: before and after."""
    builder = GraphBuilder()
    shared = np.random.default_rng(0).standard_normal((wide, wide)).astype(np.float32) * wide**-0.5

    def linear(x: Any, columns: int) -> Any:
        weight = builder.wrap(builder.constant(shared[:columns], bfloat16))
        return x.apply("matmul", weight, transpose_y=True)

    def norm(x: Any) -> Any:
        scale = builder.wrap(builder.constant(np.ones(wide), bfloat16))
        return x.apply("rms_norm", scale, eps=1e-5)

    x = builder.input(bfloat16, (1, rows, wide))
    y = norm(x)
    q, k, v = linear(y, wide), linear(y, wide // 4), linear(y, wide // 4)
    y = norm(x + q)
    graph = builder.finish(linear(y, wide).apply("silu") * linear(y, wide), k.apply("sum"), v)
    ctx = PassContext()
    ctx.target = cuda_target(f"cuda:{arch}", arch) if arch else target_named("cpu")
    return graph, optimize(graph, ctx)


def _names(graph: Graph) -> list[tuple[int, str, bool]]:
    """Of products: weights, gate, whether the norm is in them."""
    nodes = [n for g in graph.nodes for n in getattr(g.attrs.get("body"), "nodes", [g])]
    return [
        (len(n.inputs) - 1, n.attrs["gate"], n.attrs["eps"] is not None)
        for n in nodes
        if n.op.name == "products"
    ]


def test_products_of_one_value_are_merged() -> None:
    before, after = _layer(512)
    assert _names(after) == [(3, "", False), (2, "silu", False)]
    _, few = _layer(1)
    assert _names(few) == [(4, "", True), (3, "silu", True)]
    x = np.random.default_rng(3).standard_normal((1, 1, 2048)).astype(np.float32)
    before, after = _layer(1)
    for mine, theirs in zip(run(after, [x]), run(before, [x]), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=0.03 * np.abs(theirs).max())


def test_targets_without_such_kernels_keep_their_products() -> None:
    assert _names(_layer(512, arch="")[1]) == []
    assert _names(_layer(512, arch="sm_80")[1]) == []
    assert _names(_layer(1, arch="sm_80")[1]) == [(4, "", True), (3, "silu", True)]
