"""Much that is computed with what folds give: distances, bells, logs of sums, of odd sizes."""

from __future__ import annotations

import pytest
import torch

import glasshouse as gh
from hostile.functions import Of


def _bells(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.exp(-0.5 * (x[:, None] - y[None]).pow(2).sum(-1))


def _two_folds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    apart = x[:, None] - y[None]
    return torch.tanh(apart.sum(-1)) * torch.exp(-apart.abs().amax(-1))


def _mixed_types(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid((x[:, None] * y[None]).double().sum(-1)).float()


CASES = {
    "bells": _bells,
    "two folds": _two_folds,
    "mixed types": _mixed_types,
    "distances": lambda x, y: torch.cdist(x, y).exp(),
    "norms": lambda x, y: torch.log1p(x.norm(dim=-1)) + y.sum().tanh(),
}


@pytest.mark.parametrize("width", [1, 5, 37])
@pytest.mark.parametrize("case", list(CASES))
def test_equals_pytorch(case: str, width: int) -> None:
    torch.manual_seed(width)
    module = Of(CASES[case])
    x, y = torch.randn(7, width), torch.randn(35, width)
    x[2, 0] = float("nan")
    if case != "distances":  # PyTorch's own product of infinities gives NaN there
        y[33, width - 1] = float("inf")
    for given in ((x, y), (x.double(), y.double())):
        compiled = gh.compile(module, *given, progress=False)
        torch.testing.assert_close(
            torch.as_tensor(compiled(*given)), module(*given), equal_nan=True, rtol=3e-5, atol=3e-6
        )
