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


class Centred(torch.nn.Module):
    """Everything that subtracts a mean, over rows that begin with an add and a cast too."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = torch.nn.LayerNorm(width)
        self.group = torch.nn.GroupNorm(2, 4, affine=False)

    def forward(self, x: Any) -> Any:
        ones = self.layer(x), self.layer(x + 1), self.layer(x.double().float() * 2)
        return *ones, self.group(x), F.instance_norm(x), x.var(-1), x.std((1, 2))


@pytest.mark.parametrize("width", [7, 100, 768])
def test_rows_of_equal_elements_have_no_variance(width: int) -> None:
    x = torch.tensor([[0.1], [-3.3], [1003.3], [7e6]])[None].expand(3, 4, width).contiguous()
    same = torch.full((3, 4, width), 1003.3)
    model = Centred(width)
    module = gh.compile(model, x)
    layered, _, _, _, instance, variance, _ = module(x)
    assert layered.abs().max() == instance.abs().max() == 0
    assert variance.abs().max() == 0
    layered, added, doubled, group, _, _, deviation = module(same)
    for zero in (layered, added, doubled, group, deviation):
        assert zero.abs().max() == 0


def test_rows_of_one_element_and_of_none() -> None:
    for shape in ((4, 1), (0, 5)):
        x = torch.full(shape, 1003.3)
        assert torch.equal(gh.compile(torch.nn.LayerNorm(shape[-1]), x)(x), torch.zeros(shape))


def test_rows_with_nan_and_infinity_are_centred_as_in_pytorch() -> None:
    nan, inf = float("nan"), float("inf")
    rows = [[nan, 1, 2], [1, nan, 2], [inf, 1, 2], [1, -inf, 2], [inf, inf, inf], [1, 2, 4.5]]
    x = torch.tensor(rows)
    model = torch.nn.LayerNorm(3)
    torch.testing.assert_close(gh.compile(model, x)(x), model(x), equal_nan=True)
