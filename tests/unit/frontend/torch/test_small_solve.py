"""Solvers of small matrices are written out element by element: no loop, and PyTorch's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.frontend.torch.aten.small_solve import SMALL
from glasshouse.numpy_ref import run


class Solved(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        low = torch.linalg.cholesky(a @ a.mT + 0.1 * torch.eye(a.shape[-1], dtype=a.dtype))
        return [
            torch.linalg.solve(a, b),
            torch.linalg.solve(a, b[..., 0]),
            torch.linalg.solve(a, b.mT, left=False),
            torch.linalg.inv(a),
            low,
            torch.cholesky_solve(b, low),
            torch.linalg.solve_triangular(low, b, upper=False),
            torch.linalg.solve_triangular(low.mT, b, upper=True, unitriangular=True),
        ]


@pytest.mark.parametrize("size", range(1, SMALL + 2))
def test_as_pytorch(size: int) -> None:
    torch.manual_seed(size)
    a, b = torch.randn(2, 3, size, size).double(), torch.randn(2, 3, size, 2).double()
    a[0, 0] = torch.eye(size).flip(0)  # every pivot stands in another row
    a[0, 1] = torch.triu(torch.ones(size, size)).roll(1, 0)
    graph = gh.trace(Solved(), a, b)
    assert ("lu" in {node.op.name for node in graph.nodes}) == (size > SMALL)
    for ours, theirs in zip(run(graph, [a.numpy(), b.numpy()]), Solved()(a, b), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-9, atol=1e-12)


def test_what_is_not_finite_stays_in_its_matrix() -> None:
    a, b = torch.eye(3).repeat(4, 1, 1), torch.ones(4, 3, 1)
    a[1, 0, 0], a[2, 1, 2] = float("nan"), float("inf")
    a[3] = 0  # PyTorch refuses to solve it; here the result tells
    graph = gh.trace(SolvedOnly(), a[:1].expand(4, 3, 3).contiguous(), b)
    (found,) = run(graph, [a.numpy(), b.numpy()])
    np.testing.assert_array_equal(found[0], b[0].numpy())
    assert not np.isfinite(found[1:]).all(axis=(1, 2)).any()


class SolvedOnly(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(a, b)


@pytest.mark.parametrize(("batch", "rows"), [(2, 9), (64, 9), (1, 40)])
def test_larger_systems_are_factored_by_a_kernel(batch: int, rows: int) -> None:
    a, b = torch.eye(rows).repeat(batch, 1, 1), torch.ones(batch, rows, 1)
    ops = {node.op.name for node in gh.trace(SolvedOnly(), a, b).nodes}
    assert {"lu", "triangle_solve"} <= ops
    assert not ops & {"scan", "opaque"}
