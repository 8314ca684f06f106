"""Products of float64 and float16 are tiles, not loops, and as exact as PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import glasshouse as gh

TOLERANCE = {torch.float64: 1e-12, torch.float16: 2e-3}


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(37, 50), nn.Linear(50, 18, bias=False)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))


class Attention(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.softmax(x @ y.transpose(-1, -2) * 0.2, -1) @ y


class Transposed(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x.transpose(-1, -2) @ y + 1


CASES: list[tuple[nn.Module, list[tuple[int, ...]], set[str]]] = [
    (Layers(), [(21, 37)], {"gemm"}),
    (Layers(), [(1, 37)], {"gemm"}),
    (Attention(), [(3, 20, 16), (3, 33, 16)], {"attention"}),
    (Transposed(), [(5, 40, 30), (5, 40, 17)], {"gemm_batched"}),
]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_values_and_routines(dtype: torch.dtype, case: int) -> None:
    module, shapes, routines = CASES[case]
    torch.manual_seed(case)
    module = module.to(dtype)
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    compiled = gh.compile(module, *inputs)
    used = {tile.routine for kernel in compiled.program.kernels for tile in kernel.tiles}
    assert used == routines
    wide = [x.double() for x in inputs]
    with torch.no_grad():
        want = copy.deepcopy(module).double()(*wide)
    got = torch.as_tensor(compiled(*inputs))
    assert got.dtype is dtype
    assert (got.double() - want).abs().max() <= TOLERANCE[dtype] * want.abs().max()


class Shared(nn.Module):
    """A weight that few rows meet and many: one of both may read it widened."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(96, 96)

    def forward(self, x: Any, y: Any) -> Any:
        return self.layer(x), self.layer(y)


def test_bfloat16_weights_of_few_rows_and_of_many() -> None:
    torch.manual_seed(0)
    module = Shared().bfloat16()
    inputs = [torch.randn(rows, 96).bfloat16() for rows in (2, 33)]
    compiled = gh.compile(module, *inputs, take_weights=True)
    want = copy.deepcopy(module).double()(*(x.double() for x in inputs))
    for got, exact in zip(compiled(*inputs), want, strict=True):
        error = (torch.as_tensor(got).double() - exact).abs().max()
        assert error <= 5e-3 * exact.abs().max()
