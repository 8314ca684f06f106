"""Denormals of bfloat16 and float16: what only moves or chooses elements keeps their bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import glasshouse as gh


class _Moved(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return (
            torch.cat([x, x]), x.flip(0), x[None].expand(3, -1).contiguous(), x.relu(), -x, x.abs(),
            torch.where(x > 0, x, -x), x.float(), x.float().to(x.dtype), x.clamp(-1.0, 1.0),
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [5, 16, 37])
def test_bits_are_kept(dtype: torch.dtype, size: int) -> None:
    bits = torch.arange(size, dtype=torch.int16) * 3 + 1  # denormals, from the least on
    x = bits.view(dtype)
    x = torch.where(torch.arange(size) % 3 == 0, -x, x)
    x[size // 2], x[size - 1] = 1.5, -0.0
    model = _Moved()
    for found, wanted in zip(gh.compile(model, x)(x), model(x), strict=True):
        kind = torch.int32 if wanted.dtype is torch.float32 else torch.int16
        assert torch.equal(found.view(kind), wanted.view(kind))
