"""Training steps of models that take gradients themselves, and of distributions."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from frontend_torch import assert_same, outputs_of
from glasshouse.errors import CaptureError
from glasshouse.ir import verify


class Penalty(nn.Module):
    """A gradient inside of the loss, which is trained; a teacher without one; a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
        self.teacher = copy.deepcopy(self.net)
        self.frozen = nn.Linear(5, 1).requires_grad_(False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        x = x.clone().requires_grad_(True)
        out = self.net(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        with torch.no_grad():
            self.seen.add_(slope.norm())
            near = self.teacher(x)
        return ((slope.norm(dim=1) - 1) ** 2).mean() + F.mse_loss(out, near + self.frozen(x))


class Func(nn.Module):
    """`torch.func` inside of a model."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.net = kind, nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        func = torch.func

        def f(v):
            return self.net(v).squeeze(-1)

        if self.kind == "grad":
            return func.vmap(func.grad(f))(x).pow(2).mean()
        if self.kind == "hessian":
            return func.vmap(func.hessian(f))(x).pow(2).mean()
        if self.kind == "jacrev":
            return func.vmap(func.jacrev(self.net))(x).pow(2).mean()
        if self.kind == "jvp":
            return func.jvp(self.net, (x,), (torch.sin(x),))[1].pow(2).mean()
        out, back = func.vjp(self.net, x)
        return back(out)[0].pow(2).mean()


class Inner(nn.Module):
    """Steps of an optimiser inside of a model (MAML)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 1)

    def forward(self, x):
        now = dict(self.net.named_parameters())
        for _ in range(2):
            loss = torch.func.functional_call(self.net, now, (x,)).pow(2).mean()
            slopes = torch.autograd.grad(loss, list(now.values()), create_graph=True)
            now = {n: p - 0.1 * g for (n, p), g in zip(now.items(), slopes, strict=True)}
        return (torch.func.functional_call(self.net, now, (x,)) - 1).pow(2).mean()


MODELS = {
    "penalty": (Penalty, 5), "inner steps": (Inner, 3),
    **{k: (lambda k=k: Func(k), 3) for k in ("grad", "hessian", "jacrev", "jvp", "vjp")},
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_gradients_inside_of_a_model_are_trained(name):
    torch.manual_seed(0)
    make, width = MODELS[name]
    model, x = make(), torch.randn(4, width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = copy.deepcopy(model.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = gh.trace_training(model, None, optimizer, x)
    verify(graph)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])  # capturing changes nothing
    state: dict = {}
    for _ in range(3):
        loss = outputs_of(graph, [x], variables=state)[0]
        optimizer.zero_grad()
        wanted = model(x)
        wanted.backward()
        optimizer.step()
        assert_same(loss, wanted)
    for key, value in [*model.named_parameters(), *model.named_buffers()]:
        if key in state:
            assert_same(state[key], value)
        else:
            assert torch.equal(value, before[key])
    assert {n for n, p in model.named_parameters() if p.grad is not None} <= set(state)


def test_its_nodes_have_phases_paths_and_links():
    model, x = Penalty(), torch.randn(4, 5)
    graph = gh.trace_training(model, None, torch.optim.SGD(model.parameters(), lr=0.1), x)
    made = [n for n in graph.nodes if n.op.kind.value != "source"]
    phases = [n.origin.label("phase") for n in made]
    assert set(phases) == {"forward", "backward", "optimizer"}
    backward = [n for n in made if n.origin.label("phase") == "backward"]
    assert {n.origin.source.path for n in backward} >= {"net.0", "net.2"}
    linked = [graph.find(n.origin.grad_of) for n in backward if n.origin.grad_of is not None]
    assert len(linked) == len(backward)
    assert all(n is None or n.origin.label("phase") == "forward" for n in linked)


def test_distributions_do_not_look_at_data():
    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 4)

        def forward(self, x, taken, value):
            found = torch.distributions.Categorical(logits=self.net(x))
            spread = torch.distributions.Normal(x, x.abs() + 1)
            return (-found.log_prob(taken) * value).mean() + spread.log_prob(x * 2).mean()

    torch.manual_seed(0)
    model, x = Policy(), torch.randn(5, 3)
    given = [x, torch.tensor([0, 1, 2, 3, 1]), torch.randn(5)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.distributions.Distribution.set_default_validate_args(True)  # Dynamo may have ended it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = gh.trace_training(model, None, optimizer, *given)
    assert torch.distributions.Distribution._validate_args  # as it was before
    assert_same(outputs_of(graph, given)[0], model(*given))


def test_what_data_decides_is_refused():
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return (x * self.scale).sum() * (2 if float(x.sum()) > 0 else 3)

    model, x = Branch(), torch.ones(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(CaptureError, match="depends on the values"):
        gh.trace_training(model, None, optimizer, x)


def test_a_loss_must_be_one_number():
    model = Inner()
    model.forward = lambda x: torch.autograd.grad(  # type: ignore[method-assign]  # its own
        model.net(x.requires_grad_()).sum(), x, create_graph=True
    )[0]
    with pytest.raises(CaptureError, match="one number"):
        gh.trace_training(
            model, None, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 3)
        )
