"""Infinities and NaN in images and gradients reach the same elements of a convolution's weight
gradient as in PyTorch.

But for one: a gradient that is infinite or NaN where a window reaches into the padding makes the
taps there NaN (0 * inf), where PyTorch may leave them out; such places are not among these.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import glasshouse as gh

pytestmark = pytest.mark.slow

SHAPES = [  # batch, channels, size, channels made, kernel, stride, padding, groups
    (2, 16, 12, 32, 3, 1, 1, 1), (2, 3, 16, 16, 7, 2, 3, 1), (4, 32, 8, 32, 1, 1, 0, 1),
    (2, 16, 10, 16, 3, 1, 1, 16), (1, 8, 9, 24, 5, 1, 2, 4),
]  # fmt: skip


class _Gradient(nn.Module):
    def __init__(self, shape: tuple[int, ...], stride: int, padding: int, groups: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(shape))
        self.rest = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, [False, True, False]

    def forward(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution_backward(g, x, self.weight, None, *self.rest)[1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_no_number_stays_where_it_belongs(shape: tuple[int, ...]) -> None:
    n, channels, size, made, kernel, stride, padding, groups = shape
    out = (size + 2 * padding - kernel) // stride + 1
    torch.manual_seed(0)
    x, g = torch.randn(n, channels, size, size), torch.randn(n, made, out, out)
    model = _Gradient((made, channels // groups, kernel, kernel), stride, padding, groups)
    module = gh.compile(model, x, g, progress=False)
    for number, value in itertools.product((0, 1), (float("inf"), float("-inf"), float("nan"))):
        given = [x.clone(), g.clone()]
        given[number][0, 1, given[number].shape[2] // 2, given[number].shape[3] // 2] = value
        if number == 0:
            given[0][-1, -1, 0, 0] = value  # the corner of an image
        torch.testing.assert_close(
            module(*given), model(*given), rtol=1e-4, atol=1e-4, equal_nan=True
        )
