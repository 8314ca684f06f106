"""Videos whose frames are pooled each on its own are batches of images, gradients too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu.pool import POOL, POOL_GRAD
from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph


class Pool(nn.Module):
    """A pool behind a convolution, so that its image has channels last."""

    def __init__(self, kind: str, channels: int, **window: Any) -> None:
        super().__init__()
        self.conv = nn.Conv3d(3, channels, 1)
        self.pool = {"max": F.max_pool3d, "mean": F.avg_pool3d}[kind]
        self.window = window

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.conv(x), **self.window)


CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("max", {"kernel_size": (1, 3, 3), "stride": (1, 2, 2)}, True),
    ("max", {"kernel_size": (1, 3, 2), "stride": (1, 2, 1), "padding": (0, 1, 0), "ceil_mode": True,
             "dilation": (3, 1, 2)}, True),
    ("mean", {"kernel_size": (1, 3, 3), "stride": (1, 2, 2), "padding": (0, 1, 1),
              "count_include_pad": False}, True),
    ("max", {"kernel_size": (2, 1, 1)}, False),
    ("max", {"kernel_size": (1, 3, 3), "stride": (2, 2, 2)}, False),
    ("mean", {"kernel_size": (3, 3, 1), "stride": 1, "padding": (1, 0, 0)}, False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "window", "flat"), CASES)
def test_pools_of_frames(kind: str, window: dict[str, Any], flat: bool) -> None:
    torch.manual_seed(0)
    model, x = Pool(kind, 21, **window), torch.randn(2, 3, 4, 9, 8)
    x[0, 0, 1, 2, 3], x[1, 1, 0, 0, 0] = float("nan"), float("-inf")
    module = gh.compile(model.eval(), x, progress=False)
    with torch.no_grad():
        expected = model(x)
    np.testing.assert_allclose(np.asarray(module(x)), expected.numpy(), rtol=1e-5, atol=1e-5)
    assert flat == any(t.routine == POOL for k in module.program.kernels for t in k.tiles)


@pytest.mark.parametrize(
    ("kind", "kernel", "stride", "flat"),
    [
        ("max", (1, 3, 3), (1, 2, 2), True),
        ("avg", (1, 2, 3), (1, 2, 1), True),
        ("max", (1, 2, 2), (2, 2, 2), False),
    ],
)
def test_gradients_of_pools_of_frames(
    kind: str, kernel: tuple[int, ...], stride: tuple[int, ...], flat: bool
) -> None:
    builder = GraphBuilder()
    x = np.random.default_rng(0).standard_normal((2, 5, 4, 9, 8), "f")
    pooled = builder.input("float32", x.shape).apply(f"{kind}_pool", kernel=kernel, stride=stride)
    g = np.random.default_rng(1).standard_normal(pooled.shape, "f")
    builder = GraphBuilder()
    inputs = [builder.input("float32", g.shape), builder.input("float32", x.shape)]
    if kind == "max":
        out = inputs[0].apply("max_pool_grad", inputs[1], kernel=kernel, stride=stride)
    else:
        out = inputs[0].apply("avg_pool_grad", kernel=kernel, stride=stride, size=x.shape[2:])
    graph = builder.finish(out)
    module = compile_graph(graph)
    (expected,) = run(graph, [g, x])
    np.testing.assert_allclose(np.asarray(module(g, x)), expected, rtol=1e-5, atol=1e-5)
    tiles = [t.routine for k in module.program.kernels for t in k.tiles]
    assert flat == (POOL_GRAD in tiles)
