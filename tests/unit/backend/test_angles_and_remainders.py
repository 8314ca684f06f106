"""Angles, tangents, remainders and powers in vectors: exact or within 3 units in the last place for
every kind of float, with zeros, infinities and NaN as they must be."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import glasshouse as gh


class Functions(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [torch.atan2(x, y), torch.fmod(x, y), torch.remainder(x, y), torch.tan(x)]


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Every kind beside every kind, and near ones: quotients at and beside whole numbers."""
    torch.manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (2, 40_000)).int().view(torch.float32)
    inf, nan, top, least = float("inf"), float("nan"), 3.4028234e38, 1e-45
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, inf, -inf, nan, top, -top, least, 2e38, 1e-38])
    near = torch.randint(1, 5000, (20_000,)) * torch.rand(20_000)
    whole = near * torch.randint(-9000, 9000, (20_000,))
    beside = torch.nextafter(whole, torch.full_like(whole, inf))
    normal = torch.randn(2, 20_001) * 30
    x = torch.cat([bits[0], special.repeat_interleave(12), whole, beside, -beside, normal[0]])
    y = torch.cat([bits[1], special.repeat(12), near, near, near, normal[1]])
    return x, y


def test_every_kind_of_float() -> None:
    x, y = pairs()
    angle, tangent = torch.atan2(x.double(), y.double()), torch.tan(x.double())
    found = gh.compile(Functions(), x, y, progress=False)(x, y)
    for ours, wanted in ((found[0], angle), (found[3], tangent)):
        rounded = wanted.float()
        assert torch.equal(ours.isnan(), rounded.isnan())
        unit = np.spacing(rounded.abs().numpy()).astype(np.float64)
        apart = (ours.double() - wanted).abs().numpy() / unit
        same = (ours == rounded).numpy() | rounded.isnan().numpy()
        assert np.where(same, 0, apart).max() <= 3
        assert torch.equal(ours.signbit()[~rounded.isnan()], rounded.signbit()[~rounded.isnan()])
    with np.errstate(all="ignore"):
        left = np.fmod(x.numpy(), y.numpy())  # PyTorch gives NaN for large quotients
        moved = left + y.numpy()
    other = (left != 0) & ((left < 0) != (y.numpy() < 0))
    np.testing.assert_array_equal(found[1].numpy(), left)
    np.testing.assert_array_equal(found[2].numpy(), np.where(other, moved, left))
    for rest in found[1:3]:  # of zeros too
        np.testing.assert_array_equal(rest.signbit()[rest == 0], x.signbit()[rest == 0])


def test_powers_of_every_kind_of_float() -> None:
    class Power(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.pow(x, y)

    x, y = pairs()
    x = torch.cat([x, x.abs()])  # vectors in which all lanes are usual numbers, and others
    y = torch.cat([y, y])
    found = gh.compile(Power(), x, y, progress=False)(x, y)
    with np.errstate(all="ignore"):
        wanted = np.power(x.double().numpy(), y.double().numpy())
        rounded = wanted.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        apart = np.abs(found.double().numpy() - wanted) / unit
    same = (found.numpy() == rounded) | (np.isnan(rounded) & found.isnan().numpy())
    assert np.where(same, 0, apart).max() <= 1
