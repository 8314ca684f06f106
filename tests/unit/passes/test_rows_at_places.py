"""Elements that have their row's place, read and written as rows, against PyTorch: axes, ways in
which rows meet, sizes, hostile values, places outside, gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.errors import GlasshouseError


class Edges(nn.Module):
    """What arrives at the nodes of a graph, as graph networks spell it."""

    def __init__(self, nodes: int, reduce: str, dim: int = 0, own: bool = True) -> None:
        super().__init__()
        self.nodes, self.reduce, self.dim, self.own = nodes, reduce, dim, own

    def forward(self, edges: torch.Tensor, to: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape, places = list(edges.shape), [1] * edges.ndim
        places[self.dim], shape[self.dim] = -1, self.nodes
        at = to.view(places).expand_as(edges)
        start = torch.linspace(-2.0, 2.0, shape[0] * shape[1]).to(edges.dtype)
        start = start.view(*shape[:2], *[1] * (len(shape) - 2)).expand(shape)
        made = start.scatter_reduce(self.dim, at, edges, self.reduce, include_self=self.own)
        return made, made.gather(self.dim, at)


def _both(model: nn.Module, *given: torch.Tensor) -> None:
    module = gh.compile(model, *given, progress=False)
    assert any(n.op.name in ("scatter_nd", "fused_scatter_nd") for n in module.graph.nodes)
    assert not any(n.op.name in ("scatter", "gather") for n in module.graph.nodes)
    for ours, wanted in zip(module(*given), model(*given), strict=True):
        torch.testing.assert_close(
            torch.as_tensor(ours), wanted, rtol=2e-6, atol=1e-6, equal_nan=True
        )


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("own", [True, False])
def test_rows_meet(reduce: str, own: bool) -> None:
    edges = torch.randn(50, 17)
    edges[3, 0], edges[4, 1], edges[5, 0] = float("nan"), float("inf"), -0.0
    _both(Edges(11, reduce, own=own), edges, torch.randint(0, 11, (50,)))


@pytest.mark.parametrize("reduce", ["sum", "amax"])
def test_a_middle_axis(reduce: str) -> None:
    _both(Edges(7, reduce, dim=1), torch.randn(3, 20, 5), torch.randint(0, 7, (20,)))


def test_a_place_outside_is_refused() -> None:
    model, edges = Edges(7, "sum"), torch.randn(20, 5)
    module = gh.compile(model, edges, torch.zeros(20, dtype=torch.int64), progress=False)
    with pytest.raises(GlasshouseError, match="outside"):
        module(edges, torch.full((20,), 7))


def test_gradients() -> None:
    edges, to = torch.randn(30, 6, requires_grad=True), torch.randint(0, 5, (30,))
    model = Edges(5, "sum")
    compiled = torch.compile(model, backend="glasshouse")
    weights = torch.randn(30, 6)
    (wanted,) = torch.autograd.grad((model(edges, to)[1] * weights).sum(), edges)
    (found,) = torch.autograd.grad((compiled(edges, to)[1] * weights).sum(), edges)
    torch.testing.assert_close(found, wanted)
