"""The Gaussian loss is captured whole, and is PyTorch's for every form of its variances."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import glasshouse as gh
from frontend_torch import as_array, assert_same, outputs_of
from glasshouse.errors import InParts
from glasshouse.numpy_ref import run

X, WANTED = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))


class _Loss(nn.Module):
    def __init__(self, how: dict[str, Any]) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor, wanted: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        return functional.gaussian_nll_loss(x, wanted, spread, **self.how)


@pytest.mark.parametrize("shape", [(4, 5), (4,), (4, 1)], ids=["elements", "rows", "kept"])
@pytest.mark.parametrize(
    "how", [{}, {"full": True, "reduction": "sum"}, {"eps": 0.5, "reduction": "none"}], ids=str
)
def test_equals_pytorch(shape: tuple[int, ...], how: dict[str, Any]) -> None:
    given = (X, WANTED, torch.rand(shape, generator=torch.Generator().manual_seed(1)))
    model = _Loss(how)
    found = run(gh.trace(model, *given), [as_array(t) for t in given])[0]
    np.testing.assert_allclose(found, model(*given), rtol=1e-6)


class _Uncertain(nn.Module):
    """What predicts means and variances, some below the limit, and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        mean, spread = self.net(x).unbind(-1)
        return nn.GaussianNLLLoss(eps=1.0)(mean, wanted, spread.exp())


def test_a_step_of_training_is_captured_whole() -> None:
    torch.manual_seed(0)
    model, given = _Uncertain(), (X, WANTED[:, 0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step, state = gh.trace_training(model, None, optimizer, *given), {}
    for _ in range(2):
        (found,) = outputs_of(step, list(given), variables=state)
        optimizer.zero_grad()
        loss = model(*given)
        loss.backward()
        optimizer.step()
        assert_same(found, loss)
    for name, value in model.named_parameters():
        assert_same(state[name], value)


def test_what_no_formula_is_for_is_pytorchs_to_refuse() -> None:
    model = _Loss({})
    with pytest.warns(InParts):
        parts: Callable[..., Any] = gh.compile(model, X, WANTED, torch.ones(3), progress=False)
    with pytest.raises(ValueError, match="var is of incorrect size"):
        parts(X, WANTED, torch.ones(3))
