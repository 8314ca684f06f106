"""Ops on lists of tensors through `torch.compile`: as PyTorch's, in place where those are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo

from glasshouse.errors import NotCompiled
from glasshouse.frontend import dynamo

Lists = tuple[list[torch.Tensor], list[torch.Tensor]]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    dynamo.reset()
    yield
    dynamo.reset()


def _lists() -> Lists:
    torch.manual_seed(0)
    shapes = [(3, 4), (5,), (), (0, 2), (1, 1)]
    first, second = ([torch.rand(s) + 0.5 for s in shapes] for _ in range(2))
    first[0][1, 2], first[1][3] = float("nan"), float("inf")
    return first, second


def _compiled(f: Callable[..., Any]) -> Any:
    return torch.no_grad()(
        torch.compile(f, backend="glasshouse", options={"executor": "reference"})
    )


def _in_place(a: list[torch.Tensor], b: list[torch.Tensor]) -> None:
    torch._foreach_add_(a, b, alpha=0.5)
    torch._foreach_mul_(a, 1.5)
    torch._foreach_mul_(a, [1.0, 2.0, 3.0, 4.0, 5.0])
    torch._foreach_mul_(a, b[2])
    torch._foreach_addcdiv_(a, b, b, 0.25)
    torch._foreach_addcmul_(a, b, b, [1.0, 2.0, 3.0, 4.0, 5.0])
    torch._foreach_lerp_(a, b, 0.3)
    torch._foreach_clamp_max_(a, 100.0)
    torch._foreach_maximum_(a, 0.75)
    torch._foreach_minimum_(a, b)
    torch._foreach_sqrt_(a)
    torch._foreach_neg_(b)
    torch._foreach_copy_(b, a)


def _functional(a: list[torch.Tensor], b: list[torch.Tensor]) -> Any:
    kept = [a[0], a[1], a[2], a[4]]  # a largest element needs one
    return (
        *torch._foreach_norm(a, 2), *torch._foreach_norm(kept, float("inf")),
        *torch._foreach_div(a, b), *torch._foreach_sub(a, b, alpha=2), *torch._foreach_pow(a, 2),
        *torch._foreach_addcdiv(a, b, b, value=3.0),
        *torch._foreach_minimum(a, 1.0),
    )  # fmt: skip


def test_lists_are_written_as_pytorch_writes_them() -> None:
    wanted, given = _lists(), _lists()
    _in_place(*wanted)
    versions = [t._version for t in given[0]]
    _compiled(_in_place)(*given)
    for got, expected in zip((*given[0], *given[1]), (*wanted[0], *wanted[1]), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)
    assert all(t._version > v for t, v in zip(given[0], versions, strict=True))


def test_results_are_pytorchs() -> None:
    for got, expected in zip(
        _compiled(_functional)(*_lists()), _functional(*_lists()), strict=True
    ):
        torch.testing.assert_close(got, expected, equal_nan=True)
    (graph,) = dynamo.compiled_graphs()
    assert "opaque" not in {n.op.name for n in graph.graph.nodes}


def test_one_tensor_under_two_names_and_a_part_of_it() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        torch._foreach_mul_([x, x, x[1]], [2.0, 3.0, 5.0])
        return x.sum()

    wanted, given = (torch.arange(6.0).reshape(2, 3) for _ in range(2))
    torch.testing.assert_close(_compiled(twice)(given), twice(wanted))
    torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize("kind", [2.0, float("inf")])
def test_gradients_are_clipped_inside_of_a_compiled_step(kind: float) -> None:
    def trained(compiled: bool) -> tuple[list[float], list[torch.Tensor]]:
        torch.manual_seed(0)
        layers = (torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

        def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05, kind)
            optimizer.step()
            return loss.detach(), norm

        options = {"executor": "reference"}
        run = torch.compile(step, backend="glasshouse", options=options) if compiled else step
        found = [t.item() for _ in range(3) for t in run(torch.ones(4, 6))]
        return found, [t for p in model.parameters() for t in (p.detach(), p.grad)]

    theirs, wanted = trained(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, from inside of Dynamo
        warnings.simplefilter("error", NotCompiled)
        ours, got = trained(True)
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b)
