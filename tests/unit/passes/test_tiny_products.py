"""Products of many tiny matrices become arithmetic, with the numbers that a product gives."""

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh

CASES = {
    "rotations": ((100, 3, 3), (100, 3, 3)),
    "dot products": ((20, 8, 1, 2), (20, 8, 2, 1)),
    "many rows": ((64, 9, 2), (64, 2, 4)),
    "many columns": ((64, 3, 3), (64, 3, 50)),
    "one matrix for all of a row": ((70, 3, 4, 4), (70, 1, 4, 4)),
}


class Product(nn.Module):
    def __init__(self, across: bool, turned: bool) -> None:
        super().__init__()
        self.across, self.turned = across, turned

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu((x.mT if self.across else x) @ (y.mT if self.turned else y))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("across", "turned"), [(False, False), (True, True)])
def test_as_products(name, dtype, across, turned):
    torch.manual_seed(0)
    x, y = (torch.randn(s) for s in CASES[name])
    x[0] = float("inf")
    y[1] = float("nan")
    x, y = x.to(dtype), y.to(dtype)
    x = x.mT.contiguous() if across else x
    y = y.mT.contiguous() if turned else y
    model = Product(across, turned)
    module = gh.compile(model, x, y, target="interp", progress=False)
    assert not _products(module)
    found, wanted = torch.as_tensor(module(x, y)).float(), model(x, y).float()
    near = 1e-5 if dtype is torch.float32 else 1e-2
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=near, atol=near)


@pytest.mark.parametrize(
    ("x", "y"),
    [((10, 3, 3), (10, 3, 3)), ((100, 8, 8), (100, 8, 8)), ((100, 3, 3), (3, 3))],
    ids=["few", "larger", "one weight"],
)
def test_others_stay_products(x, y):
    given = torch.randn(x), torch.randn(y)
    assert _products(gh.compile(Product(False, False), *given, target="interp", progress=False))


class Local(nn.Module):
    """Each place looks at the seven around it, on one side of the product or the other."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling

    def forward(self, q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        windows = nn.functional.pad(x, (0, 0, 3, 3)).unfold(1, 7, 1)
        scores = {
            "row": lambda: (q[:, :, None] @ windows)[:, :, 0],
            "column": lambda: (windows.mT @ q[..., None])[..., 0],
            "einsum": lambda: torch.einsum("bnd,bndw->bnw", q, windows),
        }[self.spelling]()
        weights = scores.softmax(-1)
        if self.spelling == "row":
            return (windows @ weights[..., None])[..., 0]
        return torch.einsum("bnw,bndw->bnd", weights, windows)


@pytest.mark.parametrize("spelling", ["row", "column", "einsum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_windows_are_not_stored_for_a_product(spelling, dtype):
    torch.manual_seed(0)
    q, x = torch.randn(2, 40, 5).to(dtype), torch.randn(2, 40, 5).to(dtype)
    x[0, 30] = float("nan")
    module = gh.compile(Local(spelling), q, x, target="interp", progress=False)
    assert not _products(module)
    found, wanted = torch.as_tensor(module(q, x)).float(), Local(spelling)(q, x).float()
    near = 1e-5 if dtype is torch.float32 else 2e-2
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=near, atol=near)


def _products(module):
    found = [n for n in module.graph.nodes if n.op.name == "matmul"]
    fused = [n.attrs["body"] for n in module.graph.nodes if n.op.name == "fused"]
    return found + [n for body in fused for n in body.nodes if n.op.name == "matmul"]
