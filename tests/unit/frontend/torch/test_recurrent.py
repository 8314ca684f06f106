"""PyTorch's recurrent layers as graphs: values and gradients against PyTorch itself."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.frontend import dynamo
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")

_LAYERS: dict[str, tuple[Any, dict[str, Any], tuple[int, int, int]]] = {
    "lstm": (nn.LSTM, {}, (7, 3, 5)),
    "lstm layers, both ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True}, (4, 2, 17)),
    "lstm batch first": (nn.LSTM, {"batch_first": True}, (3, 6, 33)),
    "lstm without bias": (nn.LSTM, {"bias": False}, (1, 1, 1)),
    "lstm projected": (nn.LSTM, {"proj_size": 3, "bidirectional": True}, (4, 2, 9)),
    "gru": (nn.GRU, {"num_layers": 2}, (5, 4, 16)),
    "gru both ways": (nn.GRU, {"bidirectional": True, "batch_first": True}, (2, 6, 7)),
    "gru without bias": (nn.GRU, {"bias": False}, (3, 1, 40)),
    "rnn": (nn.RNN, {}, (6, 5, 20)),
    "rnn relu": (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}, (3, 2, 8)),
}  # fmt: skip
FEATURES = 6


class _Given(nn.Module):
    """A layer that is given its first states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, *first: torch.Tensor) -> Any:
        return self.layer(x, first if len(first) > 1 else first[0])


def _made(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, list[torch.Tensor]]:
    torch.manual_seed(0)
    kind, options, (a, b, hidden) = _LAYERS[name]
    layer = kind(FEATURES, hidden, **options).to(dtype)
    batch = a if layer.batch_first else b
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    first = [torch.randn(count, batch, layer.proj_size or hidden, dtype=dtype)]
    if kind is nn.LSTM:
        first.append(torch.randn(count, batch, hidden, dtype=dtype))
    return _Given(layer), [torch.randn(a, b, FEATURES, dtype=dtype), *first]


def _flat(out: Any) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else [t for o in out for t in _flat(o)]


class _All(nn.Module):
    """Several layers in one program, which compiles in a fraction of the time of several."""

    def __init__(self, names: Sequence[str], dtype: torch.dtype) -> None:
        super().__init__()
        made = [_made(name, dtype) for name in names]
        self.layers = nn.ModuleList(layer for layer, _ in made)
        self.counts = [len(inputs) for _, inputs in made]
        self.inputs = [x for _, inputs in made for x in inputs]

    def forward(self, *given: torch.Tensor) -> Any:
        rest = iter(given)
        both = zip(self.layers, self.counts, strict=True)
        return _flat([layer(*[next(rest) for _ in range(n)]) for layer, n in both])


def _runs_alone(module: Any) -> None:
    """Nothing is left to PyTorch or to a loop in Python."""
    assert not [s for s in module.program.steps if isinstance(s, Fallback)]


_NEAR = {torch.float32: 3e-6, torch.bfloat16: 1.6e-2}


@pytest.mark.parametrize("dtype", _NEAR, ids=str)
def test_layers_equal_pytorch(dtype: torch.dtype) -> None:
    names = [*_LAYERS] if dtype is torch.float32 else ["lstm"]
    model = _All(names, dtype)
    inputs = model.inputs
    compiled = gh.compile(model.eval(), *inputs)
    _runs_alone(compiled)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(*(x.double() for x in inputs))
    near = _NEAR[dtype]
    for ours, theirs in zip(compiled(*inputs), expected, strict=True):
        got = torch.as_tensor(ours)
        assert got.dtype is dtype
        torch.testing.assert_close(got.double(), theirs, rtol=near, atol=near)


_TRAINED = ("lstm layers, both ways", "lstm projected", "gru both ways", "rnn", "rnn relu")


