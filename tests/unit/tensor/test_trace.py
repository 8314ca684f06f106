"""Functions and modules become graphs."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.errors import CaptureError
from glasshouse.ir import parse_graph, verify
from glasshouse.numpy_ref import run
from glasshouse.tensor.trace import trace_structured


def test_a_function_with_symbolic_sizes() -> None:
    graph = gh.trace(lambda x, y: (x @ y).relu(), gh.spec(("n", 4)), gh.spec((4, "m")))
    assert str(graph) == (
        "Graph(x: float32[n, 4], x_1: float32[4, m]){\n"
        "  m in 1..\n"
        "  n in 1..\n"
        "  x_2: float32[n, m] = Matmul(x, x_1)\n"
        "  x_3: float32[n, m] = Relu(x_2)\n"
        "  return x_3\n"
        "}"
    )
    verify(graph)
    (out,) = run(graph, [np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)])
    assert out.shape == (3, 5)


def test_symbols_with_ranges() -> None:
    batch = gh.symbol("batch", 1, 64)
    graph = gh.trace(lambda x: x.reshape(-1) * 2, gh.spec((batch, 3)))
    assert "batch in 1..64" in str(graph)
    assert str(graph.outputs[0].type) == "float32[3*batch]"


def test_arrays_tensors_and_torch_tensors_are_inputs() -> None:
    def f(a, b, c, factor):
        return a + b + c * factor

    graph = gh.trace(f, np.ones(2, np.float32), gh.ones(2), torch.ones(2), 3)
    assert [v.node.attrs["name"] for v in graph.inputs] == ["a", "b", "c"]
    ones = np.ones(2, np.float32)
    assert run(graph, [ones, ones, ones])[0].tolist() == [5, 5]


def test_nested_inputs_and_outputs() -> None:
    def f(batch, *, scale):
        return {"sum": batch["x"] + batch["y"][0], "all": (batch["x"] * scale, None, 2.0)}

    given = {"x": gh.spec((2,)), "y": [gh.spec((2,))]}
    traced = trace_structured(f, given, scale=gh.spec(()))
    graph = traced.graph
    assert [v.node.attrs["name"] for v in graph.inputs] == ["batch.x", "batch.y.0", "scale"]
    assert graph.output_names == ["sum", "all.0", "all.2"]
    out = traced.unflatten(run(graph, [np.ones(2, "f"), np.ones(2, "f"), np.float32(3)]))
    assert out["sum"].tolist() == [2, 2]
    assert out["all"][0].tolist() == [3, 3]
    assert out["all"][1] is None
    assert out["all"][2] == 2


def test_named_tuples_keep_their_type() -> None:
    Pair = namedtuple("Pair", "first second")
    traced = trace_structured(lambda x: Pair(x + 1, x * 2), gh.spec((1,)))
    assert traced.graph.output_names == ["first", "second"]
    assert traced.unflatten([1, 2]) == Pair(1, 2)


def test_parameters_are_named_constants() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False))
    graph = gh.trace(model, gh.spec(("n", 2)))
    names = [n.attrs["name"] for n in graph.nodes if n.op.name == "constant"]
    assert names == ["0.weight", "0.bias", "2.weight"]
    x = np.ones((4, 2), np.float32)
    np.testing.assert_allclose(run(graph, [x])[0], model(gh.array(x)).numpy())


def test_parameters_as_variables_on_request() -> None:
    graph = gh.trace(nn.Linear(2, 3), gh.spec((1, 2)), variables=True)
    assert [n.attrs["name"] for n in graph.nodes if n.op.name == "variable"] == ["weight", "bias"]


def test_several_modules_have_their_own_names() -> None:
    one, two = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    graph = gh.trace(lambda x: two(one(x)), gh.spec((1, 2)))
    names = [n.attrs["name"] for n in graph.nodes if n.op.name == "constant"]
    assert names == ["one.weight", "two.weight"]


def test_work_from_before_is_data() -> None:
    bias = gh.arange(3, dtype="float32") * 2  # pending
    graph = gh.trace(lambda x: x + bias, gh.spec((3,)))
    assert [n.op.name for n in graph.nodes] == ["input", "constant", "add"]
    assert run(graph, [np.zeros(3, "f")])[0].tolist() == [0, 2, 4]


def test_work_inside_stays_in_the_graph() -> None:
    graph = gh.trace(lambda x: x + gh.arange(3, dtype="float32"), gh.spec((3,)))
    assert [n.op.name for n in graph.nodes] == ["input", "arange", "add"]


def test_an_unused_input_stays_an_input() -> None:
    graph = gh.trace(lambda x, y: x + 1, gh.spec((1,)), gh.spec((2,)))
    assert len(graph.inputs) == 2
    verify(graph)


def test_ids_and_text_are_the_same_every_time() -> None:
    model = nn.Linear(2, 2)
    graphs = [gh.trace(model, gh.spec((1, 2))) for _ in range(2)]
    assert [n.id for n in graphs[0].nodes] == list(range(len(graphs[0])))
    assert str(graphs[0]) == str(graphs[1])
    assert str(parse_graph(str(graphs[0]))) == str(graphs[0])


def test_data_of_a_traced_tensor_is_not_known() -> None:
    with pytest.raises(CaptureError, match=r"where\(\)") as caught:
        gh.trace(lambda x: x if x.sum() > 0 else -x, gh.spec((2,)))
    assert __file__ in str(caught.value)
    kept = gh.array([1.0, 2.0])
    gh.trace(lambda x: x * kept.sum().item(), gh.spec((2,)))  # its own data is


def test_results_that_are_not_tensors_are_refused() -> None:
    with pytest.raises(CaptureError, match=r"str for a\.0"):
        gh.trace(lambda x: {"a": ["no"]}, gh.spec((2,)))
    with pytest.raises(CaptureError, match="cannot be traced"):
        gh.trace(3, gh.spec((2,)))


def test_a_training_step_is_a_graph_with_updates() -> None:
    gh.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    opt = optim.Adam(model.named_parameters(), lr=0.05)

    def step(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        opt.step(loss)
        return loss

    before = model[0].weight.numpy().copy()
    graph = gh.trace(step, gh.spec((8, 2)), gh.spec((8, 1)))
    verify(graph)
    np.testing.assert_array_equal(model[0].weight.numpy(), before)
    assert {"0.weight", "0.weight.exp_avg", "step"} <= {v.attrs["name"] for v in graph.updates}
    phases = {n.origin.label("phase") for n in graph.nodes if n.inputs}
    assert phases == {None, "backward", "optimiser"}

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 2), np.float32), rng.standard_normal((8, 1), np.float32)
    state: dict[str, np.ndarray] = {}
    captured = [float(run(graph, [x, y], variables=state)[0]) for _ in range(4)]
    lazy = [step(gh.array(x), gh.array(y)).item() for _ in range(4)]
    np.testing.assert_allclose(captured, lazy, 1e-6)
    np.testing.assert_allclose(state["0.weight"], model[0].weight.numpy(), 1e-6)
    assert captured[3] < captured[0]


def test_backward_inside_a_capture_leaves_no_gradients_behind() -> None:
    w = gh.array([2.0], requires_grad=True)

    def f(x):
        (w * x).sum().backward()
        return w.grad

    graph = gh.trace(f, gh.spec((1,)))
    assert w.grad is None
    assert run(graph, [np.array([5], "f")])[0].tolist() == [5]


def test_running_statistics_are_variables() -> None:
    norm = nn.BatchNorm1d(3)
    graph = gh.trace(norm, gh.spec((4, 3)))
    assert {v.attrs["name"] for v in graph.updates} == {
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }
    assert norm.running_mean.tolist() == [0, 0, 0]
    norm.eval()
    assert not gh.trace(norm, gh.spec((4, 3))).updates


def test_captured_dropout_differs_from_run_to_run() -> None:
    graph = gh.trace(lambda x: nn.functional.dropout(x, 0.5), gh.spec((100,)))
    state: dict[str, np.ndarray] = {}
    ones = np.ones(100, np.float32)
    first, second = (run(graph, [ones], variables=state)[0] for _ in range(2))
    assert first.tolist() != second.tolist()
    assert set(first) == set(second) == {0, 2}


def test_a_traced_tensor_that_got_away_is_in_nobodys_way() -> None:
    escaped = []

    def f(x):
        escaped.append(x * 2)
        return x

    gh.trace(f, gh.spec((1,)))
    y = gh.array([1.0]) + 1
    gh.sync_all()
    assert not y.is_pending
    assert repr(escaped[0]) == str(escaped[0]) == "Tensor(float32[1], pending)"
    with pytest.raises(CaptureError):
        escaped[0].numpy()


def test_what_fails_inside_leaves_everything_as_it_was() -> None:
    w = gh.array([1.0], requires_grad=True)

    def f(x):
        w.assign(w + x)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        gh.trace(f, gh.spec((1,)))
    assert w.tolist() == [1]
    assert gh.trace(lambda x: x, gh.spec((1,))).outputs  # and one can trace again
