"""Sorting, the k largest and places of extremes by keys, against PyTorch: NaN, infinities, both
zeros, ties, every width of elements, lines side by side, few and many elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.errors import ExecutionError

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


class Ranked(nn.Module):
    """Single ranks of all lines: the first, the last, the middle, and one that each line names."""

    def forward(self, at: torch.Tensor, *inputs: torch.Tensor) -> Results:
        out: Results = []
        for x in inputs:
            n = x.shape[-1]
            turned = x.T.contiguous()
            for rank in {0, n // 2, n - 1}:
                out += [t.narrow(-1, rank, 1) for t in x.sort(stable=True)]
                out += [
                    t.narrow(0, rank, 1) for t in turned.sort(dim=0, descending=True, stable=True)
                ]
            out += [t.gather(-1, at % n) for t in x.sort(stable=True)]
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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ranks_are_those_of_a_stable_sort(dtype: torch.dtype) -> None:
    inputs = [torch.tensor([[3], [0], [77], [200], [8999], [63]])]
    inputs += [lines(dtype, n) for n in (63, 64, 9000)]
    module = gh.compile(Ranked(), *inputs, progress=False)
    made = [n.op.name for n in module.graph.nodes]
    # Of each of the long ones: three ranks both ways, and those that lines name.
    assert made.count("nth") == 2 * 7
    assert "sort" in made  # of 63 elements
    for ours, theirs in zip(module(*inputs), Ranked()(*inputs), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.double().numpy(), theirs.double().numpy())


def test_a_sort_that_is_read_otherwise_stays() -> None:
    class Read(nn.Module):
        def forward(self, x: torch.Tensor) -> Results:
            values, places = x.sort(-1)
            many = x.sort(0)[0]
            return [values.narrow(-1, 5, 1), places, many.narrow(0, 3, 3), x.sort(1)[0][::2]]

    x = torch.randn(80, 80)
    module = gh.compile(Read(), x, progress=False)
    assert "nth" not in [n.op.name for n in module.graph.nodes]
    for ours, theirs in zip(module(x), Read()(x), strict=True):
        assert torch.equal(ours, theirs)


def test_a_rank_outside_is_an_error() -> None:
    class Read(nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return x.sort(-1)[0].gather(-1, at)

    x, at = torch.randn(3, 100), torch.full((3, 1), 99)
    module = gh.compile(Read(), x, at, progress=False)
    assert torch.equal(module(x, at), x.amax(-1, keepdim=True))
    for wrong in (100, -1, 2**40):
        with pytest.raises(ExecutionError, match="index"):
            module(x, torch.full((3, 1), wrong))
