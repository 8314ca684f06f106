"""Training steps captured whole: forward, backward, optimiser."""

import copy

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import assert_same, outputs_of
from glasshouse.ir import verify


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}, "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01}, "RMSprop": {"lr": 0.01}, "Adagrad": {"lr": 0.01}, "NAdam": {},
    "Adadelta": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_steps_equal_pytorchs(name):
    torch.manual_seed(0)
    make = getattr(torch.optim, name)
    model, loss_fn = Net(), nn.CrossEntropyLoss()
    optimizer = make(model.parameters(), **OPTIMIZERS[name])
    x, y = torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))
    before = copy.deepcopy(model.state_dict())
    graph = gh.trace_training(model, loss_fn, optimizer, x, y)
    verify(graph)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])  # capturing changes nothing
    state: dict = {}
    for _ in range(3):
        loss = outputs_of(graph, [x, y], variables=state)[0]
        optimizer.zero_grad()
        wanted = loss_fn(model(x), y)
        wanted.backward()
        optimizer.step()
        assert_same(loss, wanted)
    for key, value in [*model.named_parameters(), *model.named_buffers()]:
        assert_same(state[key], value)


def test_phases_and_links_from_backward_to_forward():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(2, 3, 4, 4), torch.tensor([0, 1])
    graph = gh.trace_training(model, nn.CrossEntropyLoss(), optimizer, x, y)
    phases = {n.origin.label("phase") for n in graph.nodes if n.op.kind.value != "source"}
    assert phases == {"forward", "backward", "optimizer"}
    backward = [n for n in graph.nodes if n.origin.label("phase") == "backward"]
    assert all(n.origin.grad_of is not None for n in backward)
    weight_grad = next(n for n in backward if n.op.name == "conv_weight_grad")
    forward = graph.node(weight_grad.origin.grad_of)
    assert forward.op.name == "conv"
    assert weight_grad.origin.source.path == forward.origin.source.path == "conv"


def test_a_model_that_returns_its_loss():
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return ((x * self.weight) ** 2).sum()

    model = WithLoss()
    graph = gh.trace_training(
        model, None, torch.optim.SGD(model.parameters(), lr=0.5), torch.ones(3)
    )
    state: dict = {}
    assert_same(outputs_of(graph, [torch.ones(3)], variables=state)[0], torch.tensor(3.0))
    assert_same(state["weight"], torch.zeros(3))  # 1 - 0.5 * 2


def test_a_loss_must_be_one_number():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(gh.errors.CaptureError, match="one number"):
        gh.trace_training(
            model, lambda out, y: out - y, optimizer, torch.ones(4, 3), torch.ones(4, 2)
        )


def test_state_that_is_only_written_is_kept():
    """A spectral norm computes `_u` anew without reading the old one."""
    torch.manual_seed(0)
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(5, 4), torch.randn(5, 3)
    graph = gh.trace_training(model, nn.MSELoss(), optimizer, x, y)
    verify(graph)
    written = {n.attrs["name"] for n in graph.updates}
    assert {"parametrizations.weight.0._u", "parametrizations.weight.0._v"} <= written
    assert graph.copy().updates.keys()


def test_parameters_that_want_no_gradient_stay_as_they_are():
    model = Net()
    model.conv.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    x, y = torch.randn(2, 3, 4, 4), torch.tensor([0, 1])
    graph = gh.trace_training(model, nn.CrossEntropyLoss(), optimizer, x, y)
    state: dict = {}
    outputs_of(graph, [x, y], variables=state)
    assert_same(state.get("conv.weight", model.conv.weight), model.conv.weight)
    assert not torch.equal(torch.as_tensor(state["head.weight"]), model.head.weight)


def test_batch_norms_that_average_over_all_batches():
    torch.manual_seed(0)
    norms = [nn.BatchNorm2d(3, momentum=None), nn.BatchNorm2d(3, momentum=None, affine=False)]
    model = nn.Sequential(norms[0], nn.Conv2d(3, 3, 1), norms[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 3, 5, 5)
    graph = gh.trace_training(model, lambda out, y: ((out - y) ** 2).mean(), optimizer, x, x + 1)
    state: dict = {}
    for _ in range(3):
        loss = outputs_of(graph, [x, x + 1], variables=state)[0]
        optimizer.zero_grad()
        wanted = ((model(x) - x - 1) ** 2).mean()
        wanted.backward()
        optimizer.step()
        assert_same(loss, wanted)
    for key, value in [*model.named_parameters(), *model.named_buffers()]:
        assert_same(state[key], value)
    assert nn.BatchNorm2d.forward is nn.BatchNorm1d.forward  # as it was


class _Pooled(nn.Module):
    """Takes a dict and a number, as graph networks do; returns its loss."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, data, groups, power=2.0):
        h = self.layer(data["x"])
        index = data["group"][:, None].expand_as(h)
        return torch.zeros(groups, 2).scatter_add(0, index, h).abs().pow(power).mean()


@pytest.mark.parametrize("loss", [None, lambda out, power: out * power], ids=["own", "given"])
def test_a_compiled_step_is_called_as_the_model_is(loss):
    torch.manual_seed(0)
    model = _Pooled()
    given = ({"x": torch.randn(5, 3), "group": torch.tensor([0, 1, 1, 3, 0])}, 4)
    given = given if loss is None else (*given, torch.tensor(3.0))
    ours = copy.deepcopy(model)
    step = gh.compile(
        gh.trace_training(ours, loss, torch.optim.SGD(ours.parameters(), lr=0.1), *given),
        progress=False,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        expected = model(*given) if loss is None else loss(model(*given[:-1]), given[-1])
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(step(*given), expected.detach())
