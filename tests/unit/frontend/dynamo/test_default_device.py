"""Tensors that we make ourselves lie where they are needed, whatever the default device is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._dynamo.variables.torch import get_overridable_functions

import glasshouse as gh
from glasshouse.frontend.dynamo.default_device import asked_by_all_constructors


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


def test_dynamo_asks_it_for_whatever_makes_tensors(elsewhere: None) -> None:
    """PyTorch up to 2.11 did not know of these functions that they ask it."""
    known = get_overridable_functions()
    before = set(known)
    made: list[torch.fx.Node] = []
    forgotten = {torch.arange, torch.linspace}

    def seen(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        made.extend(n for n in graph.graph.nodes if n.target in forgotten)
        return graph.forward

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(3) * torch.linspace(0, 1, 3)

    try:
        known.difference_update(forgotten)
        asked_by_all_constructors()
        assert known >= forgotten
        assert torch.compile(model, backend=seen)(torch.ones(3)).device.type == "meta"
        assert [n.kwargs["device"].type for n in made] == ["meta", "meta"]
    finally:
        known.clear()
        known.update(before)
        torch._dynamo.reset()
