"""`torch.autograd.grad` inside of a model that `torch.compile` trains for us."""

import pytest
import torch
from torch import nn
from torch._dynamo import config

import glasshouse as gh
from glasshouse.frontend import dynamo
from glasshouse.frontend.torch.tracing.loose import capture_loosely


class Penalty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return ((slope.norm(dim=1) - 1) ** 2).mean()


def test_a_gradient_penalty_is_trained() -> None:
    torch.manual_seed(0)
    model, x = Penalty(), torch.randn(4, 5)
    wanted = model(x)
    wanted.backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    found = torch.compile(model, backend="glasshouse")(x)
    found.backward()
    torch.testing.assert_close(found, wanted)
    for p, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient)
    assert not config.trace_autograd_ops  # as it was


@pytest.mark.filterwarnings("ignore")  # PyTorch deprecates parts of its own optimisers
def test_a_step_with_its_backward_is_still_compiled() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 1), nn.Linear(3, 1)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(4, 3)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs))
    compiled = torch.compile(step, backend="glasshouse")
    for _ in range(3):
        torch.testing.assert_close(compiled(ours, first), step(theirs, second))


@pytest.mark.parametrize("executor", ["reference", "compiled"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_gradient_is_taken_where_the_caller_takes_none(executor: str, kept: bool) -> None:
    """One graph under `no_grad`; what a model makes with gradients on has one outside, too."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 4))

    def curvature(x: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            x = x.clone().requires_grad_(True)
            (slope,) = torch.autograd.grad((net(x) * v).sum(), x, create_graph=kept)
        return (slope * v).sum(), slope

    x, v = torch.randn(5, 4), torch.randn(5, 4)
    dynamo.reset()
    run = torch.compile(curvature, backend="glasshouse", options={"executor": executor})
    with torch.no_grad():
        found, wanted = run(x, v), curvature(x, v)
    torch.testing.assert_close(found, wanted)
    assert [f.requires_grad for f in found] == [w.requires_grad for w in wanted] == [False, kept]
    if not kept:
        assert len(dynamo.compiled_graphs()) == 1
    else:  # Dynamo itself breaks before a result that has a gradient inside of the function
        gradients = [torch.autograd.grad(s.sum(), net[0].weight)[0] for s in (found[1], wanted[1])]
        torch.testing.assert_close(*gradients)


class Curvature(nn.Module):
    """A way that depends on data, and a gradient of a gradient behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
            (curvature,) = torch.autograd.grad(slope.sum(), x)
        return curvature


@pytest.mark.filterwarnings("ignore::glasshouse.errors.InParts")
def test_gradients_are_taken_in_parts() -> None:
    torch._dynamo.reset()
    x = torch.arange(1.0, 5.0)
    module = gh.compile(Curvature(), x)
    for given in (x, -x):
        torch.testing.assert_close(module(given), Curvature()(given))
    assert module.parts


class Priced(nn.Module):
    """An option's slope and curvature; a distribution looks whether its values are in range."""

    def forward(self, price: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        price = price.detach().requires_grad_()
        with torch.enable_grad():
            likely = torch.distributions.Normal(0.0, 1.0).cdf(price.log())
            (slope,) = torch.autograd.grad((price * likely).sum(), price, create_graph=True)
            (curvature,) = torch.autograd.grad(slope.sum(), price)
        return slope.detach(), curvature


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # PyTorch's own, where oneDNN is turned off
def test_what_a_distribution_asks_is_not_a_way_that_depends_on_data() -> None:
    assert not capture_loosely(Priced(), (torch.linspace(0.5, 2, 7),), {}, "priced").frozen
