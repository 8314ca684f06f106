"""Convolutions of float16: products are float32's, and no element goes through scalar loops."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu.conv_any import CONV_ANY
from glasshouse.lower.program import Call

CASES = {
    "window": (nn.Conv2d(5, 7, 3, stride=2, padding=1), (3, 5, 11, 13)),
    "depthwise": (nn.Conv2d(19, 19, 5, padding=2, groups=19), (1, 19, 9, 10)),
    "line": (nn.Conv1d(6, 9, 3, dilation=2), (2, 6, 23)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_same_in_float64(name: str) -> None:
    torch.manual_seed(0)
    layer, shape = CASES[name]
    model, x = nn.Sequential(layer.half(), nn.ReLU()).eval(), torch.randn(shape).half()
    module = gh.compile(model, x)
    calls = [s for s in module.program.steps if isinstance(s, Call)]
    assert CONV_ANY not in {tile.routine for call in calls for tile in call.kernel.tiles}
    found = module(x).double()
    right = model.double()(x.double())
    assert (found - right).abs().max() <= 1e-3 * right.abs().max()
