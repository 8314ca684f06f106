"""Columns that a list names, from many rows: rows in fours and those that are left over, negative
places, places outside, and what is computed with them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.errors import ExecutionError


class Picked(nn.Module):
    """Columns, columns with arithmetic around them, and places that differ by row."""

    def forward(self, x: torch.Tensor, at: torch.Tensor, near: torch.Tensor) -> list[torch.Tensor]:
        return [x.index_select(1, at), x[:, at - 3000] * x[:, :1] + at, x.gather(1, near)]


@pytest.mark.parametrize("rows", [1, 6, 8, 11])
def test_columns_by_a_list(rows: int) -> None:
    x, at = torch.randn(rows, 3000), torch.randint(0, 3000, (4000,))
    near = torch.randint(0, 3000, (rows, 4000))
    found = gh.compile(Picked(), x, at, near)(x, at, near)
    for a, b in zip(found, Picked()(x, at, near), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("wrong", [3000, -1, -3001, 2**40])
def test_a_place_outside_is_an_error(wrong: int) -> None:
    class Columns(nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return x.index_select(1, at)

    x, at = torch.randn(9, 3000), torch.randint(0, 3000, (4000,))
    module = gh.compile(Columns(), x, at)
    bad = at.clone()
    bad[-1] = wrong
    with pytest.raises(ExecutionError, match="index"):
        module(x, bad)
    assert torch.equal(module(x, at), x[:, at])
