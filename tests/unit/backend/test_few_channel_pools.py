"""Pools of images with few channels, whose lanes run over rows: borders, strides, element types."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import glasshouse as gh


class Pools(torch.nn.Module):
    """Every way to pool, with an op behind it that knows the channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = (
            F.avg_pool2d(x, 7, 1, 3),
            F.avg_pool2d(x, (3, 2), (2, 3), (1, 1), ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x, 5, 1, 2, count_include_pad=False),
            F.avg_pool2d(x, (1, 4), 1),
            F.max_pool2d(x, 3, 1, 1),
            F.max_pool2d(x, 2, 2),
            F.max_pool2d(x, 3, (1, 2), (1, 0), dilation=(1, 2)),
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        )
        return tuple(y * self.scale for y in made)


@pytest.mark.parametrize(
    ("channels", "dtype"),
    [(1, torch.float32), (3, torch.float32), (8, torch.float32), (2, torch.bfloat16)],
)
def test_pools_of_few_channels(channels: int, dtype: torch.dtype) -> None:
    torch.manual_seed(channels)
    model, x = Pools(channels).eval().to(dtype), torch.randn(2, channels, 13, 37).to(dtype)
    module = gh.compile(model, x, progress=False)
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    with torch.no_grad():
        for ours, theirs in zip(module(x), model(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_what_is_no_number_stays_where_it_was() -> None:
    model, x = Pools(1).eval(), torch.randn(1, 1, 9, 20)
    x[0, 0, 4, 7], x[0, 0, 0, 0], x[0, 0, 8, 19] = float("nan"), float("inf"), float("-inf")
    module = gh.compile(model, x, progress=False)
    with torch.no_grad():
        for ours, theirs in zip(module(x), model(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)
