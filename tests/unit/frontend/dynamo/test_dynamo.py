"""`torch.compile(backend="glasshouse")`, mostly on the reference executor."""

import copy

import pytest
import torch
from torch import nn

from frontend_torch import assert_same
from glasshouse.errors import BuildError, NotCompiled, OnReference, Unsupported
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import entry


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    dynamo.reset()


def compiled(model, executor="reference", **options):
    return torch.compile(model, backend="glasshouse", options={"executor": executor}, **options)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.table = nn.Embedding(10, 8)
        self.head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 5))

    def forward(self, x, i):
        y = self.pool(torch.relu(self.norm(self.conv(x)))).mean((2, 3))
        return self.head(y + self.table(i)).softmax(-1)


def test_inference_keeps_layers_whole():
    model = Net().eval()
    x, i = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))
    with torch.no_grad():
        assert_same(compiled(model)(x, i), model(x, i))
    (only,) = dynamo.compiled_graphs()
    assert only.phase == "inference"
    assert {"conv", "batch_norm", "layer_norm"} <= {n.op.name for n in only.graph.nodes}


def test_training_gives_pytorchs_gradients_and_statistics():
    torch.manual_seed(0)
    model = Net()
    twin = copy.deepcopy(model)
    x, i = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))
    got, wanted = compiled(model)(x, i), twin(x, i)
    assert_same(got, wanted)
    (got**2).sum().backward()
    (wanted**2).sum().backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert_same(a.grad, b.grad)
    for a, b in zip(model.buffers(), twin.buffers(), strict=True):
        assert_same(a, b)
    phases = [c.phase for c in dynamo.compiled_graphs()]
    assert phases == ["forward", "backward"]
    assert not any(n.op.name == "opaque" for c in dynamo.compiled_graphs() for n in c.graph.nodes)


def test_constants_are_not_saved_for_the_backward_graph():
    """Where an interpolation reads is decided by sizes alone: both graphs know it."""
    x = torch.randn(1, 2, 4, 4, requires_grad=True)

    def model(x):
        return nn.functional.interpolate(x.sin(), (7, 9), mode="bilinear", align_corners=True)

    weight = torch.randn(1, 2, 7, 9)
    (wanted,) = torch.autograd.grad(model(x), x, weight)
    (got,) = torch.autograd.grad(compiled(model)(x), x, weight)
    assert_same(got, wanted)
    forward, backward = dynamo.compiled_graphs()
    assert len(backward.graph.inputs) == 2, "the image and the gradient alone"
    assert len(forward.graph.outputs) == 1


def test_what_is_drawn_is_saved_for_the_backward_graph():
    x = torch.randn(50, requires_grad=True)
    made = compiled(lambda x: (x * torch.rand(50)).sin())(x)
    (got,) = torch.autograd.grad(made.sum(), x)
    drawn = made.detach().asin() / x.detach()
    plain = x.detach().abs().gt(0.1) & x.detach().abs().lt(1.5)
    assert_same(got[plain], (made.detach().asin().cos() * drawn)[plain])


def test_graph_breaks_give_several_graphs():
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    x = torch.randn(3)
    assert_same(compiled(function)(x), function(x))
    assert len(dynamo.compiled_graphs()) == 2


def test_dynamic_shapes_are_compiled_once():
    def function(x, n):
        return (x[:n] * n).reshape(-1).sum() + x.shape[1]

    run = compiled(function, dynamic=True)
    for rows, n in ((4, 2), (5, 3), (9, 4)):
        x = torch.randn(rows, 6)
        assert_same(run(x, n), function(x, n))
    assert len(dynamo.compiled_graphs()) == 1


def test_sizes_of_ranges_with_a_step_that_is_a_float():
    def function(x):
        length = x.shape[0]
        return x.sum() + torch.arange(length - 1, -length, -1.0), torch.arange(0.0, length, 1.0)

    run = compiled(function, dynamic=True)
    for length in (5, 6, 9):
        x = torch.randn(length)
        torch.testing.assert_close(run(x), function(x))


def test_the_compiled_module_and_its_recording_are_at_hand():
    model = nn.Sequential(nn.Linear(6, 5), nn.GELU()).eval()
    x = torch.randn(3, 6)
    with torch.no_grad():
        assert_same(compiled(model, "compiled")(x), model(x))
    (only,) = dynamo.compiled_graphs()
    assert only.runner.module is not None
    assert only.recording is not None


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="no option speed"):
        torch.compile(nn.ReLU(), backend="glasshouse", options={"speed": 2})(torch.ones(2))


