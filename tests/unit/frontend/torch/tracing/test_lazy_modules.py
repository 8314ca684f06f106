"""While a model is exported, no Python code is compiled for graph modules that nobody calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import exported_program
from torch.fx import graph_module
from torch.utils import _pytree as pytree

import glasshouse as gh
from glasshouse.frontend.torch.tracing import lazy_modules as where
from glasshouse.frontend.torch.tracing.capture import export
from glasshouse.frontend.torch.tracing.lazy_modules import lazy_modules


class Chosen(torch.nn.Module):
    """With two bodies and a stretch without gradients, which are split off while exporting."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x.abs().max()
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x / scale,))


def test_no_code_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = graph_module._exec_with_source

    def counted(src: str, *rest: Any) -> None:
        compiled.append(src)
        real(src, *rest)

    monkeypatch.setattr(graph_module, "_exec_with_source", counted)
    gh.trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.ones(2, 3))
    assert compiled == []


def test_what_was_exported_can_still_be_called() -> None:
    x = torch.tensor([1.0, -3.0, 4.0])
    program = export(Chosen(), (x,), {}, None)
    assert torch.equal(program.module()(x), Chosen()(x))
    assert "cond" in program.graph_module.code
    assert torch.equal(torch.from_numpy(gh.compile(Chosen(), x)(x.numpy())), Chosen()(x))


@pytest.mark.parametrize("strict", [False, True])
def test_both_ways_of_export(strict: bool) -> None:
    """The strict one asks a graph module for the tree of its arguments before it has code."""
    x = torch.tensor([[1.0, -3.0, 4.0]])
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    program = export(model, (x,), {}, None, strict=strict)
    assert torch.equal(program.module()(x), model(x))


def test_what_comes_with_code_is_there_when_it_is_asked_for() -> None:
    graph = torch.fx.symbolic_trace(torch.nn.ReLU()).graph
    graph.set_codegen(torch.fx.graph._PyTreeCodeGen(_tree()))
    made = where.Unwritten(torch.nn.Module(), graph)
    assert "_code" not in vars(made)
    assert made._in_spec is graph._codegen.pytree_info.in_spec
    assert made._out_spec is None
    assert "relu" in made._code
    assert made(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    with pytest.raises(AttributeError, match="_no_such"):
        _ = made._no_such


def _tree() -> torch.fx.graph._PyTreeInfo:
    _, spec = pytree.tree_flatten(((0,), {}))
    return torch.fx.graph._PyTreeInfo(["input"], spec, None)


def test_without_trees_there_are_none() -> None:
    """What code does not bring is still missing after it was written."""
    made = where.Unwritten(torch.nn.Module(), torch.fx.symbolic_trace(torch.nn.ReLU()).graph)
    assert not hasattr(made, "_in_spec")
    assert "relu" in made.code


def test_others_are_made_as_before() -> None:
    before = exported_program._create_graph_module_for_export, where.LAZY._LazyGraphModule
    with lazy_modules():
        assert exported_program._create_graph_module_for_export is where.Unwritten
    after = exported_program._create_graph_module_for_export, where.LAZY._LazyGraphModule
    assert after == before
    assert type(torch.fx.symbolic_trace(torch.nn.ReLU())).__mro__[1] is torch.fx.GraphModule


@pytest.mark.parametrize("lacks", ["maker", "kind"])
def test_a_pytorch_without_them_exports_as_before(
    monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "maker":
        monkeypatch.setattr(where, "_MAKER", "_no_such_function")
    else:
        monkeypatch.setattr(where, "LAZY", None)
    x = torch.ones(2, 3)
    assert torch.equal(gh.compile(torch.nn.ReLU(), x)(x), x)
    assert not hasattr(exported_program, "_no_such_function")
