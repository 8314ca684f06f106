"""Training: gradients that a model gives itself, by `torch.autograd.Function`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

import glasshouse as gh
from glasshouse.errors import CaptureError
from glasshouse.numpy_ref import run


class Rounded(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Reversed(torch.autograd.Function):
    """What an adversary is trained with; setup apart from forward."""

    @staticmethod
    def forward(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return -ctx.scale * gradient, None


class Product(torch.autograd.Function):
    """Two results, saved tensors, a gradient that is not the true one, one that is broadcast."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
        ctx.save_for_backward(x, weight)
        best = (x @ weight).argmax(-1)
        ctx.mark_non_differentiable(best)
        return x @ weight + bias, x.sum() * 2, best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, product: torch.Tensor, total: torch.Tensor, best: Any) -> Any:
        x, weight = ctx.saved_tensors
        clipped = product.clamp(-0.5, 0.5)
        by_x = clipped @ weight.t() + total if ctx.needs_input_grad[0] else None
        return by_x, x.t() @ clipped, clipped


class Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * float(gradient.sum().item())


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


rounded = Rounded.apply  # kept before anything is captured, as people do


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = nn.Parameter(torch.randn(4, 3, generator=generator))
        self.second = nn.Parameter(torch.randn(3, 3, generator=generator))
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class Straight(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((rounded(x @ self.first * 4) / 4 - self.bias) ** 2).mean()


class Adversary(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(x @ self.first)
        return (hidden.sum() + (Reversed.apply(hidden, 0.3) @ self.second) ** 2).mean()


class Several(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x @ self.first
        product, total, best = Product.apply(hidden, self.second, self.bias)
        again, _, _ = Product.apply(product, self.second, self.bias)  # the second total is unused
        return (again**2).mean() + total + best.sum()


class Last(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Reversed.apply((x @ self.first).pow(2).mean(), 1.0)


@pytest.mark.parametrize("kind", [Straight, Adversary, Several, Last])
def test_a_model_trains_as_in_pytorch(kind: type[Model]) -> None:
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    graph = gh.trace_training(model, None, optimizer, x)
    assert not [n for n in graph.nodes if n.op.name == "opaque"]
    module = gh.compile(graph, tune=False) if kind is Straight else None
    state: dict[str, Any] = {}
    losses = [float(run(graph, [x.numpy()], variables=state)[0]) for _ in range(5)]
    for loss in losses:
        optimizer.zero_grad()
        wanted = model(x)
        wanted.backward()
        optimizer.step()
        assert loss == pytest.approx(wanted.item(), rel=1e-4, abs=1e-5)
    if module is not None:
        assert losses[-1] < 0.9 * losses[0]
        assert [float(module(x)) for _ in range(5)] == pytest.approx(losses, rel=1e-4)


def test_backward_ops_say_where_they_are_written() -> None:
    model = Several()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    graph = gh.trace_training(model, None, optimizer, torch.ones(5, 4))
    clamps = [n for n in graph.nodes if n.op.name == "clamp" or "clamp" in n.origin.name]
    assert clamps
    for node in clamps:
        assert node.origin.label("phase") == "backward"
        assert node.origin.grad_of is not None
        assert "test_given_gradient.py" in str(node.origin.source)


class Applying(Model):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x @ self.first).pow(2).sum()


def test_what_cannot_be_traced_is_refused_by_name() -> None:
    model = Applying(Refused)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    said = "the backward of the autograd.Function Refused cannot be captured: "
    with pytest.raises(CaptureError, match=said) as caught:
        gh.trace_training(model, None, optimizer, torch.ones(5, 4))
    assert "test_given_gradient.py" in caught.value.where


def test_a_function_that_writes_its_argument_is_trained() -> None:
    ours, theirs, x = Applying(Dirty), Applying(Dirty), torch.ones(5, 4)
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    step = gh.compile(gh.trace_training(ours, None, optimizer, x), progress=False)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05)
    for _ in range(2):
        wanted = theirs(x)
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
        torch.testing.assert_close(torch.as_tensor(step(x)), wanted.detach())


def test_functions_are_left_as_they_were() -> None:
    x = torch.tensor([0.4, 1.6], requires_grad=True)
    rounded(x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