def test_a_graph_on_the_reference_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole graph falls back: one warning with the reason, which the recording has too."""

    def broken(*_: object, **__: object) -> None:
        raise BuildError("the compiler gave up on kernel 3")

    monkeypatch.setattr("glasshouse.runtime.compiler.compile_optimized", broken)
    torch._dynamo.reset()
    dynamo.reset()
    model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    run = torch.compile(model, backend="glasshouse")
    with torch.no_grad(), pytest.warns(OnReference) as told:
        got = run(x)
    torch.testing.assert_close(got, model(x).detach())
    assert [str(w.message) for w in told] == [
        "inference runs on the reference executor, which is slow: the compiler gave up on kernel 3"
    ]
    (part,) = dynamo.compiled_graphs()
    assert part.recording.header.facts["not compiled"] == "the compiler gave up on kernel 3"
    assert part.recording.graphs


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.out = nn.LSTM(4, 6, bidirectional=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.cells(x)[0]).softmax(-1)


def test_recurrent_layers_are_in_the_graph_where_no_gradient_is_needed():
    model, x = Tagger(), torch.randn(5, 2, 4)
    fast = compiled(model)
    with torch.no_grad():
        assert_same(fast(x), model(x))
    (only,) = dynamo.compiled_graphs()
    assert "softmax" in {n.op.name for n in only.graph.nodes}
    assert not torch._dynamo.config.allow_rnn  # other backends keep what the user has set


def test_recurrent_layers_are_trained():
    model = Tagger()
    twin, x = copy.deepcopy(model), torch.randn(5, 2, 4)
    fast = compiled(model)
    fast(x).pow(2).sum().backward()
    twin(x).pow(2).sum().backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert_same(a.grad, b.grad)


def test_logarithms_of_sigmoids_are_trained():
    """PyTorch's gradient reads a buffer of its forward op; ours was another one, so wrong."""
    x = torch.tensor([-120.0, -3.0, -0.0, 1.0, 120.0], requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    made = compiled(nn.functional.logsigmoid)(x)
    made.pow(2).sum().backward()
    nn.functional.logsigmoid(twin).pow(2).sum().backward()
    assert_same(x.grad, twin.grad)
    assert not any(n.op.name == "opaque" for g in dynamo.compiled_graphs() for n in g.graph.nodes)


def test_another_backend_does_not_capture_recurrent_layers():
    graphs = []
    model, x = Tagger(), torch.randn(5, 2, 4)
    other = torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph)
    with torch.no_grad():
        assert_same(other(x), model(x))
    assert not any("lstm" in str(n.target) for g in graphs for n in g.graph.nodes)


@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_a_backward_graph_that_cannot_be_captured_is_pytorchs(monkeypatch, executor):
    """It is compiled in the midst of `loss.backward()`, where no backend is asked again."""
    plain = entry.import_graph_module

    def capture(*args, phase="", **known):
        if phase == "backward":
            raise Unsupported("nobody knows how")
        return plain(*args, phase=phase, **known)

    monkeypatch.setattr(entry, "import_graph_module", capture)
    model, twin = (nn.Sequential(nn.Linear(3, 4), nn.Tanh()) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 3)
    run = torch.compile(model, backend="glasshouse", options={"executor": executor})
    loss = run(x).pow(2).sum()
    if executor != "auto":
        with pytest.raises(Unsupported):
            loss.backward()
        return
    with pytest.warns(NotCompiled, match="nobody knows how"):
        loss.backward()
    twin(x).pow(2).sum().backward()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_sizes_that_no_tensor_has_are_served_on_the_quick_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a graph break a size comes as a number of its own."""

    def by_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
        return torch.softmax(x.reshape(rows, 4, 3), -1).sum(1)

    run = torch.compile(by_rows, backend="glasshouse", dynamic=True)
    with torch.no_grad():
        for rows in (5, 7, 5, 9):
            x = torch.randn(rows * 4, 3)
            torch.testing.assert_close(run(x, rows), by_rows(x, rows))
            (graph,) = dynamo.compiled_graphs()
            assert "size:" in " ".join(graph.runner.module.input_names)
            monkeypatch.setattr(graph.runner.module, "_run", None)  # the general path
