"""Transposed convolutions that make few channels, against PyTorch: steps, dilations, odd sizes,
numbers that are not finite, neighbours of a step that no tap reaches."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu.few_channels import FEW

CASES: list[nn.Module] = [
    nn.ConvTranspose1d(2, 1, 4, 2, bias=False),
    nn.ConvTranspose1d(5, 3, 3, 4, padding=1, output_padding=2),  # steps wider than the window
    nn.ConvTranspose1d(3, 4, 8, 4, padding=2),
    nn.ConvTranspose2d(6, 3, 4, 2, padding=1),
    nn.ConvTranspose2d(2, 2, (3, 5), (1, 3), padding=(2, 0), dilation=(2, 2)),
    nn.ConvTranspose2d(3, 1, 2, (3, 1), output_padding=(1, 0)),
]
SIZES = (1, 131)


class All(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.ModuleList(CASES)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [m(x) for m, x in zip(self.each, inputs, strict=True)]


def test_as_pytorch() -> None:
    torch.manual_seed(0)
    model = All().eval()
    for size in SIZES:
        inputs = []
        for m in CASES:
            assert isinstance(m, (nn.ConvTranspose1d, nn.ConvTranspose2d))
            space = (size,) if isinstance(m, nn.ConvTranspose1d) else (3, size)
            x = torch.randn(2, m.in_channels, *space)
            x.view(-1)[-1], x.view(-1)[0] = float("nan"), float("inf")
            inputs.append(x)
        with torch.no_grad():
            expected = model(*inputs)
        module = gh.compile(model, *inputs, progress=False)
        if size == SIZES[0]:
            tiles = [t.routine for k in module.program.kernels for t in k.tiles]
            assert tiles == [FEW] * len(CASES)
        for ours, theirs in zip(module(*inputs), expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)
