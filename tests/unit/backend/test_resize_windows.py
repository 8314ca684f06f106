"""Antialiased resizing against PyTorch's: sizes that do not divide, lines beside and behind each
other, special values that stay where they are seen, gradients, sizes given by a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import glasshouse as gh
from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph

SIZES = [(5, 5), (70, 131), (1, 40)]


class Smaller(torch.nn.Module):
    def __init__(self, mode: str, aligned: bool = False) -> None:
        super().__init__()
        self.mode, self.aligned = mode, aligned

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        how: dict[str, Any] = {"mode": self.mode, "antialias": True, "align_corners": self.aligned}
        sizes = [(3, 7), (1, 1), (50, 16)]
        return tuple(F.interpolate(x, size=s, **how) for s in sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_as_pytorch(mode: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 67, 40, 31).to(dtype)  # 134 images: lines in blocks of 64, and a rest
    model = Smaller(mode, aligned=dtype is torch.float64)
    found = gh.compile(model, x, progress=False)(x)
    # PyTorch has places in float32, of halves even the parts; ours are rounded once, at the end.
    wide = x.float() if dtype.itemsize == 2 else x
    eps = {torch.float64: 1e-6, torch.float32: 1e-4}.get(dtype, 2 * torch.finfo(dtype).eps)
    for ours, theirs in zip(found, model(wide), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.to(wide), theirs, rtol=0, atol=eps)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("op", ["resize", "resize_grad"])
def test_special_values_are_seen_by_their_windows_alone(
    op: str, mode: str, size: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5, *size)).astype("f")
    for value in (np.nan, np.inf, -np.inf, 1e-40):
        x[tuple(rng.integers(0, s) for s in x.shape)] = value
    builder = GraphBuilder()
    given = builder.input("float32", x.shape)
    wanted = [(5, 5), (9, 50), (35, 1)]
    graph = builder.finish(
        *(given.apply(op, size=s, mode=mode, antialias=True) for s in wanted)
    )  # fmt: skip
    with np.errstate(all="ignore"):
        expected = run(graph, [x])
    for ours, theirs in zip(compile_graph(graph)(x), expected, strict=True):
        # 9,000 elements for 25: 370 parts of either sign each, 25 units of 30 * 2**-24.
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=5e-5)


def test_the_gradient_is_pytorchs() -> None:
    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image = torch.nn.Parameter(torch.randn(2, 3, 19, 70))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            one = F.interpolate(self.image, size=(6, 9), mode="bilinear", antialias=True)
            two = F.interpolate(self.image, size=(6, 9), mode="bicubic", antialias=True)
            return (one * two * x).pow(2).sum()

    torch.manual_seed(1)
    model, x = Mean(), torch.randn(2, 3, 6, 9)
    compiled = torch.compile(model, backend="glasshouse")
    compiled(x).backward()
    ours = model.image.grad
    model.image.grad = None
    model(x).backward()
    torch.testing.assert_close(ours, model.image.grad, rtol=1e-4, atol=1e-4)


def test_sizes_may_come_with_a_call() -> None:
    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, size=(7, 5), mode="bilinear", antialias=True)

    batch, high = (torch.export.Dim(n, min=2, max=99) for n in "bh")
    x = torch.randn(3, 2, 40, 21)
    module = gh.compile(Half(), x, dynamic_shapes={"x": {0: batch, 2: high}}, progress=False)
    for shape in ((3, 2, 40, 21), (9, 2, 7, 21), (2, 2, 99, 21)):
        x = torch.randn(*shape)
        torch.testing.assert_close(module(x), Half()(x), rtol=0, atol=1e-4)
