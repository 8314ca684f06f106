"""Convolutions in groups of few channels, against PyTorch's: lanes of several groups and of one,
borders, steps, dilation, hostile values that stay in their group, gradients, sizes of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh

Case = tuple[int, int, int, tuple[int, int], dict[str, Any]]

CASES: list[Case] = [  # channels, outputs, groups, size, options
    (128, 128, 32, (9, 28), {"padding": 1}),  # ResNeXt: four groups to a vector of 16
    (16, 48, 16, (7, 11), {"padding": 1}),  # three outputs for each channel, which end anywhere
    (6, 4, 2, (5, 30), {"padding": 2, "dilation": 2}),  # fewer channels than lanes
    (40, 40, 20, (6, 9), {"stride": 2, "padding": 1}),  # the last vector is not full
    (96, 96, 4, (4, 13), {}),  # a group has more channels than a vector
    (64, 8, 8, (3, 5), {"kernel_size": (1, 3), "padding": (0, 1)}),  # many inputs, one output
    (36, 72, 12, (3, 3), {"kernel_size": 1}),
]


def _conv(channels: int, outputs: int, groups: int, options: dict[str, Any]) -> nn.Module:
    torch.manual_seed(groups)
    given: dict[str, Any] = {"kernel_size": 3, "groups": groups, **options}
    return nn.Sequential(nn.Conv2d(channels, outputs, **given), nn.ReLU())


_TYPES = [
    *((c, torch.float32) for c in CASES),
    (CASES[0], torch.bfloat16),
    (CASES[2], torch.float16),
]


@pytest.mark.parametrize(("case", "dtype"), _TYPES, ids=lambda c: str(c).partition(",")[0])
def test_as_pytorch(case: Case, dtype: torch.dtype) -> None:
    channels, outputs, groups, size, options = case
    model = _conv(channels, outputs, groups, options).eval().requires_grad_(False).to(dtype)
    x = torch.randn(2, channels, *size).to(dtype)
    module = gh.compile(model, x, progress=False)
    assert any("grouped2d" in text for text in module.source.kernels.values())
    found, expected = module(x).float(), model.float()(x.float())
    eps = 1e-5 if dtype is torch.float32 else 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(found, expected, rtol=eps, atol=eps * float(expected.abs().max()))


def test_hostile_values_stay_in_their_group() -> None:
    model = nn.Conv2d(32, 32, 3, padding=1, groups=8).requires_grad_(False)
    x = torch.randn(1, 32, 8, 20)
    x[0, 5, 3, 4], x[0, 17, 0, 0], x[0, 31, 7, 19] = float("nan"), float("inf"), -float("inf")
    found, expected = gh.compile(model, x, progress=False)(x), model(x)
    np.testing.assert_array_equal(found.isnan(), expected.isnan())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("case", CASES[1:5], ids=lambda c: str(c).partition(",")[0])
def test_gradients_are_pytorchs(case: Case) -> None:
    channels, outputs, groups, size, options = case
    model = _conv(channels, outputs, groups, options)
    x = torch.randn(2, channels, *size, requires_grad=True)
    wanted = [x, *model.parameters()]
    expected = torch.autograd.grad(model(x).pow(2).sum(), wanted)
    compiled = torch.compile(model, backend="glasshouse")
    for ours, theirs in zip(
        torch.autograd.grad(compiled(x).pow(2).sum(), wanted), expected, strict=True
    ):
        scale = float(theirs.abs().max())
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * scale)


def test_sizes_may_come_with_a_call() -> None:
    model = _conv(24, 24, 6, {"padding": 1}).eval().requires_grad_(False)
    batch, high = (torch.export.Dim(n, min=2, max=64) for n in "bh")
    x = torch.randn(3, 24, 10, 17)
    module = gh.compile(model, x, dynamic_shapes={"input": {0: batch, 2: high}}, progress=False)
    for shape in ((3, 24, 10, 17), (2, 24, 2, 17), (5, 24, 33, 17)):
        x = torch.randn(*shape)
        torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-5)
