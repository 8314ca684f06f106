"""Layer norms between products of few rows: which graphs lose their kernels, and the kernels that
are left in the emulator against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda.target import cuda_target
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import DType, bfloat16, float16
from glasshouse.lower.program import Program
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize

WIDE, _ROWS = 256, 64


class _Layers:
    """Layers of an encoder without its attention: a product with a residual, a norm, two products
    with a residual, a norm."""

    def __init__(self, dtype: DType = float16, rows: int = 64, wide: int = WIDE) -> None:
        self.random = np.random.default_rng(0)
        self.builder = GraphBuilder()
        self.dtype, self.wide = dtype, wide
        self.x = self.builder.input(dtype, (1, rows, wide))

    def constant(self, data: Any) -> Any:
        return self.builder.wrap(self.builder.constant(np.asarray(data, np.float32), self.dtype))

    def linear(self, x: Any, columns: int) -> Any:
        depth = int(x.shape[-1])
        weight = self.constant(self.random.standard_normal((columns, depth)) * depth**-0.5)
        bias = self.constant(self.random.standard_normal(columns) * 0.1)
        return x.apply("matmul", weight, transpose_y=True) + bias

    def norm(self, x: Any) -> Any:
        scales = self.random.uniform(-2, 2, self.wide)
        shifts = self.random.standard_normal(self.wide)
        return x.apply("layer_norm", self.constant(scales), self.constant(shifts), eps=1e-5)

    def layer(self, x: Any, swapped: bool = False) -> Any:
        seen = self.linear(x.apply("tanh"), self.wide)
        x = self.norm(seen + x if swapped else x + seen)
        return self.norm(x + self.linear(self.linear(x, 2 * self.wide).apply("gelu"), self.wide))

    def finish(self, out: Any) -> Graph:
        return self.builder.finish(out)


def _ops(graph: Graph, arch: str = "sm_90") -> list[str]:
    ctx = PassContext()
    ctx.target = cuda_target(f"cuda:{arch}", arch)
    made = optimize(graph.copy(), ctx)
    bodies = [n.attrs["body"].nodes if n.op.name == "fused" else [n] for n in made.nodes]
    return [n.op.name for nodes in bodies for n in nodes]


def _two_layers(dtype: DType = float16, **sizes: int) -> Graph:
    """With one product before, so that the first rows are not an input."""
    layers = _Layers(dtype, **sizes)
    x = layers.layer(layers.x)
    seen = layers.linear(layers.linear(x, 64).apply("tanh"), layers.wide)
    x = layers.norm(seen + x)
    return layers.finish(layers.norm(x + layers.linear(layers.linear(x, 64), layers.wide)))


def _given(graph: Graph, seed: int = 1) -> list[Any]:
    random = np.random.default_rng(seed)
    return [
        random.standard_normal([int(d) for d in v.type.shape]).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]


def _program(graph: Graph) -> Program:
    program = program_of(graph, over_graph=True)
    routines = {t.routine for k in program.kernels for t in k.tiles}
    assert {"product_and_parts", "normed_product"} <= routines
    return program


@pytest.mark.parametrize(("dtype", "tolerance"), [(float16, 4e-3), (bfloat16, 3e-2)], ids=str)
def test_norms_between_products(dtype: DType, tolerance: float) -> None:
    graph = _two_layers(dtype)
    given = _given(graph)
    (mine,), (theirs,) = run_emulated(_program(graph), given, fall_back=False), run(graph, given)
    exact = np.asarray(theirs, np.float64)
    assert np.abs(np.asarray(mine, np.float64) - exact).max() <= tolerance * np.abs(exact).max()
    named = _ops(graph)
    assert named.count("layer_norm") == 1  # the result's
    assert (named.count("product_and_parts"), named.count("normed_product")) == (4, 3)


def test_hostile_rows() -> None:
    """Constant rows have their shift, as far as float32 sums go; rows far from 0 lose no more than
    their own rounding; NaN and infinities stay in their rows."""
    layers = _Layers()
    small = np.zeros((WIDE, WIDE))  # so that rows before the norm are those given
    small[0, 0] = 2.0**-14
    weight, bias = layers.constant(small), layers.constant(small[0])
    sums = layers.x + (layers.x.apply("matmul", weight, transpose_y=True) + bias)
    graph = layers.finish(layers.linear(layers.norm(sums), 64))
    given = layers.random.standard_normal((1, _ROWS, WIDE)).astype(np.float16)
    given[0, 1], given[0, 2], given[0, 3] = 0, 8, -0.1
    given[0, 4] = given[0, 4] * 4 + 1000
    given[0, 5] *= np.float16(1e-3)
    given[0, 6, :32] += 3000  # the first part far from all others
    given[0, 7, 9], given[0, 8, 200] = np.nan, np.inf
    with np.errstate(all="ignore"):
        (mine,), (theirs,) = (
            run_emulated(_program(graph), [given], fall_back=False),
            run(graph, [given]),
        )
    lost = np.isnan(theirs).any(-1)[0]
    assert lost.nonzero()[0].tolist() == [7, 8]
    np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs))
    apart = np.abs(np.float64(mine) - np.float64(theirs))[0, ~lost].max(-1)
    assert apart.max() <= 4e-3 * np.abs(theirs[0, ~lost]).max(), apart


def test_a_norm_that_others_read_keeps_its_kernel() -> None:
    layers = _Layers()
    x = layers.norm(layers.x + layers.linear(layers.x, WIDE))
    graph = layers.finish(layers.linear(x, 64) + layers.linear(x.apply("exp"), 64))
    assert "layer_norm" in _ops(graph)
    assert "normed_product" not in _ops(graph)


@pytest.mark.parametrize(
    ("first", "others", "fits"),
    [(1.0, 1.0, True), (0.0, 1.0, True), (2.0**7, 1.0, False), (np.inf, 1.0, False),
     (np.nan, 1.0, False), (2.0**-8, 2.0**-8, False)],
)  # fmt: skip
def test_scales_that_go_into_weights(first: float, others: float, fits: bool) -> None:
    layers = _Layers()
    scales = np.full(WIDE, others)
    scales[0] = first
    rows = layers.x + layers.linear(layers.x, WIDE)
    shifts = layers.constant(np.zeros(WIDE))
    normed = rows.apply("layer_norm", layers.constant(scales), shifts)
    named = _ops(layers.finish(layers.linear(normed, 64)))
    assert ("normed_product" in named, "layer_norm" in named) == (fits, not fits)


@pytest.mark.parametrize(
    ("sizes", "arch"),
    [({"rows": 192}, "sm_90"), ({"rows": 60}, "sm_90"), ({"wide": 320}, "sm_90"), ({}, "sm_80")],
    ids=["many rows", "rows that no tile divides", "width", "another chip"],
)
def test_where_there_is_no_kernel(sizes: dict[str, int], arch: str) -> None:
    named = _ops(_two_layers(**sizes), arch)
    assert named.count("layer_norm") == 4
    assert not {"product_and_parts", "normed_product"} & set(named)


def test_what_a_rewrite_stands_for() -> None:
    """The norm is among the origins of both kernels."""
    ctx = PassContext()
    ctx.target = cuda_target("cuda:sm_90", "sm_90")
    graph = _two_layers()
    norms = [n.id for n in graph.nodes if n.op.name == "layer_norm"]
    made = optimize(graph.copy(), ctx)
    inside = [n for f in made.nodes if f.op.name == "fused" for n in f.attrs["body"].nodes]
    for name, count in (("product_and_parts", 4), ("normed_product", 3)):
        found = [n for n in [*made.nodes, *inside] if n.op.name == name]
        assert len(found) == count
        assert all(set(norms) & set(n.origin.replaces) for n in found)


def test_weights_that_were_folded_cannot_be_set() -> None:
    """Scale and shift of a norm are in weights: no part of the model may go on with old ones."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out, self.up, self.down = (
                nn.Linear(WIDE, WIDE),
                nn.Linear(WIDE, 64),
                nn.Linear(64, WIDE),
            )
            self.norm, self.last = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(x + self.out(x))
            made: torch.Tensor = self.last(x + self.down(self.up(x)))
            return made

    model = Layer().half().eval()
    x = torch.randn(64, WIDE).half()
    module = gh.compile(model, x, target="cuda", arch="sm_90", progress=False)
    assert any("normedproduct" in s.kernel.name for s in module.program.steps)
    gone = {"norm.weight", "norm.bias", "up.weight"}
    assert set(model.state_dict()) - set(module.constant_names()) == gone
    model.last = model.norm  # tied: another norm reads its constants
    module = gh.compile(model, x, target="cuda", arch="sm_90", progress=False)
    assert not any("normedproduct" in s.kernel.name for s in module.program.steps)
