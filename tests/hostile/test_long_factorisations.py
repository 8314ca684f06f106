"""Factorisations of few and many rows: kernels, or PyTorch's routines where a step is traced."""

from __future__ import annotations

import pytest
import torch

import glasshouse as gh
from glasshouse.frontend.torch import capture, opaque_ops


class _Solve(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = x @ x.mT * self.scale + torch.eye(self.size, dtype=x.dtype)
        lower = torch.linalg.cholesky(near)
        solved = torch.cholesky_solve(x, lower)
        return solved.sum() + torch.linalg.slogdet(near)[1] + torch.linalg.solve(near, x).mean()


@pytest.mark.parametrize("size", [33, 5])
def test_solvers_are_not_left_to_pytorch(size: int) -> None:
    torch.manual_seed(0)
    module, x = _Solve(size), torch.randn(size, 7, dtype=torch.float64)
    assert not opaque_ops(capture(module, (x,)).graph)
    compiled = gh.compile(module, x, progress=False)
    torch.testing.assert_close(torch.as_tensor(compiled(x)), module(x).detach())


def test_a_long_solver_still_has_a_gradient() -> None:
    torch.manual_seed(0)
    ours, theirs, x = _Solve(33), _Solve(33), torch.randn(33, 3, dtype=torch.float64)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=1e-2)
    theirs(x).backward()
    optimizer.step()
    step = gh.compile(
        gh.trace_training(ours, None, torch.optim.SGD(ours.parameters(), lr=1e-2), x),
        progress=False,
    )
    step(x)
    torch.testing.assert_close(torch.as_tensor(step(x)), theirs(x).detach())
