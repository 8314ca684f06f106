"""Products of groups of rows: inside of the graph where that is cheap or a gradient is taken."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import same_as_torch


class _Grouped(nn.Module):
    def __init__(self, groups: int, width: int) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(groups)
        weight = torch.randn(groups, width, 16, generator=made) / width**0.5
        self.weight = nn.Parameter(weight.bfloat16())  # all that PyTorch captures of it on a CPU

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(x, self.weight, offs=ends)


def _inputs(rows: int, groups: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(0))
    x[0, 0], x[1, 1] = float("inf"), float("nan")
    ends = torch.linspace(0, rows, groups + 1)[1:].to(torch.int32)
    ends[0] = 0  # a group without rows
    return x.bfloat16(), ends


@pytest.mark.parametrize(
    ("rows", "groups", "width", "opaque"),
    [(12, 4, 8, False), (4096, 2, 128, False), (512, 16, 128, True)],
)
def test_many_groups_are_left_to_pytorch(rows: int, groups: int, width: int, opaque: bool) -> None:
    model = _Grouped(groups, width).requires_grad_(False)
    captured = same_as_torch(model, *_inputs(rows, groups, width), tolerance=2e-2)
    assert any(n.op.name == "opaque" for n in captured.graph.nodes) is opaque


def test_a_gradient_is_taken_of_any_number_of_groups() -> None:
    model = _Grouped(16, 128)
    x, ends = _inputs(512, 16, 128)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = gh.trace_training(_Loss(model), None, optimizer, x, ends)
    assert not [n for n in graph.nodes if n.op.name == "opaque"]


class _Loss(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return self.inner(x, ends).sum()
