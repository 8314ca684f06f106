"""Pixels of a convolution that are split again and again by what follows: windows of an image."""

from __future__ import annotations

import numpy as np
import torch

import glasshouse as gh


class Windows(torch.nn.Module):
    """A residual convolution whose pixels go to windows of 3 x 3."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 16, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        b, _, h, w = x.shape
        z = (y.permute(0, 3, 1, 2) + self.conv(x)).permute(0, 2, 3, 1)
        return z.view(b, h // 3, 3, w // 3, 3, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 9, 16)


def test_windows_behind_a_convolution() -> None:
    """Rows of windows, windows, and their pixels: an inner half that is split a second time is not
    joined with its outer half, of which another loop is the neighbour."""
    torch.manual_seed(0)
    model = Windows().eval()
    inputs = torch.randn(2, 8, 12, 12), torch.randn(2, 12, 12, 16)
    module = gh.compile(model, *inputs, progress=False)
    with torch.no_grad():
        np.testing.assert_allclose(module(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)
