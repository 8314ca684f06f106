"""Sorting, the k largest and places of extremes by keys, against PyTorch: NaN, infinities, both
zeros, ties, every width of elements, lines side by side, few and many elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8]
SIZES = (1, 255, 256, 1501)
Results = list[torch.Tensor]


class Ordered(nn.Module):
    """All lines of all inputs, in order both ways, along the last axis and along the first."""

    def forward(self, *inputs: torch.Tensor) -> Results:
        out: Results = []
        for x in inputs:
            n = x.shape[-1]
            out += x.sort(stable=True, dim=-1)
            out += x.sort(stable=True, dim=-1, descending=True)
            out += x.T.contiguous().sort(stable=True, dim=0, descending=True)
            for k in {1, n // 9, n} - {0}:
                for largest in (True, False):
                    values, places = x.topk(k, -1, largest)
                    out += [values, x.gather(-1, places)]
            out += [
                x.argmax(-1),
                x.argmin(-1),
                x.T.contiguous().argmax(0),
                x.T.contiguous().argmin(0),
            ]
        return out


def lines(dtype: torch.dtype, n: int) -> torch.Tensor:
    """Random, with many ties, rising, falling, all equal, and full of special numbers."""
    torch.manual_seed(n)
    x = torch.randn(6, n) * 3
    x[1] = x[1].round()
    x[2], x[3], x[4] = torch.linspace(-9, 9, n), torch.linspace(9, -9, n), 2.0
    if not dtype.is_floating_point:
        x = (x * 5).round() + (10 if dtype is torch.uint8 else 0)
        if dtype is torch.int64:
            wide = x.clamp(-100, 100).to(dtype) << 40
            wide[5, : min(n, 3)] = torch.tensor([2**63 - 1, -(2**63), 0])[: min(n, 3)]
            return wide
        return x.clamp(0, 255).to(dtype)
    # Copies of bfloat16 in front of a sort round on the way, which flushes denormals.
    tiny = 1e-30 if dtype is torch.bfloat16 else 1e-40
    inf, nan = float("inf"), float("nan")
    special = torch.tensor([0.0, -0.0, inf, -inf, nan, tiny, -tiny, -nan])
    x[5] = special[torch.randint(0, len(special), (n,))]
    return x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_pytorch(dtype: torch.dtype) -> None:
    inputs = [lines(dtype, n) for n in SIZES]
    expected = Ordered()(*inputs)
    module = gh.compile(Ordered(), *inputs, progress=False)
    found = module(*inputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.double().numpy(), theirs.double().numpy())
