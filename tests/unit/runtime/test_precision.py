"""Products in bfloat16 where allowed: float32 outside, small error, every way to convolve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.ir.dtype import bfloat16
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.program import Call, Packed
from glasshouse.numpy_ref.executor import run as reference
from glasshouse.passes import PassContext
from glasshouse.runtime.compiler import compile_graph


class Photograph(nn.Module):
    """Three channels become 32 and stay; then two linear layers."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.conv = nn.Conv2d(32, 32, 3, padding=1)
        self.head = nn.Sequential(nn.Linear(32 * 100, 64), nn.GELU(), nn.Linear(64, 10))

    def forward(self, x: Any) -> Any:
        y = gh.relu(self.stem(x))
        y = gh.relu(self.conv(y) + y)
        return self.head(y.reshape(1, 3200))


@pytest.fixture(scope="module")
def graph() -> gh.Graph:
    gh.manual_seed(0)
    return gh.trace(Photograph(), gh.spec((1, 3, 10, 10)))


@pytest.fixture(scope="module")
def x() -> Any:
    return np.random.default_rng(0).standard_normal((1, 3, 10, 10), np.float32)


def error(got: Any, expected: Any) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def test_weights_and_what_flows_are_narrow_and_the_error_is_small(graph: gh.Graph, x: Any) -> None:
    module = gh.compile(graph, precision="bf16", tune=False)
    result = module(x)
    assert result.dtype == np.float32
    assert 1e-5 < error(result, reference(graph, [x])[0]) < 2e-2
    calls = [s for s in module.program.steps if isinstance(s, Call)]
    packed = [p for call in calls for p in call.inputs if isinstance(p, Packed)]
    assert [p.source.type.dtype.name for p in packed] == ["float32"] + ["bfloat16"] * 3
    between = [call.outputs[0].type.dtype for call in calls[:-1]]
    assert between == [bfloat16] * len(between)


def test_the_precision_holds_for_one_call(graph: gh.Graph, x: Any) -> None:
    with PassContext() as ctx:
        gh.compile(graph, precision="bfloat16", tune=False)
        assert ctx.precision == "float32"
        plain = gh.compile(graph, tune=False)
    assert error(plain(x), reference(graph, [x])[0]) < 1e-5
    assert not any(n.output.type.dtype is bfloat16 for n in plain.graph.nodes if n.op is CONSTANT)


@pytest.mark.parametrize(
    "precision, limit",
    [("bfloat16", 2e-2), pytest.param("float32", 1e-5, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("way", ["winograd2", "winograd4", "direct", "im2col"])
def test_every_way_to_convolve(
    graph: gh.Graph, x: Any, way: str, precision: str, limit: float
) -> None:
    optimized = gh.optimize(graph, PassContext(precision=precision))
    options = {"resolve_variant": {"measure": "none", "prefer": (way,)}}
    module = compile_graph(optimized, PassContext(options=options))
    assert way in [s.kernel.variant for s in module.program.steps if isinstance(s, Call)]
    assert error(module(x), reference(graph, [x])[0]) < limit
