"""Layers outside of the usual: volumes, transforms, gates over time, lookups."""

from __future__ import annotations

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Double(nn.Sequential):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(
            nn.Conv3d(a, b, 3, padding=1, bias=False), nn.BatchNorm3d(b), nn.ReLU(),
            nn.Conv3d(b, b, 3, padding=1, bias=False), nn.BatchNorm3d(b), nn.ReLU(),
        )  # fmt: skip


class _Unet3d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = _Double(1, 16), _Double(16, 32), _Double(32, 64)
        self.up_two = nn.ConvTranspose3d(64, 32, 2, 2)
        self.up_one = nn.ConvTranspose3d(32, 16, 2, 2)
        self.mid, self.last = _Double(64, 32), _Double(32, 16)
        self.out = nn.Conv3d(16, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.one(x)
        b = self.two(F.max_pool3d(a, 2))
        c = self.three(F.max_pool3d(b, 2))
        b = self.mid(torch.cat([self.up_two(c), b], 1))
        return self.out(self.last(torch.cat([self.up_one(b), a], 1)))


@model("3d u-net")
def unet3d() -> Case:
    return _Unet3d(), (torch.randn(1, 1, 24, 32, 32),)


class _Fourier(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, 2) / width)
        self.point = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.fft.rfft(x)[..., : self.modes]
        mixed = torch.einsum("bim,iom->bom", found, torch.view_as_complex(self.weight))
        return F.gelu(torch.fft.irfft(mixed, n=x.shape[-1]) + self.point(x))


@model("fourier layers")
def fourier() -> Case:
    return nn.Sequential(*[_Fourier(32, 16) for _ in range(3)]), (torch.randn(8, 32, 512),)


class _Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft2(x).abs() + torch.fft.fft2(x)[..., : x.shape[-1] // 2 + 1].abs()


@model("two-dimensional transforms")
def spectrum() -> Case:
    return _Spectrum(), (torch.randn(8, 180, 200),)


class _Wave(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.both = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=2**i, padding=2**i) for i in range(layers)
        )
        self.skip = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x)
        for both, skip in zip(self.both, self.skip, strict=True):
            a, b = both(x)[..., : x.shape[-1]].chunk(2, 1)
            y = skip(torch.tanh(a) * torch.sigmoid(b))
            total, x = total + y, x + y
        return total


@model("wavenet")
def wavenet() -> Case:
    return _Wave(32, 8), (torch.randn(2, 32, 2000),)


class _Separable(nn.Sequential):
    def __init__(self, width: int, blocks: int) -> None:
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 2, 1), nn.ReLU6()]
        for i in range(blocks):
            layers += [
                nn.Conv2d(width, width, 3, 1 + i % 2, 1, groups=width, bias=False),
                nn.BatchNorm2d(width), nn.ReLU6(), nn.Conv2d(width, width, 1), nn.ReLU6(),
            ]  # fmt: skip
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


@model("separable convolutions")
def separable() -> Case:
    return _Separable(64, 4), (torch.randn(4, 3, 96, 96),)


@model("separable convolutions, training", training=True)
def separable_training() -> Case:
    return _Separable(64, 4), (torch.randn(4, 3, 64, 64),)


class _Last(nn.Module):
    """A recurrent layer and what is made of its last state."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.out = layer, nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(x)[0][-1])


@model("lstm, training", training=True)
def lstm_training() -> Case:
    return _Last(nn.LSTM(64, 128), 128), (torch.randn(40, 16, 64),)


@model("gru, training", training=True)
def gru_training() -> Case:
    return _Last(nn.GRU(64, 128, 2), 128), (torch.randn(40, 16, 64),)


class _Graph(nn.Module):
    """Messages along edges, summed where they arrive."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            x = torch.relu(layer(torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])))
        return x


@model("graph network")
def graph() -> Case:
    return _Graph(32), (torch.randn(2000, 32), torch.randint(0, 2000, (2, 20_000)))


class _Mixing(nn.Module):
    """A linear recurrence with gates, as state space models have."""

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        decay = torch.sigmoid(gate).log().cumsum(1)
        return torch.exp(decay) * (x * torch.exp(-decay)).cumsum(1)


@model("gated scan")
def gated() -> Case:
    return _Mixing(), (torch.randn(8, 64, 256), torch.randn(8, 64, 256) + 4)


class _Resized(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **self.options)


@model("bicubic resize")
def bicubic() -> Case:
    return _Resized(size=(200, 180), mode="bicubic"), (torch.randn(2, 8, 120, 120),)


@model("antialiased resize")
def antialiased() -> Case:
    resized = _Resized(size=(60, 50), mode="bilinear", antialias=True)
    return resized, (torch.randn(2, 8, 120, 120),)


class _Sampled(nn.Module):
    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, align_corners=False)


@model("grid_sample")
def sampled() -> Case:
    return _Sampled(), (torch.randn(4, 16, 64, 64), torch.rand(4, 64, 64, 2) * 2 - 1)
