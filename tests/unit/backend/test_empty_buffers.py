"""Kernels that go on though a buffer holds nothing in this run: sizes that data decide may be 0."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import glasshouse as gh
from fake_cuda import fake_cuda


class ChosenRows(nn.Module):
    """Rows of a concatenation whose first piece may be empty."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x[x[:, 0] > 0], y])[torch.tensor([0, 1])] + 1


class MaskedWrite(nn.Module):
    """As many new values as a mask says."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = x.clone()
        x[x > 0] = x.flip(0)[x > 0]
        return x


@pytest.mark.parametrize("target", ["cpu", "interp", "cuda"])
@pytest.mark.parametrize("model", [ChosenRows(), MaskedWrite()], ids=lambda m: type(m).__name__)
def test_nothing_is_read_where_nothing_lies(
    model: nn.Module, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(6, 8), torch.randn(4, 8)
    with fake_cuda(monkeypatch):
        module = gh.compile(model, x, y, target=target, progress=False)
        for rows in (x, -x.abs(), x.abs(), -x.abs()):
            assert torch.equal(module(rows, y), model(rows, y))
