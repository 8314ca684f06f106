"""Graphs that an earlier process captured: the same as captured anew, and told from all others."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import entry, kept_graphs
from glasshouse.runtime import compiler, prefault

OPTIONS = {"executor": "compiled"}


class Net(nn.Module):
    def __init__(self, scale: float = 2.0, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.second.weight = nn.Parameter(self.first.weight.t().contiguous())
        self.register_buffer("seen", torch.zeros(8))
        self.scale = scale
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache[:, 1] = x.sum(1)
        found: torch.Tensor = self.second(torch.relu(self.first(x)) * self.scale) + self.seen
        return found.transpose(0, 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_graphs, "made_cache_folder", lambda: tmp_path)
    return tmp_path


def _run(model: nn.Module, x: torch.Tensor, dynamic: bool = False) -> Any:
    """The graph that a new process would have, after its results were compared."""
    torch._dynamo.reset()
    dynamo.reset()
    call = torch.compile(model, backend="glasshouse", options=OPTIONS, dynamic=dynamic)
    wanted, written = torch.zeros(len(x), 3), torch.zeros(len(x), 3)
    expected, found = model(x, wanted), call(x, written)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(written, wanted)
    assert dynamic or found.stride() == expected.stride()
    (graph,) = dynamo.compiled_graphs()
    return graph


def _is_kept(compiled: Any) -> bool:
    return "captured" in compiled.recording.header.facts


X = torch.arange(40.0).reshape(5, 8) / 40


def test_the_second_process_traces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = _run(Net(), X)
    assert not _is_kept(first)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("traced")

    monkeypatch.setattr(entry, "make_fx", refuse)
    second = _run(Net(), X)
    assert _is_kept(second)
    assert str(second.graph) == str(first.graph)
    assert [n.id for n in second.graph.nodes] == [n.id for n in first.graph.nodes]
    assert [n.origin for n in second.graph.nodes] == [n.origin for n in first.graph.nodes]
    assert vars(second.captured).keys() == vars(first.captured).keys()
    for name in ("inputs", "outputs", "written", "aliases", "numbers", "complex"):
        assert getattr(second.captured, name) == getattr(first.captured, name), name


def test_memory_for_packed_weights_is_asked_for_before_anything_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefault, "SMALLEST", 1)
    x = torch.arange(512.0).reshape(64, 8) / 512
    first = _run(Net(), x).runner.module
    assert first.packed_bytes > 0
    asked: list[int] = []

    class Seen(prefault.Prefaulted):
        def __init__(self, count: int) -> None:
            asked.append(count)
            super().__init__(count)

    with monkeypatch.context() as patch:
        patch.setattr(prefault, "Prefaulted", Seen)
        patch.setattr(compiler, "prefaulted_for", None)  # a call would fail
        second = _run(Net(seed=1), x)
    assert _is_kept(second)
    assert asked == [first.packed_bytes]
    (file,) = folder.glob("graph-*.pickle")
    names, strides, data, packed = pickle.loads(file.read_bytes())
    file.write_bytes(pickle.dumps((names, strides, data, 4 * packed)))  # it was more then
    assert _is_kept(_run(Net(seed=2), x))
    file.write_bytes(pickle.dumps((names, strides, data[:9], packed)))  # a file that was cut off
    assert not _is_kept(_run(Net(seed=3), x))


def test_other_weights_are_put_into_the_same_graph() -> None:
    _run(Net(), X)
    assert _is_kept(_run(Net(seed=1), X))


@pytest.mark.parametrize(
    "other",
    [
        lambda: (Net(scale=3.0), X),
        lambda: (Net(), X[:4]),
        lambda: (Net().double(), X.double()),
        lambda: (_tied(), X),
        lambda: (Net(), torch.arange(40.0).reshape(8, 5).t() / 40),
        lambda: (Net(), X, True),
    ],
    ids=["constant", "size", "type", "tied", "strides", "symbolic"],
)
def test_what_differs_is_captured_anew(other: Any) -> None:
    _run(Net(), X)
    assert not _is_kept(_run(*other()))


def _tied() -> Net:
    model = Net()
    model.second.bias = nn.Parameter(torch.zeros(8), requires_grad=False)
    model.seen = model.second.bias.data
    return model


def test_a_kept_graph_of_symbolic_sizes_serves_all_of_them() -> None:
    assert not _is_kept(_run(Net(), X, dynamic=True))
    model = Net()
    assert _is_kept(_run(model, X, dynamic=True))
    call = torch.compile(model, backend="glasshouse", options=OPTIONS, dynamic=True)
    for rows in (2, 9):
        x, cache = torch.randn(rows, 8), torch.zeros(rows, 3)
        torch.testing.assert_close(call(x, cache), model(x, torch.zeros(rows, 3)))
    assert len(dynamo.compiled_graphs()) == 1


def test_a_graph_whose_tracing_added_guards_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter(range(100))
    monkeypatch.setattr(entry, "known_sizes", lambda fakes: str(next(counts)))
    _run(Net(), X, dynamic=True)
    assert not list(folder.iterdir())


def test_a_file_that_is_broken_is_as_good_as_none(folder: Path) -> None:
    _run(Net(), X)
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert not _is_kept(_run(Net(), X))
    assert _is_kept(_run(Net(), X))
