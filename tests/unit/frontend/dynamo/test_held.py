"""Weights of a torch.compile'd model are prepared once, and again when they changed."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from glasshouse.errors import Unsupported
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import entry, held
from glasshouse.frontend.dynamo.held import HeldModules
from glasshouse.frontend.dynamo.names import plain


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 48)  # more than a page: its stamp takes samples
        self.last = torch.nn.Linear(48, 8)
        self.register_buffer("shift", torch.ones(8))
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Any) -> Any:
        return self.last(torch.relu(self.first(x))) * self.scale + self.shift


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch.manual_seed(0)
    torch._dynamo.reset()
    dynamo.reset()
    with torch.no_grad():
        yield


X = torch.linspace(-1.0, 1.0, 192).reshape(3, 64)


def _swap(model: Any) -> None:
    model.last = torch.nn.Linear(48, 8)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda m: m.first.weight.add_(1.0),
    "through data": lambda m: m.first.weight.data.mul_(0.5),
    "other data": lambda m: setattr(m.first.weight, "data", torch.randn(48, 64)),
    "state dict": lambda m: m.load_state_dict(Net().state_dict()),
    "a number that is built into the code": lambda m: m.scale.fill_(7.0),
    "a buffer": lambda m: m.shift.zero_(),
    "one element of a small one, through data": lambda m: m.last.bias.data[3:4].add_(1.0),
    "another module in its place": _swap,
}


def test_changes_are_noticed() -> None:
    model = Net().eval()
    compiled = torch.compile(model, backend="glasshouse")
    torch.testing.assert_close(compiled(X), model(X))
    for what, change in CHANGES.items():
        before = model(X)
        for _ in range(3):  # the weights are those of the last call: the quick way
            torch.testing.assert_close(compiled(X), before, msg=what)
        change(model)
        assert not torch.equal(before, model(X)), what
        torch.testing.assert_close(compiled(X), model(X), msg=what)
    assert len(dynamo.compiled_graphs()) == 1
    assert dynamo.compiled_graphs()[0].captured.inputs == [2]  # x alone: weights are no arguments


def test_weights_are_not_prepared_again_while_they_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net().eval()
    compiled = torch.compile(model, backend="glasshouse")
    compiled(X)
    module = dynamo.compiled_graphs()[0].runner.module
    monkeypatch.setattr(module, "set_many_constants", None)  # a call would fail
    for _ in range(3):
        compiled(X)


def test_weights_that_change_often_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    compile_graph = entry.compiled
    monkeypatch.setattr(
        entry, "compiled", lambda *a, **k: (made.append(a), compile_graph(*a, **k))[1]
    )
    monkeypatch.setattr(held, "FEW", 4)
    model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8)).eval()
    compiled = torch.compile(model, backend="glasshouse")

    def agrees(calls: int) -> int:
        for _ in range(calls):
            torch.testing.assert_close(compiled(X), model(X))
        return len(made)

    assert agrees(3) == 1
    for turn in range(6):  # the second time anew, the third time so that they can be set
        for weight in (*model.parameters(), *model.buffers()):
            if weight.is_floating_point():
                weight.mul_(1.1)
        assert agrees(1 + turn % 2) == min(turn + 2, 3)
    assert agrees(8) == 4, "they stay, and are folded again"
    model[1].running_mean.add_(1.0)  # type: ignore[operator]  # a tensor
    assert agrees(8) == 5, "they changed once, after many calls"


def test_calls_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net().eval()
    compiled = torch.compile(model, backend="glasshouse", dynamic=False)
    for _ in range(2):
        compiled(X)
    wanted = model(X)
    asked: list[Any] = []
    find = HeldModules.module
    monkeypatch.setattr(
        HeldModules, "module", lambda self, flat: (asked.append(flat), find(self, flat))[1]
    )
    torch.testing.assert_close(compiled(X), wanted)
    assert not asked
    model.last.bias.data[3:4].add_(1.0)
    torch.testing.assert_close(compiled(X), model(X))
    assert len(asked) == 1


def test_a_graph_is_imported_once_and_taken_up_for_other_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry, "find_kept", lambda key, examples: None)  # by an earlier process
    imports: list[Any] = []
    taken_up: list[Any] = []
    inside, again = entry.import_graph_module, entry.KeptGraph.captured

    def counted(*given: Any) -> Any:
        imports.append(given)
        return inside(*given)

    def counted_again(kept: Any, tensors: Any) -> Any:
        taken_up.append(tensors)
        return again(kept, tensors)

    monkeypatch.setattr(entry, "import_graph_module", counted)
    monkeypatch.setattr(entry.KeptGraph, "captured", counted_again)
    model = Net().eval()
    compiled = torch.compile(model, backend="glasshouse")
    compiled(X)
    assert (len(imports), len(taken_up)) == (1, 0)
    (graph,) = dynamo.compiled_graphs()
    assert "captured" not in graph.recording.header.facts, "this process captured it"
    before = model.first.weight  # may come back
    model.first.weight = torch.nn.Parameter(torch.randn(48, 64))
    torch.testing.assert_close(compiled(X), model(X))
    assert (len(imports), len(taken_up)) == (1, 1)
    assert before is not model.first.weight


def test_pytorchs_graph_is_let_go_when_it_was_captured() -> None:
    kept: list[Any] = []

    def watched(module: Any, examples: Any) -> Any:
        kept.append(weakref.ref(module.graph))
        return dynamo.backend(module, examples)

    model = Net().eval()
    compiled = torch.compile(model, backend=watched)
    compiled(X)
    gc.collect()
    assert [ref() for ref in kept] == [None]
    torch.testing.assert_close(compiled(X), model(X))


def test_models_that_share_a_graph_keep_their_weights() -> None:
    calls = torch.compile(lambda model, x: model(x), backend="glasshouse")
    one, two = Net().eval(), Net().eval()
    for model in (one, two, one, two):
        torch.testing.assert_close(calls(model, X), model(X))
    assert len(dynamo.compiled_graphs()) == 1


def test_what_the_graph_writes_to_is_no_constant() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8)).train()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="glasshouse")
    for _ in range(2):
        torch.testing.assert_close(compiled(X), twin(X))
        torch.testing.assert_close(model[1].running_mean, twin[1].running_mean)


def test_lines_and_modules_are_kept() -> None:
    torch.compile(Net().eval(), backend="glasshouse")(X)
    graph = dynamo.compiled_graphs()[0].graph
    made = [n for n in graph if n.op.name in ("matmul", "relu", "multiply", "add")]
    assert made
    assert all("test_held.py:" in str(n.origin.source) for n in made)
    paths = {n.origin.source.path for n in made if n.op.name == "matmul"}
    assert paths == {"first", "last"}


def test_options_are_checked() -> None:
    model = Net().eval()
    compiled = torch.compile(model, backend="glasshouse", options={"hold_weights": False})
    torch.testing.assert_close(compiled(X), model(X))
    model.first.weight.data[5, 5] += 1.0  # neither counted nor, in a large one, sampled
    torch.testing.assert_close(compiled(X), model(X))
    with pytest.raises(Exception, match="has no option weights") as caught:
        torch.compile(Net().eval(), backend="glasshouse", options={"weights": 1})(X)
    assert isinstance(caught.value, Unsupported) or "hold_weights" in str(caught.value)


def test_names_are_the_users() -> None:
    assert (
        plain("L['self']._modules['layer']._modules['0']._parameters['weight']") == "layer.0.weight"
    )
    assert plain("L['self'].encoder.layer[3].bias") == "encoder.layer.3.bias"
    assert plain("L['x']") == ""


class Averaged(torch.nn.Module):
    """Its buffer is another tensor in every call, its weights are another's average."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x: Any) -> Any:
        self.mean = 0.5 * self.mean + x.mean(0)
        torch._dynamo.graph_break()
        return self.layer(x) + self.mean


