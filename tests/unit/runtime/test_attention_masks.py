"""Attention under masks of every size: compiled, it is finite and right where PyTorch is.

Half types keep the scores of a recognised softmax in float32, where eager code rounds them to the
type after each op; so hand-written attention is compared in float32 and float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh
from glasshouse.ir import print_graph

TOLERANCE = {
    torch.float64: 1e-9, torch.float32: 2e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3,
}  # fmt: skip
WIDE = (torch.float32, torch.float64)
HALF = (torch.bfloat16, torch.float16)
DTYPES = [torch.float32, *HALF, pytest.param(torch.float64, marks=pytest.mark.slow)]
LENGTH = 9


class Fused(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask)


class Causal(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Added(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return (q @ k.transpose(-1, -2) * 0.25 + mask).softmax(-1) @ v


class Filled(torch.nn.Module):
    def __init__(self, fill: float, causal: bool) -> None:
        super().__init__()
        self.fill, self.causal = fill, causal

    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        if self.causal:
            mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        return (q @ k.transpose(-1, -2) * 0.25).masked_fill(~mask, self.fill).softmax(-1) @ v


def operands(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 2, LENGTH, 16, generator=generator).to(dtype) for _ in range(3)]


@cache
def compiled(model: type[torch.nn.Module], dtype: torch.dtype, mask: torch.dtype) -> Any:
    return gh.compile(model(), *operands(dtype), torch.zeros(2, 1, LENGTH, LENGTH, dtype=mask))


def same(ours: torch.Tensor, theirs: torch.Tensor, what: object) -> None:
    torch.testing.assert_close(
        ours, theirs, rtol=0, atol=TOLERANCE[ours.dtype], equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )  # fmt: skip


def places(dtype: torch.dtype, empty: Any, hidden: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Masks that hide a row, part of the rows, one key for all, everything."""
    for name, where in {
        "row": (0, 0, 3), "part": (slice(None), 0, slice(None), slice(4, None)),
        "key": (..., 2), "all": (...,),
    }.items():  # fmt: skip
        mask = torch.full((2, 1, LENGTH, LENGTH), empty, dtype=dtype)
        mask[where] = hidden
        yield name, mask


def sizes(dtype: torch.dtype) -> tuple[float, ...]:
    """Factors of q and k; in float16, 1e5 is infinity."""
    return (1.0, 1e2) if dtype is torch.float16 else (1.0, 1e2, 1e5)


def lows(dtype: torch.dtype) -> list[float]:
    least = torch.finfo(dtype).min
    given = [-1e4, -1e9, -1e10, -1e11, -1e14, -1e20, -1e30, least, float("-inf")]
    return [low for low in given if low >= least or low == float("-inf")]


@pytest.mark.parametrize(
    "model, dtype",
    [
        *((Fused, d) for d in (torch.float32, *HALF)),
        (Added, torch.float32),
        *(pytest.param(m, torch.float64, marks=pytest.mark.slow) for m in (Fused, Added)),
    ],
    ids=lambda given: str(getattr(given, "__name__", given)),
)
def test_added_masks(model: type[torch.nn.Module], dtype: torch.dtype) -> None:
    q, k, v = operands(dtype)
    module = compiled(model, dtype, dtype)
    for low in lows(dtype):
        for place, mask in places(dtype, 0.0, low):
            for size in sizes(dtype):
                given = (q * size, k * size, v, mask)
                same(module(*given), model()(*given), (low, place, size))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bool_masks(dtype: torch.dtype) -> None:
    q, k, v = operands(dtype)
    module = compiled(Fused, dtype, torch.bool)
    for place, mask in places(torch.bool, True, False):
        for size in sizes(dtype):
            given = (q * size, k * size, v, mask)
            same(module(*given), Fused()(*given), (place, size))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_causal_with_large_scores(dtype: torch.dtype) -> None:
    q, k, v = operands(dtype)
    module = gh.compile(Causal(), q, k, v)
    for size in sizes(dtype):
        same(module(q * size, k * size, v), Causal()(q * size, k * size, v), size)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "fill",
    [
        torch.finfo(torch.float32).min,
        float("-inf"),
        *(pytest.param(f, marks=pytest.mark.slow) for f in (-1e4, -1e9)),
    ],
)
def test_hand_written_fill(fill: float, causal: bool) -> None:
    """A row that is hidden throughout is the mean of v with a finite fill, and NaN with -inf."""
    q, k, v = operands(torch.float32)
    model = Filled(fill, causal)
    module = gh.compile(model, q, k, v, torch.ones(2, 1, LENGTH, LENGTH, dtype=torch.bool))
    assert "Attention(" in print_graph(module.graph, bodies=True)
    for place, mask in places(torch.bool, True, False):
        for size in sizes(torch.float32):
            given = (q * size, k * size, v, mask)
            same(module(*given), model(*given), (place, size))


def test_gradients_of_rows_without_a_key() -> None:
    """Rows that see nothing give 0 and have the gradient 0, not NaN."""
    q, k, v = operands(torch.float32)
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[3] = False
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    twins = [t.clone().requires_grad_() for t in (q, k, v)]
    Fused()(*leaves, mask).square().sum().backward()
    torch.compile(Fused(), backend="glasshouse")(*twins, mask).square().sum().backward()
    for twin, leaf in zip(twins, leaves, strict=True):
        torch.testing.assert_close(twin.grad, leaf.grad, rtol=1e-4, atol=1e-5)


def test_no_key_at_all_gives_zeros() -> None:
    """As in PyTorch; the kernel once divided by the number of keys, which ended the process."""

    class Attends(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, k)

    q, k = torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 0, 4)
    assert torch.equal(gh.compile(Attends(), q, k)(q, k), torch.zeros(1, 2, 3, 4))
