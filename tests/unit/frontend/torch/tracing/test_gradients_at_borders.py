"""Gradients where a function has a corner, or none: those that PyTorch chooses, and never NaN where
PyTorch has a number."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from frontend_torch import assert_same, outputs_of

X = torch.tensor([[1.0, 0, 2, 1], [0, 0, 1, 6]])
CASES = {
    "hardtanh": lambda x: F.hardtanh(x).sum(),
    "relu6": lambda x: F.relu6(x).sum(),
    "clamped by tensors": lambda x: x.clamp(torch.zeros(4), torch.ones(4)).sum(),
    "fmax": lambda x: torch.fmax(x[0], x[1]).sum(),
    "fmin": lambda x: torch.fmin(x[0], x[1]).sum(),
    "std of equals": lambda x: (x * 0).std(1).sum() + x.std(0)[1],
    "std in half floats": lambda x: (x * 0).half().std(1).float().sum(),
    "angle of nothing": lambda x: torch.atan2(x * 0, x).sum(),
    "power below 1": lambda x: torch.linalg.vector_norm(x, 0.5, dim=0).sum(),
    "median of equals": lambda x: x.median() * 3,
    "nanmedian of equals": lambda x: torch.where(x < 2, x, float("nan")).nanmedian() * 3,
    "x log y at nothing": lambda x: torch.xlogy(x, x.detach()).sum(),
    "probabilities of 0 and 1": lambda x: F.binary_cross_entropy(
        x.clamp(0, 1) * 1.0, torch.tensor([[1.0, 0, 1, 1], [0, 0, 1, 1]])
    ),
    "rows by how often": lambda x: (
        F.embedding(torch.tensor([0, 1, 1]), x, scale_grad_by_freq=True).square().sum()
    ),
    "singular values that are equal": lambda x: torch.linalg.matrix_norm(
        x[0, 0] * torch.eye(2), "nuc"
    ),
}


class Taken(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.x = nn.Parameter(X.clone())
        self.function = function

    def forward(self, zero):
        return self.function(self.x) + 0 * zero


@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch(name):
    model = Taken(CASES[name])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    given = [torch.tensor(0.0)]
    graph = gh.trace_training(model, None, optimizer, *given)
    state: dict = {}
    loss = outputs_of(graph, given, variables=state)[0]
    wanted = model(*given)
    wanted.backward()
    optimizer.step()
    assert_same(loss, wanted)
    assert_same(state["x"], model.x)
    assert model.x.isfinite().all()


def test_the_number_beside_nan():
    nan = float("nan")
    x, y = torch.tensor([1.0, nan, nan, 3, -0.0]), torch.tensor([nan, 2.0, nan, 1, 0.0])
    for function in (torch.fmax, torch.fmin):
        assert_same(outputs_of(gh.trace(_Of(function), x, y), [x, y])[0], function(x, y))


class _Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)