class _Loss(nn.Module):
    """Layers whose inputs and first states are weights, too, so that all gradients count."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.model = _All(names, torch.float64)
        self.given = nn.ParameterList(self.model.inputs)

    def forward(self, scale: torch.Tensor) -> torch.Tensor:
        outputs = self.model(*self.given)
        return sum(((o * scale).sin() * (i + 1)).mean() for i, o in enumerate(outputs))


@pytest.mark.parametrize("names", [_TRAINED[2:4], pytest.param(_TRAINED, marks=pytest.mark.slow)])
def test_training_equals_pytorch(names: Sequence[str]) -> None:
    model, scale = _Loss(names), torch.tensor(1.3, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    graph = gh.trace_training(model, None, optimizer, scale)
    module = gh.compile(graph)
    _runs_alone(module)
    state: dict[str, Any] = {}
    for _ in range(3):
        run(graph, [scale.numpy()], variables=state)
        optimizer.zero_grad()
        wanted = model(scale)
        wanted.backward()
        optimizer.step()
        assert float(module(scale)) == pytest.approx(wanted.item(), rel=1e-10)
    for key, value in model.named_parameters():
        np.testing.assert_allclose(state[key], value.detach().numpy(), 1e-9, 1e-11, err_msg=key)


def test_values_without_end_stay_where_they_are() -> None:
    """Infinite gates saturate; NaN in one sample leaves the others alone."""
    module, inputs = _made("lstm")
    x = inputs[0]
    x[2, 0, 1] = torch.nan
    x[3, 1] = torch.inf
    x[4, 2] = 1e30
    compiled = gh.compile(module.eval(), *inputs)
    with torch.no_grad():
        expected = _flat(module(*inputs))
    for ours, theirs in zip(_flat(compiled(*inputs)), expected, strict=True):
        torch.testing.assert_close(
            torch.as_tensor(ours), theirs, rtol=2e-5, atol=2e-6, equal_nan=True
        )


def test_dropout_between_layers() -> None:
    layer = nn.GRU(FEATURES, 8, 2, dropout=0.5)
    graph = gh.trace(layer.train(), torch.randn(3, 2, FEATURES))
    assert [n.op.name for n in graph.nodes].count("dropout") == 1


def test_two_threads_give_the_same() -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(32, 200).eval()
    x = torch.randn(5, 12, 32)
    results = [gh.compile(layer, x, threads=n)(x)[0] for n in (1, 2)]
    np.testing.assert_array_equal(*(np.asarray(r) for r in results))


_CELLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTMCell, {}),
    "lstm without bias": (nn.LSTMCell, {"bias": False}),
    "gru": (nn.GRUCell, {}),
    "gru without bias": (nn.GRUCell, {"bias": False}),
    "tanh": (nn.RNNCell, {}),
    "relu": (nn.RNNCell, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize("name", _CELLS)
def test_cells_of_any_number_of_rows(name: str) -> None:
    torch._dynamo.reset()
    make, options = _CELLS[name]
    cell = make(5, 7, **options).eval()

    def step(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:
        return cell(x, (h, c)) if isinstance(cell, nn.LSTMCell) else cell(x * 2, h * c)

    settings = {"executor": "reference"}
    run_step = torch.compile(step, backend="glasshouse", options=settings, dynamic=True)
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for rows in (3, 5):
            given = torch.randn(rows, 5), torch.randn(rows, 7), torch.randn(rows, 7)
            torch.testing.assert_close(run_step(*given), step(*given))
    assert all(n.op.name != "opaque" for n in dynamo.compiled_graphs()[-1].graph.nodes)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_cells_as_a_gpu_spells_them(cell: str, biased: bool) -> None:
    """Products and one fused op, which PyTorch has for GPUs alone."""
    gates, width = (4, 7) if cell == "lstm" else (3, 7)
    layer = (nn.LSTMCell if cell == "lstm" else nn.GRUCell)(5, width, bias=biased)
    fused = getattr(torch.ops.aten, f"_thnn_fused_{cell}_cell").default
    graph, mode = torch.fx.Graph(), torch._subclasses.FakeTensorMode()
    x, h, c = torch.randn(3, 5), torch.randn(3, width), torch.randn(3, width)
    shares = x @ layer.weight_ih.T, h @ layer.weight_hh.T
    biases = [layer.bias_ih, layer.bias_hh] if biased else []
    given = [t.detach() for t in (*shares, c if cell == "lstm" else h, *biases)]
    nodes = [graph.placeholder(f"x{i}") for i in range(len(given))]
    call = graph.call_function(fused, tuple(nodes))
    for node, tensor in zip(nodes, given, strict=True):
        node.meta["val"] = mode.from_tensor(tensor)
    with mode:
        room = torch.empty(3, (gates if cell == "lstm" else 5) * width)
        like = [torch.empty(3, width) for _ in range(2 if cell == "lstm" else 1)]
    call.meta["val"] = (*like, room)
    parts = []
    for number, val in enumerate(like):
        parts.append(graph.call_function(operator.getitem, (call, number)))
        parts[-1].meta["val"] = val
    graph.output(tuple(parts))
    traced = gh.trace(torch.fx.GraphModule(nn.Module(), graph), *given)
    assert all(n.op.name != "opaque" for n in traced.nodes)
    expected = layer(x, (h, c)) if cell == "lstm" else [layer(x, h)]
    for ours, theirs in zip(run(traced, [t.numpy() for t in given]), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), 1e-5, 1e-6)


# It is this test that exports.
@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")
def test_an_axis_that_the_last_states_lack_is_not_believed() -> None:
    """As PyTorch 2.11 says it of an LSTM on a GPU."""
    layer, x = nn.LSTM(4, 6, 2), torch.randn(5, 3, 4)
    program = torch.export.export(layer.eval(), (x,))
    (call,) = (n for n in program.graph.nodes if n.target is torch.ops.aten.lstm.input)
    call.meta["val"] = tuple(v.unsqueeze(1) if i else v for i, v in enumerate(call.meta["val"]))
    traced = gh.trace(program)
    assert all(n.op.name != "opaque" for n in traced.nodes)
    out, (h, c) = layer(x)
    for ours, theirs in zip(run(traced, [x.numpy()]), (out, h, c), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), 1e-5, 1e-6)
