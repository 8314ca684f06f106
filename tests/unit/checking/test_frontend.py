"""Models that fix a narrow type somewhere inside are still compared with PyTorch in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from glasshouse import trace
from glasshouse.checking.frontend import frontend_findings
from glasshouse.ir.graph import Graph
from glasshouse.numerics.truth import Values, values_of


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    mean = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return (x * torch.rsqrt(mean + 1e-6)).to(x.dtype)


def half_floats(x: torch.Tensor) -> torch.Tensor:
    return x.half().exp().float().softmax(-1, dtype=torch.bfloat16)


def own_tensors(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.full((16, 16), 0.3, dtype=torch.float32)


def autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.nn.functional.linear(x, x).sin()


@pytest.mark.parametrize("model", [rms_norm, half_floats, own_tensors, autocast])
def test_a_type_that_the_model_fixes_is_no_fault(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    graph = trace(model, x)
    found, text = frontend_findings(model, (x,), {}, graph, values_of(graph, [x.numpy()]))
    assert found == []
    assert "in float64" in text


def test_another_function_is_one() -> None:
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    graph = trace(half_floats, x)
    found, _ = frontend_findings(rms_norm, (x,), {}, graph, values_of(graph, [x.numpy()]))
    assert [f.kind for f in found] == ["frontend"]


def first_by_order(x: torch.Tensor) -> torch.Tensor:
    return torch.gather(torch.arange(64.0).expand(4, 64), 1, torch.argsort(x, 1)[:, :5])


def test_the_order_of_equal_elements_is_told_and_is_no_fault() -> None:
    x = torch.zeros(4, 64)
    graph = trace(first_by_order, torch.randn(4, 64))
    (found,), _ = frontend_findings(first_by_order, (x,), {}, graph, reversed_ties(graph, x))
    assert not found.fails
    assert "equal elements are ordered otherwise" in found.what
    distinct = torch.arange(256.0).reshape(4, 64)
    (found,), _ = frontend_findings(
        first_by_order, (distinct,), {}, graph, reversed_ties(graph, distinct)
    )
    assert found.fails


def reversed_ties(graph: Graph, x: torch.Tensor) -> Values:
    """Values of the graph as if its sort, and so its output, went from last to first."""
    values = values_of(graph, [x.numpy()])
    sorts = [v for n in graph.nodes if n.op.name == "sort" for v in n.outputs]
    for value in (*sorts, *graph.outputs):
        at = value.node.id, value.index
        values.by_place[at] = values.by_place[at][..., ::-1]
    return values
