"""Triangles are solved by blocks: whatever their size, what stands above them, and how they lie."""

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import assert_same, outputs_of, same_as_torch


class Solved(nn.Module):
    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.options = options

    def forward(self, a, b):
        return torch.linalg.solve_triangular(a, b, **self.options)


def _triangle(size, upper=False):
    full = torch.randn(2, size, size) / size + 2 * torch.eye(size)
    seen = torch.ones(size, size).bool().tril()
    found = torch.where(seen, full, float("nan"))
    return found.mT if upper else found


@pytest.mark.parametrize("size", [5, 8, 13, 33, 64, 65, 130])
def test_sizes(size):
    torch.manual_seed(size)
    captured = same_as_torch(Solved(upper=False), _triangle(size), torch.randn(2, size, 3))
    assert not {"scan", "opaque"} & {n.op.name for n in captured.graph.nodes}


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_kinds(upper, left, unit):
    torch.manual_seed(0)
    model = Solved(upper=upper, left=left, unitriangular=unit)
    a = _triangle(9, upper)
    b = torch.randn(1, 9, 2) if left else torch.randn(2, 2, 9)
    same_as_torch(model, a, b)


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(10, 10) / 10 + 2 * torch.eye(10))

    def forward(self, b):
        return torch.linalg.solve_triangular(self.a.tril(), b, upper=False).pow(2).sum()


def test_gradients():
    torch.manual_seed(0)
    model, b = Loss(), torch.randn(10, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    state: dict = {}
    graph = gh.trace_training(model, None, optimizer, b)
    assert_same(outputs_of(graph, [b], variables=state)[0], model(b))
    model(b).backward()
    optimizer.step()
    assert_same(state["a"], model.a)
