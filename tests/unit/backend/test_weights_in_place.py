"""Products whose weights are read where they lie: right at every edge, and held once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu import matmul
from glasshouse.lower.program import Call

# Above 8 MB in 16 bits; neither is a multiple of a vector, of four columns or of a panel.
COLUMNS, DEPTH = 2053, 2051


def _routines(module: Any) -> set[str]:
    calls = (s for s in module.program.steps if isinstance(s, Call))
    return {tile.routine for call in calls for tile in call.kernel.tiles}


@pytest.fixture(autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of few weights are treated as large ones are, but where the limit is tested."""
    if "caches" not in request.node.name:
        monkeypatch.setattr(matmul, "_CACHED", 0)


def test_what_caches_keep_stays_packed() -> None:
    model = nn.Linear(2048, 2048, dtype=torch.bfloat16).eval()
    assert _routines(gh.compile(model, torch.randn(1, 2048).bfloat16())) == {"gemm"}


@pytest.mark.parametrize(
    ("dtype", "rows"),
    [
        (torch.bfloat16, 1),
        (torch.bfloat16, 65),
        pytest.param(torch.bfloat16, 4, marks=pytest.mark.slow),
        pytest.param(torch.float16, 3, marks=pytest.mark.slow),
        pytest.param(torch.float32, 4, marks=pytest.mark.slow),
    ],
)
def test_equals_the_product_in_float64(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(0)
    model = nn.Linear(DEPTH, COLUMNS).to(dtype).eval()
    x = torch.randn(rows, DEPTH).to(dtype)
    module = gh.compile(model, x)
    assert _routines(module) == {"gemm_in_place"}
    right = nn.functional.linear(x.double(), model.weight.double(), model.bias.double())
    terms = nn.functional.linear(x.double().abs(), model.weight.double().abs()).max()
    allowed = 2 * torch.finfo(dtype).eps * right.abs().max() + 1e-6 * terms  # rounding, and sums
    assert (module(x).double() - right).abs().max() <= allowed


def test_weights_are_not_copied() -> None:
    model = nn.Linear(2048, 2048, dtype=torch.bfloat16).eval()
    module = gh.compile(model, torch.randn(1, 2048).bfloat16())
    assert not module.plan.packed
    held = next(a for a in module._runtimes.constants.arrays.values() if a.size == 1 << 22)
    assert held.ctypes.data == model.weight.data_ptr()


def test_few_weights_and_middling_rows_stay_packed() -> None:
    small = gh.compile(nn.Linear(64, 64).eval(), torch.randn(1, 64))
    middling = gh.compile(nn.Linear(DEPTH, COLUMNS).eval(), torch.randn(16, DEPTH))
    assert _routines(small) == _routines(middling) == {"gemm"}


@pytest.mark.parametrize("fills", [True, False])
def test_small_weights_are_held_once_where_weights_fill_the_memory(
    fills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the keys' and values' of a large model with few heads of them."""
    monkeypatch.setattr(matmul, "_FILLS", 1 << 20 if fills else 1 << 30)
    model = nn.Linear(2048, 256, dtype=torch.bfloat16).eval()
    assert bool(gh.compile(model, torch.randn(1, 2048).bfloat16()).plan.packed) is not fills


@pytest.mark.parametrize(("rows", "fills"), [(128, True), (128, False), (127, True)])
def test_many_rows_of_float32_where_weights_fill_the_memory(
    rows: int, fills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matmul, "_FILLS", 8 << 20 if fills else 1 << 30)
    torch.manual_seed(0)
    model = nn.Linear(DEPTH, 1027).eval()
    x = torch.randn(rows, DEPTH)
    module = gh.compile(model, x)
    assert _routines(module) == {"gemm_in_place" if fills and rows == 128 else "gemm"}
    assert bool(module.plan.packed) == (_routines(module) == {"gemm"})
    torch.testing.assert_close(module(x), model(x))
