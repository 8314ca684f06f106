"""Samples at computed places: every mode and border, on the reference and compiled."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from frontend_torch import outputs_of, same_as_torch
from glasshouse.frontend.grid import sampled
from glasshouse.ir.builder import GraphBuilder


class _Sampled(nn.Module):
    def __init__(self, mode: str, border: str, corners: bool) -> None:
        super().__init__()
        self.options = {"mode": mode, "padding_mode": border, "align_corners": corners}

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, **self.options)


def _inputs(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places within, on and beyond the border; infinities and NaN among elements and places."""
    made = torch.Generator().manual_seed(rank)
    x = torch.randn(2, 3, *(5, 6, 4)[:rank], generator=made)
    grid = torch.rand(2, *(4, 7, 3)[:rank], rank, generator=made) * 3 - 1.5
    x.view(-1)[3], x.view(-1)[7] = float("inf"), float("nan")
    places = grid.view(-1, rank)
    places[0], places[1, 0], places[2, 0], places[3] = float("nan"), float("inf"), -1e30, -1.0
    return x, grid


CASES = [
    ("bilinear", "zeros", False, 2), ("bilinear", "border", True, 2),
    ("bilinear", "reflection", False, 2), ("bilinear", "reflection", True, 3),
    ("bilinear", "zeros", True, 3), ("nearest", "zeros", True, 2), ("nearest", "border", False, 3),
    ("nearest", "reflection", False, 2), ("bicubic", "zeros", False, 2),
    ("bicubic", "border", True, 2), ("bicubic", "reflection", False, 2),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_samples_are_those_of_pytorch(case: tuple[str, str, bool, int]) -> None:
    *options, rank = case
    x, grid = _inputs(rank)
    if (options[0], rank) != ("bilinear", 2) or options[1] == "reflection":
        # For places that are no numbers PyTorch's kernels do not agree with each other.
        grid = grid.nan_to_num(0.3, 2.0, -2.0).clamp(-3, 3)
    captured = same_as_torch(_Sampled(*options), x, grid, tolerance=1e-5)
    assert {n.op.name for n in captured.graph.nodes} & {"embedding_bag"}
    assert not [n for n in captured.graph.nodes if n.op.name == "opaque"]


def test_samples_of_any_batch() -> None:
    x, grid = _inputs(2)
    model, batch = _Sampled("bilinear", "zeros", False), torch.export.Dim("batch", min=1, max=9)
    others = [(torch.cat([x, x]), torch.cat([grid, grid]))]
    same_as_torch(model, x, grid, dynamic_shapes=({0: batch}, {0: batch}), others=others)


def test_compiled_samples() -> None:
    x, grid = _inputs(2)
    model = _Sampled("bilinear", "zeros", False)
    module = gh.compile(model, x, grid, progress=False)
    torch.testing.assert_close(module(x, grid), model(x, grid), equal_nan=True)


def test_samples_without_bags_are_the_same() -> None:
    x, grid = (t.numpy() for t in _inputs(2))
    found = []
    for bags in (True, False):
        builder = GraphBuilder()
        given = [builder.input("float32", a.shape) for a in (x, grid)]
        graph = builder.finish(sampled(*given, "linear", "zeros", False, bags))
        found.append(torch.from_numpy(outputs_of(graph, [x, grid])[0].copy()))
    torch.testing.assert_close(*found, equal_nan=True)
