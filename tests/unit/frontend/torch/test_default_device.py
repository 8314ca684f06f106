"""Tensors that we make ourselves lie where they are needed, whatever the default device is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import glasshouse as gh


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """A default device that has no memory: whoever forgets to name one is found out."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


class Strided(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (3, 4), (2, 1)) + 1


class Put(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = torch.as_strided(x, (3,), (3,)) * 2
        return torch.as_strided_scatter(x, part, (3,), (3,))


@pytest.mark.parametrize("model", [nn.ReLU(), Strided(), Put()], ids=lambda m: type(m).__name__)
def test_a_module_of_the_host_stays_there(elsewhere: None, model: nn.Module) -> None:
    x = torch.randn(9, device="cpu")
    module = gh.compile(model, x, progress=False)
    for _ in range(3):  # the first calls are checked, later ones go the quick way
        found = module(x)
        assert found.device.type == "cpu"
        torch.testing.assert_close(found, model(x))
