"""Pools that go plane by plane: rows brought together column by column, then columns by window.

Maxima come again and again here (few values), so which place is named is decided by the order of
the image; NaN, infinities and zeros of both signs stand among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh

torch = pytest.importorskip("torch")
F = torch.nn.functional


def planes(dtype: Any, *shape: int) -> Any:
    x = torch.from_numpy(np.random.default_rng(3).integers(-2, 3, shape)).to(dtype)
    if dtype.is_floating_point:
        flat = x.reshape(-1)
        flat[::7], flat[3::31], flat[5::53] = float("nan"), float("-inf"), float("inf")
        flat[11::13] *= -0.0
        flat[-2 * shape[-1] :] = float("-inf")
    return x


def same(found: Any, wanted: Any, exact: bool) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        close = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(a, b, equal_nan=True, **close)


def compiled(function: Any, *given: Any) -> Any:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    return gh.compile(Model(), *given, progress=False)


WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": (1, 3, 2), "stride": (2, 1, 3), "dilation": (1, 2, 3)},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_maxima_and_their_places(dtype: Any) -> None:
    x = planes(dtype, 2, 3, 6, 7, 19)

    def pools(x: Any) -> Any:
        three = [F.max_pool3d(x, return_indices=True, **w) for w in WINDOWS]
        flat = x.flatten(1, 2)
        two = F.max_pool2d(flat, 3, 2, 1, return_indices=True)
        one = F.max_pool1d(flat.flatten(0, 1), 4, 3, 2, dilation=2, return_indices=True)
        parts = F.adaptive_max_pool3d(x, (2, 5, 4), return_indices=True)
        return [y for pair in (*three, two, one, parts) for y in pair]

    same(compiled(pools, x)(x), pools(x), exact=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_means(dtype: Any) -> None:
    x = planes(dtype, 2, 2, 5, 6, 21)

    def pools(x: Any) -> Any:
        three = [
            F.avg_pool3d(x, 2),
            F.avg_pool3d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool3d(x, (2, 1, 5), (1, 3, 2), (1, 0, 2), count_include_pad=False),
        ]
        return [*three, F.adaptive_avg_pool3d(x, (2, 4, 5))]

    same(compiled(pools, x)(x), pools(x), exact=False)


def test_whole_numbers() -> None:
    x = planes(torch.int64, 2, 4, 5, 6, 7)
    x[0, 0, 0, 0, 0] = torch.iinfo(torch.int64).min
    low = compiled(lambda x: F.max_pool3d(x, 2), x)
    same([low(x)], [F.max_pool3d(x, 2)], exact=True)


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 1, 1), (1, 1, 40)])
def test_planes_of_one_row_or_one_element(size: tuple[int, ...]) -> None:
    x = planes(torch.float32, 3, 1, *size)

    def pools(x: Any) -> Any:
        return [*F.max_pool3d(x, 1, 2, return_indices=True), F.avg_pool3d(x, 1, 3)]

    same(compiled(pools, x)(x), pools(x), exact=False)


def test_images_that_lie_apart() -> None:
    whole = planes(torch.float32, 4, 6, 8, 9, 10)
    x = whole[::2, ::3].transpose(2, 4)

    def pools(x: Any) -> Any:
        return [*F.max_pool3d(x, 2, return_indices=True), F.avg_pool3d(x, (1, 2, 3))]

    same(compiled(pools, x)(x), pools(x), exact=False)
