"""Layers that differ in the number of their draw alone are compiled once."""

from __future__ import annotations

import numpy as np
import torch

import glasshouse as gh
from glasshouse.backend.cpu.emit import emit


class Layers(torch.nn.Module):
    """What each of four equal layers with dropout gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for layer in self.layers:
            x = torch.nn.functional.dropout(layer(x), 0.25)
            found.append(x)
        return found


def test_dropouts_of_equal_layers_share_a_kernel_and_draw_apart() -> None:
    x = torch.randn(8, 32)
    module = gh.compile(gh.trace(Layers().train(), x), progress=False)
    texts = [text for text in emit(module.program).kernels.values() if "keeps(" in text]
    assert len(texts) == 4
    assert len(set(texts[1:])) == 1  # the first one's number is 0, which adds nothing
    masks = [np.asarray(found) != 0 for found in module(x)]
    shares = [np.mean(a == b) for i, a in enumerate(masks) for b in masks[:i]]
    assert max(shares) < 0.8, "two layers drop the same elements"  # 0.625 is expected
