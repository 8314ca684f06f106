"""Covariances and correlations are captured in one graph, and are PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh


class Spread(nn.Module):
    def forward(self, x: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.cov(x), x.cov(correction=0), torch.corrcoef(x), row.cov(), row.corrcoef(),
            torch.cov(x[:1]), torch.cov(x.T, correction=2),
        ]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_they_are_those_of_pytorch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.randn(5, 9) * 10).to(dtype)
    module = gh.compile(Spread(), x, x[0])
    assert module.graph.nodes, "one graph"
    for found, wanted in zip(module(x, x[0]), Spread()(x, x[0]), strict=True):
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted)


@pytest.mark.filterwarnings("ignore:cov:UserWarning")
@pytest.mark.filterwarnings("ignore::glasshouse.errors.InParts")
@pytest.mark.filterwarnings("ignore::glasshouse.errors.NotCompiled")
def test_too_few_numbers_give_what_they_do() -> None:
    """Left to PyTorch, which warns."""

    class One(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cov(x)

    x = torch.randn(3, 1)
    torch.testing.assert_close(gh.compile(One(), x)(x), One()(x), equal_nan=True)
