"""Products of groups of rows, in PyTorch's words: forward, with a gradient, at other sizes."""

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


@pytest.mark.parametrize(("rows", "groups", "width"), [(12, 4, 8), (4096, 2, 128), (512, 16, 128)])
def test_each_group_is_multiplied_with_its_matrix(rows: int, groups: int, width: int) -> None:
    model = _Grouped(groups, width).requires_grad_(False)
    captured = same_as_torch(model, *_inputs(rows, groups, width), tolerance=2e-2)
    assert captured.graph.nodes[-1].op.name == "grouped_matmul"


def test_sizes_of_groups_come_with_each_call() -> None:
    model = _Grouped(5, 24).requires_grad_(False)
    x, ends = _inputs(40, 5, 24)
    module = gh.compile(model, x, ends, progress=False)
    for found in ([0, 0, 0, 0, 40], [40, 40, 40, 40, 40], [1, 2, 39, 39, 40]):
        ends = torch.tensor(found, dtype=torch.int32)
        torch.testing.assert_close(
            module(x, ends), model(x, ends), rtol=2e-2, atol=2e-2, equal_nan=True
        )


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
