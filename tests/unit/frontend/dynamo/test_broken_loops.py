"""Loops in which Python reads data: their turns are compiled, or left to Python where that is
faster."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.errors import InParts, NotCompiled
from glasshouse.frontend.dynamo import broken_loops, parts


class _Halving(nn.Module):
    """A body that is a function of its own, which Dynamo compiles by itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.abs().max().item() > 1:
            x = self.halved(x)
        return x

    def halved(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.5


class _HalvingInPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turns = 0
        while x.abs().max().item() > 1:
            x, turns = x * 0.5, turns + 1
        return x + turns


class _Counted(nn.Module):
    """Each turn has a number, which Dynamo takes for a constant: no two would share a graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            if x.abs().max().item() <= 1:
                break
            x = x * 0.5
        return x


class _Folded(nn.Module):
    """Sizes that NumPy reads out of a result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for size in x.sum(0).topk(2).indices.numpy() + 1:
            rows = x[:, : 12 // int(size) * int(size)].reshape(2, -1, int(size))
            found.append(rows.softmax(-1).sum((1, 2)))
        return torch.stack(found)


def compiled(model: nn.Module, x: torch.Tensor) -> parts.CompiledParts:
    torch._dynamo.reset()
    with pytest.warns(InParts):
        module: parts.CompiledParts = gh.compile(model, x)
    return module


def _compare(module: parts.CompiledParts, model: nn.Module, given: list[torch.Tensor]) -> None:
    for x in given:
        torch.testing.assert_close(module(x), model(x), rtol=0, atol=0)


@pytest.mark.parametrize("kind", [_Halving, _HalvingInPlace])
def test_turns_of_a_loop_are_compiled(
    kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_NOTICED", float("inf"))
    model, x = kind(), torch.tensor([3.0, -20.0])
    module = compiled(model, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompiled)
        _compare(module, model, [x * k for k in (1, 5, 2, 0, 9, 1, 1, 1, 3)])
    assert module.parts
    assert "left to Python" not in repr(module)


def test_a_loop_that_is_faster_in_python_is_told_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_NOTICED", 0)
    model, x = _HalvingInPlace(), torch.tensor([3.0, -20.0])
    module = compiled(model, x)
    with pytest.warns(NotCompiled, match="its loop in parts takes"):
        _compare(module, model, [x] * 12)
    assert "left to Python" in repr(module)


def test_a_long_loop_needs_no_deep_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """More turns than Python's stack is deep: after some of them Python goes round."""
    monkeypatch.setattr(parts, "_NOTICED", float("inf"))
    counted: list[int] = []
    count = broken_loops.count_part
    monkeypatch.setattr(parts, "count_part", lambda: (count(), counted.append(1)))
    model, x = _HalvingInPlace(), torch.tensor([1.5], dtype=torch.float64)
    module = compiled(model, x)
    long = x * 2.0**1020
    _compare(module, model, [x, x, long, long, x])
    assert broken_loops.TURNS <= len(counted) < 3 * broken_loops.TURNS


def test_turns_that_are_counted_are_told_and_left() -> None:
    model, x = _Counted(), torch.tensor([3.0, -20.0])
    module = compiled(model, x)
    with pytest.warns(NotCompiled, match="a body that is a function of its own would be compiled"):
        _compare(module, model, [x, x * 5, x * 2])
    assert not module.parts


def test_other_models_of_the_thread_break_no_loops() -> None:
    """What a model in parts asks for ends with its call."""
    model, x = _HalvingInPlace(), torch.tensor([3.0])
    module = compiled(model, x)
    module(x)
    module(x)
    graphs: list[object] = []
    torch._dynamo.reset()
    run = torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph.forward)
    run(x)
    assert len(graphs) == 1  # what stands before the loop


def test_numbers_that_numpy_reads_are_sizes() -> None:
    model = _Folded()
    draw = torch.Generator().manual_seed(0)
    first = torch.rand(2, 12, generator=draw)
    module = compiled(model, first)
    for _ in range(2):
        x = torch.rand(2, 12, generator=draw)
        torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-6)
    assert module.parts