def test_tensors_in_the_place_of_others_take_over_their_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[HeldModules] = []
    compiles = 0
    original, compile_ = HeldModules.__init__, entry.compiled

    def noted(self: HeldModules, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        made.append(self)

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal compiles
        compiles += 1
        return compile_(*arguments, **keywords)

    monkeypatch.setattr(HeldModules, "__init__", noted)
    monkeypatch.setattr(entry, "compiled", counted)
    model = Averaged().eval()
    eager, run = copy.deepcopy(model), torch.compile(model, backend="glasshouse")
    kept = []  # so that no tensor comes to the memory of an earlier one
    for step in range(9):
        x = torch.randn(16, 64)
        kept.append(model.mean.data.view(-1))
        torch.testing.assert_close(run(x), eager(x))
        if step == 5:
            first = compiles
        weights = zip(model.layer.parameters(), eager.layer.parameters(), strict=True)
        for mine, theirs in weights:
            mine.data = theirs.data = mine.data * 0.99  # as averages of weights are kept
    assert compiles == first, "what is another tensor in each call is an argument"
    assert all(len(h._sets) <= 2 for h in made)
    with torch.no_grad():  # behind PyTorch's back, while another one is replaced
        model.layer.bias.data[:4] += 1.0
        model.mean = model.mean + 1.0
        eager.layer.bias.data = model.layer.bias.data.clone()
        eager.mean = model.mean.clone()
    x = torch.randn(16, 64)
    torch.testing.assert_close(run(x), eager(x))


class _Constants:
    """A module on a GPU that has copies of its weights."""

    def __init__(self, weights: Any) -> None:
        self.values = {number: weight.clone() for number, weight in weights.items()}

    def lend_weights(self, named: Any) -> list[str]:
        return []

    def set_many_constants(self, constants: Any) -> None:
        self.values.update({int(name): weight.clone() for name, weight in constants.items()})


def test_a_tensor_where_a_freed_one_lay_is_another() -> None:
    """Of a GPU's memory no samples are taken, and a new tensor's version is that of the old one."""
    memory = torch.zeros(4)
    held = HeldModules({0: "0"}, [memory[:2]], lambda weights, *_: _Constants(weights), lends=True)
    for value in (1.0, 2.0):
        other = torch.from_numpy(memory.numpy())  # with a version of its own
        other.numpy()[:] = value
        (made,) = held.module([other[:2]]).values.values()
        torch.testing.assert_close(made, torch.full((2,), value))
