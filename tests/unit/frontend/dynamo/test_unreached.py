"""Arguments that no loss reaches get no gradient, where eager PyTorch gives them none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glasshouse.frontend import dynamo


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()
    torch.manual_seed(0)


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="glasshouse", options={"executor": "reference"})


class Heads(nn.Module):
    """Two results of a common part; with a norm, AOTAutograd's call is taken in every step."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.common = nn.Linear(6, 8, bias=False)  # before a norm its gradient would be noise
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()
        self.one, self.two, self.never = (nn.Linear(8, 3) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.norm(self.common(x)).tanh()
        two = self.two(h)
        return self.one(h), two, two.argmax(-1)


def grads(of: nn.Module) -> dict[str, Any]:
    return {n: None if p.grad is None else p.grad.clone() for n, p in of.named_parameters()}


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("to_none", [False, True])
def test_steps_with_one_loss_at_a_time(norm: bool, to_none: bool) -> None:
    made = Heads(norm)
    twin, x = copy.deepcopy(made), torch.randn(5, 6)

    def loop(run: Any, of: nn.Module) -> list[Any]:
        optimizer, found = torch.optim.AdamW(of.parameters(), 0.1), []
        for which in ((0,), (0,), (1,), (0, 1), (1,)):
            optimizer.zero_grad(set_to_none=to_none)
            results = run(x)
            loss = torch.stack([results[i].square().mean() for i in which]).sum()
            loss.backward()
            found.append(grads(of))
            optimizer.step()
        return [*found, of.state_dict()]

    found, wanted = loop(compiled(made), made), loop(twin, twin)
    assert wanted[0]["two.weight"] is None
    for f, w in zip(found, wanted, strict=True):
        assert {n for n, v in f.items() if v is None} == {n for n, v in w.items() if v is None}
        torch.testing.assert_close(
            {n: v for n, v in f.items() if v is not None},
            {n: v for n, v in w.items() if v is not None},
            rtol=1e-4, atol=1e-5,
        )  # fmt: skip


def test_it_is_an_error_to_ask_for_one_as_in_eager() -> None:
    run = compiled(lambda x, z: (x.sin(), z.exp()))
    x, z = (torch.randn(3, requires_grad=True) for _ in range(2))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not have been used in the graph"):
            torch.autograd.grad(run(x, z)[0].sum(), (x, z))
        found = torch.autograd.grad(run(x, z)[0].sum(), (x, z), allow_unused=True)
        torch.testing.assert_close(found[0], x.cos())
        assert found[1] is None


def test_zeros_by_a_formula_are_zeros() -> None:
    """A product with zero is a gradient, also in eager PyTorch."""
    run = compiled(lambda x, z: (x.sin() + 0 * z, z.exp()))
    x, z = (torch.randn(3, requires_grad=True) for _ in range(2))
    for _ in range(2):
        found = torch.autograd.grad(run(x, z)[0].sum(), (x, z))
        torch.testing.assert_close(found[1], torch.zeros(3))
