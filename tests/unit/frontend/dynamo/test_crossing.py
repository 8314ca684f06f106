"""Which calls of compiled training graphs go the way that is written out, and what others give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import entry
from glasshouse.frontend.dynamo.crossing import crossing
from glasshouse.frontend.dynamo.execute import Runner


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The phases of calls that went the general way."""
    found: list[str] = []
    plain = Runner.__call__

    def call(self: Runner, flat: Any) -> list[Any]:
        found.append(self.graph.name)
        return plain(self, flat)

    monkeypatch.setattr(Runner, "__call__", call)
    return found


class _Adapted(nn.Module):
    """A layer that is frozen, a small one beside it that is trained, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.trained = nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, 6)
        self.tied = nn.Linear(6, 6, bias=False)
        self.tied.weight = self.trained.weight

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Any, torch.Tensor]:
        out = self.tied(torch.tanh(self.frozen(x) + self.trained(x)))
        return out + y, None, out.t()


@pytest.fixture(scope="module")
def pair() -> tuple[_Adapted, Any]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = _Adapted()
    options = {"executor": "compiled"}
    return model, torch.compile(model, backend="glasshouse", options=options, dynamic=False)


def _step(run: Any, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    x = x.clone(memory_format=torch.preserve_format).requires_grad_(True)
    out, nothing, turned = run(x, y)
    assert nothing is None
    (out.pow(2).sum() + turned[0].sum()).backward()
    assert x.grad is not None
    grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [out.detach(), turned.detach(), x.grad, *grads]


def test_frozen_and_tied_weights_go_the_way_that_is_written_out(
    pair: tuple[_Adapted, Any], general: list[str]
) -> None:
    model, run = pair
    for seed in range(2):
        torch.manual_seed(seed)
        x, y = torch.randn(5, 6), torch.randn(5, 6)
        for got, wanted in zip(_step(run, model, x, y), _step(model, model, x, y), strict=True):
            torch.testing.assert_close(got, wanted)
            assert got.stride() == wanted.stride()
        with torch.no_grad():  # what was prepared before the write does not hold any more
            model.trained.weight.mul_(0.5)
            model.frozen.bias.add_(1.0)
    assert not general


def test_other_tensors_than_usual_are_served(
    pair: tuple[_Adapted, Any], general: list[str]
) -> None:
    """The negative of one is a flag of PyTorch's, not a value in memory: no guard asks for it."""
    model, run = pair
    x, usual = torch.randn(5, 6), torch.randn(5, 6)
    _step(run, model, x, usual)
    general.clear()
    other = torch._neg_view(usual)
    assert other.is_neg()
    for got, wanted in zip(_step(run, model, x, other), _step(model, model, x, other), strict=True):
        torch.testing.assert_close(got, wanted)
    assert general == ["forward"]


class _Coils(nn.Module):
    """An argument that is saved as complex numbers, and modes of a spectrum by a list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 4, 2))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        seen = torch.view_as_complex(pairs) * torch.view_as_complex(self.weight)
        return torch.view_as_real(torch.fft.fft(seen)[..., [0, 2, 3]] * 2).contiguous()


class _Asked(TorchFunctionMode):
    """Notes what it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def test_pairs_that_are_saved_as_complex_numbers_and_lists_of_indices_are_no_results(
    general: list[str],
) -> None:
    """The argument itself is saved, and the list is the backward graph's too: an output that is no
    kernel's result sent every step the general way."""
    torch.manual_seed(0)
    model, pairs = _Coils(), torch.randn(3, 2, 4, 2)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    for _ in range(2):
        found = []
        for call in (model, run):
            model.zero_grad()
            out = call(pairs)
            out.pow(2).sum().backward()
            assert model.weight.grad is not None
            found.append((out.detach(), model.weight.grad.clone()))
        torch.testing.assert_close(found[1], found[0])
    made = {g.phase: g.runner.module for g in dynamo.compiled_graphs()}
    assert all(all(module.plan.direct) for module in made.values())
    assert not general


def test_no_mode_is_asked_about_what_a_compiled_graph_looks_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`torch.set_default_device` is such a mode, and asking it 16 times as slow as not."""
    calls: list[Any] = []

    def kept(*given: Any) -> Any:
        calls.append(crossing(*given))
        return calls[-1]

    monkeypatch.setattr(entry, "crossing", kept)
    model = nn.Linear(4, 4)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    x = torch.randn(2, 4)
    run(x).sum().backward()
    forward = calls[0]
    given = [model.weight, model.bias, x]
    with torch.no_grad(), _Asked() as asked:
        made = forward(given)
    assert not asked.names
    torch.testing.assert_close(made[0], model(x).detach())
