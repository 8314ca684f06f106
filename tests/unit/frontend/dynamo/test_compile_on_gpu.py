"""torch.compile on tensors of a GPU: a driver that runs kernels without one, whose memory is the
host's, so that CPU tensors stand for the GPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.errors import Unsupported
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import odd_products
from glasshouse.frontend.torch import devices
from glasshouse.lower.program import Fallback


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    monkeypatch.setattr(devices, "TARGETS", {"cpu": "cuda"})
    torch._dynamo.reset()
    dynamo.reset()
    with fake_cuda(monkeypatch) as fake:
        yield fake
    torch._dynamo.reset()
    dynamo.reset()


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


@torch.no_grad()
def test_weights_stay_where_they_are_and_may_change(cuda: FakeCuda) -> None:
    model, x = Small(), torch.randn(4, 8)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    torch.testing.assert_close(run(x), model(x))
    (made,) = dynamo.compiled_graphs()
    assert made.runner.module.backend.target.name == "cuda"
    cuda.forget()
    torch.testing.assert_close(run(x), model(x))
    assert cuda.calls.count("cuGraphLaunch") == 1
    assert not [c for c in cuda.calls if c.startswith("cuMemcpy")], "nothing is copied"
    model.up.weight.mul_(2)
    model.down.bias.data += 1  # which PyTorch does not count
    torch.testing.assert_close(run(x), model(x))
    torch.testing.assert_close(run(torch.randn(4, 8)[:4]).shape, (4, 8))


@torch.no_grad()
def test_weights_that_are_prepared_are_prepared_again(cuda: FakeCuda) -> None:
    model, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 6, 6)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    (made,) = dynamo.compiled_graphs()
    plan = made.runner.module.plan
    assert plan.packed, "the weight is read in another form"
    (source,) = {packed.source for packed in plan.packed}
    device = made.runner.module._device
    assert not device.reads(plan.table[source]), "and is not on the device as it is"
    model.weight.mul_(2)
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_training_step(cuda: FakeCuda) -> None:
    def trained(compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))
        run = torch.compile(model, backend="glasshouse") if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for seed in range(2):
            torch.manual_seed(seed)
            loss = run(torch.randn(2, 1, 6, 6)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    for ours, theirs in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    forward, backward = dynamo.compiled_graphs()
    assert (forward.phase, backward.phase) == ("forward", "backward")
    steps = [s for g in (forward, backward) for s in g.runner.module.program.steps]
    through_torch = {s.node.op.name for s in steps if isinstance(s, Fallback)}
    assert "conv_weight_grad" in through_torch


class Recurrent(nn.Module):
    def __init__(self, layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = layer(3, 4, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, last = self.layer(x)
        ends = last if isinstance(last, tuple) else (last,)
        return states.pow(2).sum() + sum(end.sin().sum() for end in ends)


@pytest.mark.parametrize("layer", [pytest.param(nn.LSTM, marks=pytest.mark.slow), nn.GRU])
def test_recurrent_layers_are_trained_by_kernels(
    cuda: FakeCuda, layer: Callable[..., nn.Module]
) -> None:
    ours, theirs = Recurrent(layer), Recurrent(layer)
    run = torch.compile(ours, backend="glasshouse", options={"executor": "compiled"})
    for _ in range(2):
        x = torch.randn(5, 2, 3)
        for model, call in ((ours, run), (theirs, theirs)):
            model.zero_grad()
            call(x).backward()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)
    graphs = dynamo.compiled_graphs()
    found = {n.op.name for g in graphs for n in g.graph.nodes}
    assert {"recurrent", "recurrent_grad"} <= found
    assert not [s for g in graphs for s in g.runner.module.program.steps if isinstance(s, Fallback)]


def test_statistics_of_norms_are_written_by_kernels(cuda: FakeCuda) -> None:
    """And not copied by PyTorch, nor saved for the backward graph."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.up, self.norm = nn.Linear(6, 4), nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.up(x)).relu()

    def trained(model: nn.Module, run: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for seed in range(4):
            torch.manual_seed(seed)
            loss = run(torch.randn(5, 6)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [*model.parameters(), *model.buffers()]

    ours, theirs = Normed(), Normed()
    run = torch.compile(ours, backend="glasshouse", options={"executor": "compiled"})
    versions = [b._version for b in ours.buffers()]
    made, wanted = trained(ours, run), trained(theirs, theirs)
    for mine, other in zip(made, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    assert all(b._version > v for b, v in zip(ours.buffers(), versions, strict=True))
    forward, backward = (g.runner.module for g in dynamo.compiled_graphs())
    assert len(forward.plan.overwrites) == 3
    # Image, weight, scale, mean and deviation, result, gradient; the averages are of no use.
    assert len(backward.graph.inputs) <= 7
    grads = [p.grad for p in ours.parameters()]
    assert len({g.untyped_storage().data_ptr() for g in grads if g is not None}) == 1
    y = run(torch.randn(5, 6))
    assert y.untyped_storage().nbytes() == y.nbytes, "who keeps a result keeps nothing else"


def test_a_buffer_that_changes_is_read_before_and_behind(cuda: FakeCuda) -> None:
    """Gradients need both values; the next step begins with the new one."""

    class Moving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.linspace(-1, 1, 4))
            self.register_buffer("mean", torch.linspace(1, 2, 4))
            self.register_buffer("rows", torch.zeros(3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = (x * self.scale).sin() * self.mean.clone()
            with torch.no_grad():
                self.mean.mul_(0.5).add_(x.mean(0))
                self.rows[1] += x[0]
            return y + (self.scale * self.mean).exp() + self.rows.sum(0)

    def trained(compiled: bool) -> list[torch.Tensor]:
        model = Moving()
        run = torch.compile(model, backend="glasshouse") if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for seed in range(4):
            torch.manual_seed(seed)
            optimizer.zero_grad()
            run(torch.randn(5, 4)).square().mean().backward()
            optimizer.step()
        return [*model.parameters(), *model.buffers()]

    for ours, theirs in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_traced_step_is_compiled_for_where_its_tensors_lie(cuda: FakeCuda) -> None:
    model, x, y = Small(), torch.randn(4, 8), torch.randn(4, 8)
    loss, twin = nn.MSELoss(), Small()
    graph = gh.trace_training(model, loss, torch.optim.SGD(model.parameters(), 0.1), x, y)
    step = gh.compile(graph.copy(), progress=False)
    assert step.backend.target.name == "cuda"
    optimizer = torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(2):
        expected = loss(twin(x), y)
        torch.testing.assert_close(step(x, y).reshape(()), expected.detach())
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
    traced = gh.trace(model, x)
    assert gh.compile(traced, progress=False).backend.target.name == "cuda"
    assert gh.compile(traced, target="cpu", progress=False).backend.target.name == "cpu"


def test_tensors_on_two_devices_are_one_line() -> None:
    with FakeTensorMode():
        first, second = (torch.empty(2, device=f"cuda:{n}") for n in (0, 1))
    assert devices.gpu_of([first, torch.ones(2)]) == devices.GpuOf("cuda:0", "cuda")
    assert devices.gpu_of([torch.ones(2)]) is None
    with pytest.raises(Unsupported, match="tensors on cuda:0 and cuda:1: kernels run on one GPU"):
        devices.gpu_of([first, second])
    with pytest.raises(Unsupported, match="on cuda:1: kernels run on the first GPU, cuda:0"):
        devices.gpu_of([second])


def test_attention_is_trained_as_one_op(cuda: FakeCuda) -> None:
    """Its products stay in half floats, and nothing of it runs through PyTorch."""
    torch.manual_seed(0)
    mix, x = nn.Linear(16, 48).half(), torch.randn(2, 9, 16).half()

    def model(x: torch.Tensor) -> torch.Tensor:
        q, k, v = mix(x).view(2, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    g = torch.randn(2, 2, 9, 8).half()
    wanted = torch.autograd.grad(model(x), list(mix.parameters()), g)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    ours = torch.autograd.grad(run(x), list(mix.parameters()), g)
    for mine, theirs in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)
    forward, backward = dynamo.compiled_graphs()
    assert "attention" in {n.op.name for n in forward.graph.nodes}
    steps = [*forward.runner.module.program.steps, *backward.runner.module.program.steps]
    assert not any(isinstance(s, Fallback) for s in steps)
    products = [n for n in backward.graph.nodes if n.op.name == "matmul"]
    assert {v.type.dtype.name for n in products for v in n.inputs} == {"float16"}


def test_products_over_odd_rows_read_one_wider_copy(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of logits over 27 words is widened once, for both products that read it."""
    monkeypatch.setattr(odd_products, "_LARGE", 1)
    torch.manual_seed(0)
    model, x = nn.Linear(16, 27, bias=False).half(), torch.randn(40, 16).half().requires_grad_()
    g = torch.randn(40, 27).half()
    wanted = torch.autograd.grad(model(x), [x, model.weight], g)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    for mine, theirs in zip(torch.autograd.grad(run(x), [x, model.weight], g), wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-2)
    forward, backward = dynamo.compiled_graphs()
    assert "pad" not in {n.op.name for n in forward.graph.nodes}
    pads = [n for n in backward.graph.nodes if n.op.name == "pad"]
    assert sorted(n.output.type.shape for n in pads) == [(32, 16), (40, 32)]
    assert sorted(len(n.output.users) for n in pads) == [1, 2]


def test_what_a_trained_layer_saves_is_saved_once(cuda: FakeCuda) -> None:
    """q, k and v are read where the projection left them, forward and backward, attention's result
    by the next product and by the gradient; no kernel copies, no mean is kept."""
    torch.manual_seed(0)
    norm, mix, out = nn.LayerNorm(16).half(), nn.Linear(16, 48).half(), nn.Linear(16, 16).half()
    x = torch.randn(2, 9, 16).half()

    def model(x: torch.Tensor) -> torch.Tensor:
        q, k, v = mix(norm(x)).view(2, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out(seen.transpose(1, 2).reshape(2, 9, 16))

    weights = [p for part in (norm, mix, out) for p in part.parameters()]
    g = torch.randn(2, 9, 16).half()
    wanted = torch.autograd.grad(model(x), weights, g)
    run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    for mine, theirs in zip(torch.autograd.grad(run(x), weights, g), wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)
    forward, backward = dynamo.compiled_graphs()
    assert len(forward.graph.outputs) == 4, "the result, the norm's, the projection's, attention's"
    calls = [s.kernel for s in backward.runner.module.program.steps]
    (attention,) = [k for k in calls if "AttentionGrad" in k.ops]
    assert len(attention.body) == 1, "nothing is copied before it or behind it"
    assert not [k for k in calls if set(k.ops) <= {"Slice", "Reshape", "Permute", "Concat"}]
    assert [k.ops for k in calls if "LayerNormWeightGrad" in k.ops]
