"""Recurrent layers trained through `torch.compile` are core ops, and give what eager gives."""

import copy

import pytest
import torch
from torch import nn

from frontend_torch import assert_same
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import whole_recurrent

STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 3, 4

LAYERS = {
    "lstm, two layers, both ways": lambda: nn.LSTM(WIDTH, HIDDEN, 2, bidirectional=True),
    "lstm, batch first, no bias": lambda: nn.LSTM(WIDTH, HIDDEN, bias=False, batch_first=True),
    "lstm, projected, both ways": lambda: nn.LSTM(WIDTH, HIDDEN, proj_size=2, bidirectional=True),
    "lstm, float64": lambda: nn.LSTM(WIDTH, HIDDEN).double(),
    "gru, two layers, both ways": lambda: nn.GRU(WIDTH, HIDDEN, 2, bidirectional=True),
    "gru, no bias": lambda: nn.GRU(WIDTH, HIDDEN, bias=False),
    "tanh, both ways": lambda: nn.RNN(WIDTH, HIDDEN, bidirectional=True),
    "relu": lambda: nn.RNN(WIDTH, HIDDEN, nonlinearity="relu"),
}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    dynamo.reset()
    torch.manual_seed(0)


class Read(nn.Module):
    """All that a layer gives is read."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, first=None):
        y, last = self.layer(x, first)
        ends = last if isinstance(last, tuple) else (last,)
        return y.pow(2).sum() + sum(end.sin().sum() for end in ends)


def ops():
    return {n.op.name for made in dynamo.compiled_graphs() for n in made.graph.nodes}


def compiled(model, executor="reference"):
    return torch.compile(model, backend="glasshouse", options={"executor": executor})


def first_states(layer, dtype):
    ways = layer.num_layers * (2 if layer.bidirectional else 1)
    state = torch.randn(ways, BATCH, layer.proj_size or HIDDEN, dtype=dtype)
    if not isinstance(layer, nn.LSTM):
        return state.requires_grad_()
    return state.requires_grad_(), torch.randn(ways, BATCH, HIDDEN, dtype=dtype).requires_grad_()


@pytest.mark.filterwarnings("ignore:.*oneDNN.*")  # eager's, about projections
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_eagers(name):
    model = Read(LAYERS[name]())
    twin, dtype = copy.deepcopy(model), next(model.parameters()).dtype
    x = torch.randn(STEPS, BATCH, WIDTH, dtype=dtype)
    x = (x.transpose(0, 1).contiguous() if model.layer.batch_first else x).requires_grad_()
    first = first_states(model.layer, dtype)
    got, wanted = compiled(model)(x, first), twin(x, first)
    assert_same(got, wanted)
    given = [x, *(first if isinstance(first, tuple) else [first])]
    ours = torch.autograd.grad(got, [*given, *model.parameters()], retain_graph=True)
    again = torch.autograd.grad(got, [*given, *model.parameters()])
    theirs = torch.autograd.grad(wanted, [*given, *twin.parameters()])
    for a, b, c in zip(ours, again, theirs, strict=True):
        assert_same(a, c)
        assert torch.equal(a, b), "a second time"
    assert {"recurrent", "recurrent_grad"} <= ops()
    assert "opaque" not in ops()


def test_a_compiled_loop_trains_as_eager_does():
    model = nn.Sequential()
    model.add_module("read", Read(nn.LSTM(WIDTH, HIDDEN)))
    twin = copy.deepcopy(model)
    losses = []
    for net, run in ((model, compiled(model, "compiled")), (twin, twin)):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        torch.manual_seed(1)
        for step in range(4):
            x = torch.randn(STEPS, BATCH, WIDTH)
            if step == 2:
                with torch.no_grad():
                    losses.append(run(x))  # in between
            optimizer.zero_grad()
            loss = run(x)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    for a, b in zip(losses[:5], losses[5:], strict=True):
        assert_same(a, b)


def test_dropout_between_layers_is_taken():
    model = Read(nn.LSTM(WIDTH, HIDDEN, 2, dropout=0.5))
    fast, x = compiled(model), torch.randn(STEPS, BATCH, WIDTH)
    assert len({float(fast(x).detach()) for _ in range(4)}) > 1
    model.eval()
    assert_same(fast(x), model(x))


def test_inside_of_autocast_pytorch_runs_them():
    model = Read(nn.LSTM(WIDTH, HIDDEN))
    x = torch.randn(STEPS, BATCH, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            wanted = model(x)
        except RuntimeError as error:  # oneDNN's layer wants AVX-512
            pytest.skip(f"eager PyTorch has no such layer on this processor: {error}")
        got = compiled(model)(x)
    assert got.dtype is wanted.dtype
    assert_same(got.float(), wanted.float())


def test_the_graph_can_be_run_by_pytorch():
    """As it is where a graph cannot be compiled: what the ops of ours mean there."""
    layer, x = nn.GRU(WIDTH, HIDDEN, 2), torch.randn(STEPS, BATCH, WIDTH)
    first = torch.randn(2, BATCH, HIDDEN)
    given = (x, first, [p.detach() for p in layer.parameters()], True, 2, 0.0, True, False, False)
    for a, b in zip(whole_recurrent._layers("gru", *given), layer(x, first), strict=True):
        assert_same(a, b.detach())
