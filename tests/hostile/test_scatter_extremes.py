"""Elements that meet at one place: ties, NaN, infinities, places that nobody names, gradients."""

from __future__ import annotations

import pytest
import torch

import glasshouse as gh

X = torch.tensor([[0.0, -1.0, float("inf")], [2.0, float("nan"), -3.0], [5.0, 0.5, -float("inf")]])
NEW = torch.tensor([[2.0, 3.0, 1.0], [2.0, 1.0, float("nan")], [2.0, -7.0, -9.0], [1.0, 0.5, -2.0]])
AT = torch.tensor([[1, 0, 0], [1, 2, 0], [0, 2, 2], [0, 2, 2]])


class _Reduced(torch.nn.Module):
    def __init__(self, how: str, own: bool) -> None:
        super().__init__()
        self.how, self.own = how, own

    def forward(self, x: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, at, new, self.how, include_self=self.own)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("how", ["amax", "amin", "mean", "prod", "sum"])
def test_equals_pytorch_with_nan_and_infinities(how: str, own: bool) -> None:
    module = _Reduced(how, own)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        given = X.to(dtype), AT, NEW.to(dtype)
        compiled = gh.compile(module, *given, progress=False)
        torch.testing.assert_close(
            torch.as_tensor(compiled(*given)), module(*given), equal_nan=True, rtol=1e-2, atol=1e-6
        )


@pytest.mark.parametrize("how", ["amax", "prod"])
@pytest.mark.parametrize("own", [True, False])
def test_integers(own: bool, how: str) -> None:
    whole = torch.tensor([[3, -4], [2**31, 5]]), torch.tensor([[1, 1]]), torch.tensor([[-9, 7]])
    module = _Reduced(how, own)
    compiled = gh.compile(module, *whole, progress=False)
    assert torch.equal(torch.as_tensor(compiled(*whole)), module(*whole))


class _Step(torch.nn.Module):
    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.new = torch.nn.Parameter(start.clone())
        self.register_buffer("at", torch.tensor([0, 0, 2, 2, 2, 5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = self.at[:, None].expand(-1, 3)
        most = x.scatter_reduce(0, at, self.new, "amax")
        # PyTorch counts an element that is equal by chance among the sharers even where it is not
        # included, and its share is lost: a quarter keeps elements apart.
        least = (x + 0.25).scatter_reduce(0, at, self.new, "amin", include_self=False)
        return ((most - 0.5 * least) * torch.arange(1.0, 8.0)[:, None]).sum()


def test_a_training_step_shares_gradients_among_equals() -> None:
    torch.manual_seed(0)
    start = torch.randn(6, 3).round()  # many ties
    x = torch.randn(7, 3).round()
    ours, theirs = _Step(start), _Step(start)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    loss = theirs(x)
    loss.backward()
    optimizer.step()
    step = gh.compile(
        gh.trace_training(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1), x), progress=False
    )
    torch.testing.assert_close(torch.as_tensor(step(x)), loss.detach())
    # The second step shows the first one's gradient.
    torch.testing.assert_close(torch.as_tensor(step(x)), theirs(x).detach())


class _Product(torch.nn.Module):
    def __init__(self, x: torch.Tensor, new: torch.Tensor) -> None:
        super().__init__()
        self.x, self.new = torch.nn.Parameter(x.clone()), torch.nn.Parameter(new.clone())

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        whole = self.x.scatter_reduce(0, at, self.new, "prod")
        part = self.x.scatter_reduce(0, at, self.new, "prod", include_self=False)
        return ((whole - 0.5 * part) * torch.arange(1.0, 6.0)[:, None]).sum()


def test_gradients_of_a_product_beside_no_zero_one_and_two() -> None:
    torch.manual_seed(0)
    x, new, at = torch.randn(5, 4), torch.randn(7, 4), torch.randint(0, 4, (7, 4))
    new[0, 0] = 0.0
    at[1:3, 1], new[1:3, 1] = 2, 0.0
    x[at[3, 2], 2] = 0.0
    ours, theirs = _Product(x, new), _Product(x, new)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    loss = theirs(at)
    loss.backward()
    optimizer.step()
    step = gh.compile(
        gh.trace_training(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1), at),
        progress=False,
    )
    torch.testing.assert_close(torch.as_tensor(step(at)), loss.detach())
    torch.testing.assert_close(torch.as_tensor(step(at)), theirs(at).detach())
