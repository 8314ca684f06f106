"""Copies that swap axes are transposes of tiles, whatever the sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh

COPIES = [
    ((3, 11, 21), (0, 2, 1), torch.float32),  # tails on both sides
    ((2, 16, 9, 8), (0, 2, 3, 1), torch.int32),  # two axes behind one
    ((64, 300), (1, 0), torch.float32),  # threads share the columns
    ((8, 5, 9), (2, 1, 0), torch.float32),  # a loop between
    ((40, 3), (1, 0), torch.float32),  # too narrow for tiles
    ((37, 20), (1, 0), torch.bfloat16),  # two bytes, tails on both sides
    ((2, 16, 48), (0, 2, 1), torch.float16),
    ((16, 24), (1, 0), torch.float64),  # other widths go element by element
]


class _Copies(nn.Module):
    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [x.permute(*c[1]).contiguous() for x, c in zip(inputs, COPIES, strict=True)]


@pytest.mark.parametrize("threads", [1, 3])
def test_copies_that_swap_axes(threads: int) -> None:
    made = torch.Generator().manual_seed(0)
    inputs = [torch.randint(-99, 99, c[0], generator=made).to(c[2]) for c in COPIES]
    inputs[0].view(-1)[:2] = torch.tensor([float("nan"), float("-inf")])
    module = gh.compile(_Copies(), *inputs, progress=False, threads=threads)
    for got, wanted in zip(module(*inputs), _Copies()(*inputs), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
    assert sum("transpose2d" in text for text in module.source.kernels.values()) >= 6
