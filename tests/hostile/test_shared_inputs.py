"""One tensor given twice when a model is captured: calls may give two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import CaptureError


class Difference(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Any, y: Any) -> Any:
        return x * self.weight - 2 * y


class Writes(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        x.add_(1.0)
        return x - y


X, Y = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([4.0, 0.25, -3.0])


@pytest.mark.parametrize("shared", ["tensor", "array", "view", "parameter"])
def test_inputs_are_kept_apart(shared: str) -> None:
    model = Difference()
    first: Any = {"array": X.numpy(), "parameter": model.weight}.get(shared, X)
    second = first[:] if shared == "view" else first
    module = gh.compile(model, first, second)
    with torch.no_grad():
        torch.testing.assert_close(module(X, Y), model(X, Y))
        torch.testing.assert_close(module(X, X), model(X, X))


def test_training_on_its_own_input() -> None:
    """An autoencoder is captured with one tensor as input and target."""
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss = torch.nn.functional.mse_loss
    graph = gh.trace_training(model, loss, optimizer, X, X)
    found = gh.compile(graph)(X, Y)
    np.testing.assert_allclose(found, loss(model(X), Y).item(), rtol=1e-5)


def test_a_shared_tensor_that_is_written_is_refused() -> None:
    x = X.clone()
    with pytest.raises(CaptureError, match="given twice"):
        gh.compile(Writes(), x, x)
