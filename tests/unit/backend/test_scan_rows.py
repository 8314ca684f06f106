"""Scans along rows: one row, rows in fours and those left over, runs of extremes in which nothing
changes, NaN, ties, both zeros and infinities, against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh

Results = list[torch.Tensor]


class Scans(nn.Module):
    def forward(self, x: torch.Tensor) -> Results:
        exact = [*x.cummax(-1), *x.cummin(-1), *x.flip(-1).cummax(-1)]
        if not x.dtype.is_floating_point:
            return [*exact, x.cumsum(-1), x.cumprod(-1)]
        return [*exact, x.cumsum(-1), (x / 8).cumprod(-1), x.logcumsumexp(-1)]


def rows(count: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    """Random, rising, falling, all equal, with special numbers, and with ties."""
    torch.manual_seed(count)
    x = torch.randn(6, n)
    x[1], x[2], x[3] = torch.linspace(-2, 2, n), torch.linspace(2, -2, n), 0.5
    x[5] = x[5].round()
    if dtype.is_floating_point:
        inf, nan = float("inf"), float("nan")
        special = torch.tensor([0.0, -0.0, inf, -inf, nan, 1.0])
        x[4] = special[torch.arange(n) // 40 % 6]
        x[4, :44] = torch.tensor([0.0, -0.0] * 22)[:n]
    return x.roll(1, 0).repeat(2, 1)[:count].to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_rows_as_pytorch(dtype: torch.dtype) -> None:
    for count, n in ((1, 300), (7, 77), (12, 1)):
        x = rows(count, n, dtype)
        module = gh.compile(Scans(), x, progress=False)
        for ours, theirs in zip(module(x), Scans()(x), strict=True):
            assert ours.dtype == theirs.dtype
            if ours.dtype.is_floating_point:
                torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-5, atol=1e-5)
            else:
                assert torch.equal(ours, theirs)
