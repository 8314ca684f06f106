"""Norms of vectors with NaN, infinity, zeros and squares that overflow a half type."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh

POWERS = (2.0, 1.0, 3.0, 0.5, -1.0, 0.0, float("inf"), float("-inf"))


class Norms(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        of_rows = [torch.linalg.vector_norm(x, p, dim=-1) for p in POWERS]
        return *of_rows, x.norm(dim=-1), x.norm(), F.normalize(x, dim=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_hostile_rows(dtype: torch.dtype) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor(
        [[nan, 1, 2], [nan, nan, nan], [inf, 1, 2], [-inf, nan, 0], [0, 0, 0], [-0.0, 0, 0],
         [300, 400, 0], [3e4, 4e4, 0], [1e-4, 1e-4, 1e-4], [nan, 0, 0], [1, 2, 3]],
    ).to(dtype)  # fmt: skip
    module = gh.compile(Norms(), x)
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    for given in (x, x[-1:].expand(11, 3)):
        for number, (ours, theirs) in enumerate(zip(module(given), Norms()(given), strict=True)):
            torch.testing.assert_close(
                ours, theirs, rtol=tolerance, atol=tolerance / 10, equal_nan=True,
                msg=lambda text, number=number: f"result {number}: {text}",
            )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_deviation_whose_square_overflows(dtype: torch.dtype) -> None:
    class Deviations(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.std(-1), torch.std_mean(x, -1)[0]

    x = torch.tensor([[-900.0, 1200.0, 3.0], [0.5, 0.25, 2.0]], dtype=dtype)
    for ours, theirs in zip(gh.compile(Deviations(), x)(x), Deviations()(x), strict=True):
        torch.testing.assert_close(ours, theirs)
