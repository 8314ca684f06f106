"""Padded, rolled and stacked axes with what follows them: every axis, odd sizes, borders wider than
what they surround, crops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh
from hostile.functions import Of


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.view(2, 7, -1)[1] = y.view(2, 7, -1)[0].flip(1)
    return y.view(-1, 37)


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "last axis": lambda x: F.pad(x, (3, 2)).exp(),
    "one side": lambda x: F.pad(x, (0, 1)) * 2,
    "two axes": lambda x: F.pad(x, (1, 2, 3, 0), value=-1.5).tanh(),
    "outer axis": lambda x: F.pad(x, (0, 0, 0, 0, 2, 1)) + 1,
    "wider than itself": lambda x: F.pad(x, (40, 70)).sin(),
    "crop": lambda x: F.pad(x, (-2, 5)) + F.pad(x, (4, -1)),
    "reflected": lambda x: F.pad(x, (5, 4), mode="reflect").exp(),
    "replicated": lambda x: F.pad(x, (2, 3), mode="replicate") * 3,
    "circular": lambda x: F.pad(x, (4, 6), mode="circular").cos(),
    "rolled last": lambda x: torch.roll(x, 3, -1) - x,
    "rolled back": lambda x: torch.roll(x, -40, -1) - x,
    "rolled not at all": lambda x: torch.roll(x, x.shape[-1], -1) * x,
    "rolled twice": lambda x: torch.roll(x, (2, 5, -1), (1, 2, 2)).exp(),
    "stacked last": lambda x: torch.stack([x, x * 2, x.sin(), x - 1], -1).flatten(-2) + 1,
    "joined and padded": lambda x: F.pad(torch.cat([x, x[..., :5].exp()], -1), (2, 1)).tanh(),
    "flipped beside itself": lambda x: torch.cat([x.flatten(1), x[:, 1:2].flip(-1).flatten(1)], 1),
    "flipped over rows": lambda x: x.flatten(1).flip(1).reshape(x.shape) * 2 + x,
    "flipped and written": _written,
    "summed": lambda x: F.pad(x, (3, 3)).sum(-1) + F.pad(x, (0, 0, 2, 1)).sum(1).sum(-1)[:, None],
}


@pytest.mark.parametrize("case", list(CASES))
def test_equals_pytorch(case: str) -> None:
    torch.manual_seed(0)
    module = Of(CASES[case])
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(2, 7, 37, dtype=dtype)
        x[0, 0, :2], x[1, 6, -1] = float("nan"), float("inf")
        compiled = gh.compile(module, x, progress=False)
        torch.testing.assert_close(
            torch.as_tensor(compiled(x)), module(x), equal_nan=True, rtol=2e-6, atol=2e-6
        )


def test_a_small_axis_between() -> None:
    """Of an axis of 1, and of one that vanishes."""
    x = torch.randn(3, 1, 1)
    for f in (lambda x: torch.roll(x, 5, 1) + F.pad(x, (1, 1, 1, 0)).sum(), lambda x: x[:0].exp()):
        module = Of(f)
        found = gh.compile(module, x, progress=False)(x)
        torch.testing.assert_close(torch.as_tensor(found), module(x))
