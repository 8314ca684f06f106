"""A cache of keys and values whose length is a symbol: compiled, and equal to PyTorch's."""

from __future__ import annotations

import torch
from torch import nn

import glasshouse as gh
from glasshouse.lower.program import Call


class Attention(nn.Module):
    """Writes the new keys into a cache that is given, and attends to all of it."""

    def forward(
        self, x: torch.Tensor, cache: torch.Tensor, place: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        new = cache.clone()
        new[:, :, place] = x
        index = place[None, None, :, None].expand_as(x)
        again = cache.scatter(2, index, x)
        return torch.softmax(x @ new.transpose(-1, -2), -1) @ again, new


def test_places_in_a_cache_of_any_length_are_written_by_kernels() -> None:
    n, length = torch.export.Dim("n", min=1, max=8), torch.export.Dim("length", min=8, max=64)
    model = Attention()

    def inputs(count: int, size: int, first: int) -> tuple[torch.Tensor, ...]:
        made = torch.Generator().manual_seed(size)
        x, cache = (torch.randn(1, 2, k, 4, generator=made) for k in (count, size))
        return x, cache, torch.arange(first, first + count)

    module = gh.compile(
        model, *inputs(3, 16, 2), tune=False,
        dynamic_shapes={"x": {2: n}, "cache": {2: length}, "place": {0: n}},
    )  # fmt: skip
    assert all(isinstance(step, Call) for step in module.program.steps)
    assert any("scatter" in step.node.op.name for step in module.program.steps)
    for given in (inputs(3, 16, 2), inputs(1, 9, 8), inputs(8, 64, 50)):
        for have, want in zip(module(*given), model(*given), strict=True):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
