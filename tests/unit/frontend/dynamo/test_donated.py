"""Gradients of one call can be taken several times, whatever was asked for first."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glasshouse.frontend import dynamo


class Recurrent(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.last = layer(4, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.last(self.layer(x)[0])
        return made


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.inside(x, x, x, need_weights=False)[0]
        return made


def convolved() -> nn.Module:
    image = nn.Unflatten(1, (1, 5))
    return nn.Sequential(image, nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten())


MODELS = {
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "convolution and norm": convolved,
    "attention": Attention,
}


def losses(run: Any, of: nn.Module, batches: tuple[int, ...]) -> list[Any]:
    found: list[Any] = []
    for batch in batches:
        x = torch.randn(batch, 5, 4, generator=torch.Generator().manual_seed(batch))
        x.requires_grad_()
        run(x).pow(2).sum().backward()  # decides first how saved tensors may be used
        loss = run(x).sin().sum()
        loss.backward(retain_graph=True)
        found += [g.clone() for g in torch.autograd.grad(loss, of.parameters(), retain_graph=True)]
        found += [g.detach() for g in torch.autograd.grad(loss, (x,), create_graph=True)]
        loss.backward()
        found.append(loss.detach())
    return found + [p.grad for p in of.parameters()] + list(of.buffers())


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_taken_again_as_in_eager(name: str) -> None:
    torch._dynamo.reset()
    dynamo.reset()
    torch.manual_seed(0)
    model = MODELS[name]()
    twin = copy.deepcopy(model)
    # The second batch's graphs are for any size, and such a backward graph is compiled at once.
    batches = (2, 3) if name == "lstm" else (2,)
    executor = "reference" if name == "gru" else "compiled"
    run = torch.compile(model, backend="glasshouse", options={"executor": executor})
    found, wanted = losses(run, model, batches), losses(twin, twin, batches)
    assert {"forward", "backward"} <= {c.phase for c in dynamo.compiled_graphs()}
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
