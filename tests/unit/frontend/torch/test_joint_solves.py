"""Gradients of solves, inverses and determinants through `torch.compile`."""

import pytest
import torch

from frontend_torch import assert_same
from glasshouse.frontend import dynamo

torch.manual_seed(0)
_B = torch.randn(3, 33, 2)


def _right(a):
    return _B[:, : a.shape[-1]]


_OPS = {
    "solve": lambda a: torch.linalg.solve(a, _right(a)),
    "solve of vectors": lambda a: torch.linalg.solve(a, _right(a)[..., 0]),
    "solve from the right": lambda a: torch.linalg.solve(a, _right(a).mT, left=False),
    "inverse": torch.linalg.inv,
    "determinant": torch.linalg.det,
    "determinant of the transpose": lambda a: torch.linalg.det(a.mT),
    "its logarithm": lambda a: torch.linalg.slogdet(a)[1],
    "its logarithm, of the transpose": lambda a: torch.linalg.slogdet(a.mT)[1],
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT),
    "two checks": lambda a: torch.linalg.inv(a) + torch.linalg.cholesky(a @ a.mT),
    "solve from factors": lambda a: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), _right(a)),
}


@pytest.mark.parametrize("name", _OPS)
@pytest.mark.parametrize("size", [3, 5, 33])  # written out, by steps, LAPACK's
def test_gradients_are_pytorchs(name, size):
    torch._dynamo.reset()
    torch.manual_seed(0)
    matrix = torch.randn(3, size, size) + size * torch.eye(size)
    matrix[0] = matrix[0].flip(0)  # rows are swapped
    ours, theirs = (matrix.clone().requires_grad_(True) for _ in range(2))
    options = {"executor": "reference"}
    got = torch.compile(_OPS[name], backend="glasshouse", options=options)(ours)
    wanted = _OPS[name](theirs)
    assert_same(got, wanted)
    got.pow(2).sum().backward()
    wanted.pow(2).sum().backward()
    assert_same(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", ["solve", "solve of vectors", "solve from the right"])
def test_gradients_of_small_solves_are_arithmetic_on_elements(name):
    torch._dynamo.reset()
    dynamo.reset()
    matrix = (torch.randn(3, 4, 4) + 4 * torch.eye(4)).requires_grad_(True)
    solve = torch.compile(_OPS[name], backend="glasshouse", options={"executor": "reference"})
    solve(matrix).sum().backward()
    graphs = [c.graph for c in dynamo.compiled_graphs()]
    assert len(graphs) == 2
    assert not {"scan", "argmax", "sort"} & {n.op.name for g in graphs for n in g.nodes}
