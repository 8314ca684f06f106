"""Training loops as people write them, through `torch.compile(backend="glasshouse")`: gradients and
parameters are those of PyTorch itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from glasshouse.frontend import dynamo

X, Y = (torch.randn(5, n, generator=torch.Generator().manual_seed(n)) for n in (6, 3))
Loop = Callable[[Any, nn.Module], Any]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 3))


def loss_of(run: Any) -> torch.Tensor:
    return F.mse_loss(run(X), Y)


def state(of: nn.Module) -> list[torch.Tensor]:
    grads = [p.grad for p in of.parameters()]
    return [*of.parameters(), *of.buffers(), *(g for g in grads if g is not None)]


def assert_like_eager(made: nn.Module, loop: Loop, tolerance: float = 1e-5) -> None:
    """What a loop returns and what it leaves behind are the same with and without compiling."""
    twin = copy.deepcopy(made)
    expected = loop(twin, twin)
    found = loop(torch.compile(made, backend="glasshouse"), made)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(state(made), state(twin), rtol=tolerance, atol=tolerance)


def kept_graph(run: Any, of: nn.Module) -> None:
    loss = loss_of(run)
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def accumulated(run: Any, of: nn.Module) -> None:
    optimizer = torch.optim.AdamW(of.parameters(), lr=0.1)
    for keep in (False, True):
        for _ in range(2):
            loss_of(run).backward()
        nn.utils.clip_grad_norm_(of.parameters(), 0.1)
        optimizer.step()
        if keep:
            optimizer.zero_grad(set_to_none=False)
        loss_of(run).backward()


def looked_at_between_steps(run: Any, of: nn.Module) -> torch.Tensor:
    optimizer = torch.optim.SGD(of.parameters(), lr=0.1, momentum=0.9)
    found = []
    for _ in range(2):
        with torch.no_grad():
            found.append(run(X))
        of.eval()
        found.append(run(X).detach())
        of.train()
        optimizer.zero_grad()
        loss_of(run).backward()
        optimizer.step()
    return torch.stack(found)


def frozen_half_way(run: Any, of: nn.Module) -> None:
    loss_of(run).backward()
    for parameter in of[0].parameters():  # type: ignore[index]  # of a Sequential
        parameter.requires_grad_(False)
        parameter.grad = None
    loss_of(run).backward()


def two_losses_of_one_call(run: Any, of: nn.Module) -> None:
    out = run(X)
    first, second = out[:, 0].sum(), out.square().mean()
    (first * 0.5 + second).backward()


@pytest.mark.parametrize(
    "loop",
    [kept_graph, accumulated, looked_at_between_steps, frozen_half_way, two_losses_of_one_call],
    ids=lambda loop: loop.__name__,
)
def test_loops_give_what_eager_gives(loop: Loop) -> None:
    assert_like_eager(model(), loop)


def test_an_optimiser_of_the_users_is_compiled_whole() -> None:
    """Its step is `no_grad` by a decorator: Dynamo calls the graph before gradients are off."""

    class Signs(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        @torch.no_grad()
        def step(self) -> None:  # type: ignore[override]  # without a closure
            for group in self.param_groups:
                for p in group["params"]:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    p.add_((mean * 0.9 + p.grad * 0.1).sign(), alpha=-group["lr"])
                    mean.lerp_(p.grad, 0.1)

    found = []
    for compile in (lambda f: f, lambda f: torch.compile(f, backend="glasshouse")):
        made = model()
        optimizer = Signs(made.parameters())
        step = compile(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(made).backward()
            step()
        found.append(state(made))
    torch.testing.assert_close(found[1], found[0])


def test_gradients_of_silu_are_kernels() -> None:
    """PyTorch calls `silu_backward` composite, yet it gives itself when asked for its parts."""
    assert_like_eager(model(), lambda run, of: loss_of(run).backward())
    backward = dynamo.compiled_graphs()[-1]
    assert backward.phase == "backward"
    assert not [n for n in backward.graph.nodes if n.op.name == "opaque"]


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_weight_norms_are_kernels(dim: int) -> None:
    made = model()
    nn.utils.parametrizations.weight_norm(made[0], dim=dim)  # type: ignore[index]  # a Sequential
    assert_like_eager(made, lambda run, of: loss_of(run).backward())
    graphs = dynamo.compiled_graphs()
    assert not [n for c in graphs for n in c.graph.nodes if n.op.name == "opaque"]


def test_a_weight_that_changes_before_its_gradient_is_noticed() -> None:
    made = model()
    loss = loss_of(torch.compile(made, backend="glasshouse"))
    with torch.no_grad():
        made[2].weight.mul_(2)  # type: ignore[index, operator]  # of a Sequential
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = model()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = checkpoint(self.inside, x, use_reentrant=False)
        return made


def test_checkpoints_are_computed_again() -> None:
    assert_like_eager(Checkpointed(), lambda run, of: loss_of(run).backward())


def test_dropout_is_the_same_for_a_seed_and_in_its_gradient() -> None:
    run = torch.compile(nn.Dropout(0.5), backend="glasshouse")
    made = []
    for seed in (1, 1, 2):
        x = torch.ones(64, requires_grad=True)
        torch.manual_seed(seed)
        out = run(x)
        out.sum().backward()
        torch.testing.assert_close(x.grad, out.detach())
        made.append(out.detach())
    assert made[0].equal(made[1])
    assert not made[0].equal(made[2])


def autocast(run: Any, of: nn.Module) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.mse_loss(run(X), Y.bfloat16())
    loss.backward()


def test_mixed_precision() -> None:
    assert_like_eager(model(), autocast, tolerance=2e-2)


def test_channels_last() -> None:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1))
    images = torch.randn(2, 3, 6, 5).to(memory_format=torch.channels_last)

    def loop(run: Any, of: nn.Module) -> torch.Tensor:
        x = images.clone().requires_grad_()
        out = run(x)
        out.square().mean().backward()
        assert x.grad is not None
        return x.grad

    assert_like_eager(made.to(memory_format=torch.channels_last), loop, tolerance=1e-4)


def whole_step(run: Any, of: nn.Module) -> torch.Tensor:
    optimizer = torch.optim.SGD(of.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(of(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    taken = step if run is of else torch.compile(step, backend="glasshouse")
    return torch.stack([taken(X, Y) for _ in range(3)])


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, from inside of Dynamo
def test_a_step_that_is_compiled_whole() -> None:
    """Its backward graph is compiled while Dynamo looks at what is called, and the optimiser's
    graph holds the parameters that it writes to."""
    assert_like_eager(model(), whole_step)
    assert {c.phase for c in dynamo.compiled_graphs()} == {"forward", "backward", "inference"}
