"""Gradients of gradients that are taken outside of a compiled function are eager PyTorch's."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glasshouse.errors import NotCompiled
from glasshouse.frontend import dynamo

# Dynamo's own, where an argument is no leaf.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")

Loop = Callable[[Any, nn.Module, Tensor], Any]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()
    torch.manual_seed(0)


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="glasshouse", options={"executor": "reference"})


def model(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *more, nn.Tanh(), nn.Linear(8, 3))


def penalty(run: Any, of: nn.Module, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


def penalised(run: Any, of: nn.Module, x: Tensor) -> list[Any]:
    """Three steps: the first is AOTAutograd's, the others are called without it."""
    optimizer, losses = torch.optim.SGD(of.parameters(), 0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append(run(x).square().mean() + penalty(run, of, x))
        losses[-1].backward()
        optimizer.step()
    return losses


def product_with_hessian(run: Any, of: nn.Module, x: Tensor) -> list[Any]:
    found = []
    for _ in range(2):
        weights = list(of.parameters())
        first = torch.autograd.grad(run(x).square().sum(), weights, create_graph=True)
        found += torch.autograd.grad(first, weights, [w.detach() for w in weights])
    return found


def third(run: Any, of: nn.Module, x: Tensor) -> list[Any]:
    found = []
    for _ in range(2):
        made = x = x.detach().requires_grad_()
        made = run(x)
        for _ in range(3):
            (made,) = torch.autograd.grad(made.sum(), x, create_graph=True)
            found.append(made)
    return found


def through_what_it_was_given(run: Any, of: nn.Module, x: Tensor) -> list[Any]:
    """The function is given something with a history, twice over."""
    found = []
    for _ in range(2):
        leaf = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(
            run(run(leaf.sin()) @ torch.ones(3, 6)).sum(), leaf, create_graph=True
        )
        found += torch.autograd.grad(first.square().sum(), (leaf, *of.parameters()))
    return found


LOOPS: list[Loop] = [penalised, product_with_hessian, third, through_what_it_was_given]


@pytest.mark.filterwarnings("ignore::glasshouse.errors.NotCompiled")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("norm", [False, True])
def test_they_are_eagers(loop: Loop, norm: bool) -> None:
    made = model(*[nn.BatchNorm1d(8)] * norm)
    twin, x = copy.deepcopy(made), torch.randn(5, 6)
    wanted, found = loop(twin, twin, x), loop(compiled(made), made, x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    state = made.state_dict()  # statistics of norms are not updated once more
    torch.testing.assert_close(state, twin.state_dict(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::glasshouse.errors.NotCompiled")
def test_they_are_taken_under_the_autocast_of_the_call() -> None:
    made, x = model(), torch.randn(5, 6)

    def loop(run: Any) -> Any:
        found = []
        for _ in range(2):
            leaf = x.clone().requires_grad_()
            with torch.autocast("cpu", torch.bfloat16):
                y = run(leaf)
            (slope,) = torch.autograd.grad(y.float().sum(), leaf, create_graph=True)
            found += torch.autograd.grad(slope.square().sum(), made[0].weight)  # type: ignore[index]  # of a Sequential
        return found

    torch.testing.assert_close(loop(compiled(made)), loop(made), rtol=2e-2, atol=1e-2)


def test_it_is_said_once() -> None:
    made, x = model(), torch.randn(5, 6)
    run = compiled(made)
    losses = [penalty(run, made, x) for _ in range(2)]
    with pytest.warns(NotCompiled, match="gradients of gradients .* op by op"):
        losses[0].backward()
    losses[1].backward()  # where a warning would be an error


def test_asking_alone_leaves_nothing_to_pytorch() -> None:
    """Without a second gradient `create_graph=True` is compiled code alone: no warning."""
    made, x = model(), torch.randn(5, 6)
    run = compiled(made)
    for _ in range(2):
        (found,) = torch.autograd.grad(run(x).sum(), made[0].weight, create_graph=True)  # type: ignore[index]  # of a Sequential
        assert found.requires_grad


def test_random_numbers_are_not_drawn_again() -> None:
    made, x = model(nn.Dropout(0.5)), torch.randn(5, 6)
    with pytest.raises(RuntimeError, match="draws random numbers"):
        penalty(compiled(made), made, x).backward()


def test_a_weight_that_changed_is_noticed() -> None:
    made, x = model(), torch.randn(5, 6)
    loss = penalty(compiled(made), made, x)
    with torch.no_grad():
        made[0].weight.mul_(2)  # type: ignore[index, operator]  # of a Sequential
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_is_written_to_is_not_written_again() -> None:
    def counting(x: Tensor, w: Tensor, seen: Tensor) -> Tensor:
        seen.add_(1)
        return (x @ w).tanh() * seen

    x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
    made = compiled(counting)(x, w, torch.zeros(2))
    (slope,) = torch.autograd.grad(made.sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        slope.sum().backward()


def test_arguments_are_let_go_with_the_backward_pass() -> None:
    made = model()
    run = compiled(made)
    for _ in range(3):
        x = torch.randn(5, 6)
        gone, loss = weakref.ref(x), run(x).sum()
        loss.backward()
        del x
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("asks", ["input", "weights", "both"])
@pytest.mark.parametrize("executor", ["reference", "auto"])
def test_gradients_for_many_at_once(asks: str, executor: str) -> None:
    """PyTorch goes over the ops of the backward graph with tensors that stand for a batch."""

    def slopes(run: Any, of: nn.Module) -> Any:
        x = torch.linspace(-1, 1, 24).reshape(4, 6).requires_grad_(asks != "weights")
        wanted = {"input": [x], "weights": [*of.parameters()], "both": [x, *of.parameters()]}[asks]
        many = torch.eye(12).reshape(12, 4, 3)
        return torch.autograd.grad(run(x), wanted, many, is_grads_batched=True)

    of = model()
    run = torch.compile(of, backend="glasshouse", options={"executor": executor})
    for _ in range(2):
        torch.testing.assert_close(slopes(run, of), slopes(of, of), rtol=1e-4, atol=1e-6)
