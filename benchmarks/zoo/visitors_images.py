"""Models that nobody tuned to, of images, signals, points: written first, measured afterwards."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


def _wave(t: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines of a time."""
    half = width // 2
    speeds = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000.0) / (half - 1)))
    angle = t.float()[:, None] * speeds[None]
    return torch.cat([angle.sin(), angle.cos()], -1)


class _Residual1d(nn.Module):
    """Two convolutions with group norms, between which the time is added."""

    def __init__(self, a: int, b: int, time: int) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv1d(a, b, 5, padding=2), nn.GroupNorm(8, b), nn.Mish())
        self.two = nn.Sequential(nn.Conv1d(b, b, 5, padding=2), nn.GroupNorm(8, b), nn.Mish())
        self.time = nn.Sequential(nn.Mish(), nn.Linear(time, b))
        self.pass_by = nn.Conv1d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x) + self.time(t)[..., None]) + self.pass_by(x)


class _Unet1d(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 128), nn.Mish(), nn.Linear(128, 32))
        self.a, self.b = _Residual1d(14, width, 32), _Residual1d(width, 2 * width, 32)
        self.down = nn.Conv1d(width, width, 3, 2, 1)
        self.middle = _Residual1d(2 * width, 2 * width, 32)
        self.up = nn.ConvTranspose1d(2 * width, width, 4, 2, 1)
        self.c, self.out = _Residual1d(2 * width, width, 32), nn.Conv1d(width, 14, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        t = self.time(_wave(t, 32))
        a = self.a(x, t)
        b = self.middle(self.b(self.down(a), t), t)
        return self.out(self.c(torch.cat([a, self.up(b)], 1), t))


@model("1d diffusion u-net", trained=True)
def unet1d(batch: int = 8) -> Case:
    return _Unet1d(64), (torch.randn(batch, 14, 64), torch.randint(0, 100, (batch,)))


class _PointNet(nn.Module):
    """Points aligned by a matrix of their own, features joined by a maximum."""

    def __init__(self) -> None:
        super().__init__()

        def layers(*sizes: int) -> nn.Sequential:
            made: list[nn.Module] = []
            for a, b in pairwise(sizes):
                made += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
            return nn.Sequential(*made)

        self.align, self.turn = layers(3, 32, 64), nn.Linear(64, 9)
        self.inner, self.out = layers(3, 64, 128, 256), nn.Linear(256, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turn = self.turn(torch.max(self.align(x), 2)[0]).view(-1, 3, 3) + torch.eye(3)
        x = torch.bmm(x.transpose(2, 1), turn).transpose(2, 1)
        return F.log_softmax(self.out(torch.max(self.inner(x), 2, keepdim=False)[0]), -1)


@model("pointnet", trained=True)
def pointnet(batch: int = 4) -> Case:
    return _PointNet(), (torch.randn(batch, 3, 512),)


class _Codebook(nn.Module):
    """Each place takes its nearest code; gradients pass straight through."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(codes, width)
        self.encode = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, width, 4, 2, 1)
        )
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(width, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.encode(x).permute(0, 2, 3, 1).contiguous()
        flat, table = z.view(-1, z.shape[-1]), self.table.weight
        apart = flat.pow(2).sum(1, keepdim=True) + table.pow(2).sum(1) - 2 * flat @ table.t()
        found = self.table(apart.argmin(1)).view(z.shape)
        found = z + (found - z).detach()
        return self.decode(found.permute(0, 3, 1, 2).contiguous())


@model("vector-quantised autoencoder", trained=True)
def codebook(batch: int = 8) -> Case:
    return _Codebook(256, 64), (torch.randn(batch, 3, 32, 32),)


class _Local(nn.Module):
    """Kernels that each place computes for itself, applied to unfolded windows."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.groups, self.make = groups, nn.Conv2d(width, groups * 9, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        kernel = self.make(x).view(n, self.groups, 1, 9, h, w)
        windows = F.unfold(x, 3, padding=1).view(n, self.groups, c // self.groups, 9, h, w)
        return self.out((kernel * windows).sum(3).view(n, c, h, w))


@model("involution", trained=True)
def local(batch: int = 2) -> Case:
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), _Local(32, 4), nn.ReLU(), _Local(32, 4)), (
        torch.randn(batch, 3, 48, 48),
    )


class _Nerf(nn.Module):
    """Coordinates as waves of many lengths, a skip in the middle, colours and density."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(10))
        self.one = nn.ModuleList([nn.Linear(63, width), *[nn.Linear(width, width)] * 3])
        self.two = nn.ModuleList([nn.Linear(width + 63, width), nn.Linear(width, width)])
        self.density, self.colour = nn.Linear(width, 1), nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = x[..., None] * self.bands
        y = torch.cat([x, angle.sin().flatten(-2), angle.cos().flatten(-2)], -1)
        h = y
        for layer in self.one:
            h = F.relu(layer(h))
        h = torch.cat([h, y], -1)
        for layer in self.two:
            h = F.relu(layer(h))
        density, colour = F.relu(self.density(h)), torch.sigmoid(self.colour(h))
        kept = torch.cumprod(torch.exp(-density * 0.1) + 1e-10, 1)
        return ((1 - torch.exp(-density * 0.1)) * kept * colour).sum(1)


@model("nerf with waves", trained=True)
def nerf(batch: int = 32) -> Case:
    return _Nerf(128), (torch.randn(batch, 32, 3),)


class _Wavelets(nn.Module):
    """A signal taken apart into four bands and put together again, bands weighted."""

    def __init__(self) -> None:
        super().__init__()
        low = torch.tensor([0.4830, 0.8365, 0.2241, -0.1294])
        high = low.flip(0) * torch.tensor([1.0, -1.0, 1.0, -1.0])
        self.register_buffer("pair", torch.stack([low, high])[:, None])
        self.gain = nn.Parameter(torch.ones(4, 16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, _ = x.shape
        bands, low = [], x
        for i in range(4):
            length = low.shape[-1]
            flat = F.pad(low.reshape(n * c, 1, length), (1, 2), mode="circular")
            both = F.conv1d(flat, self.pair, stride=2).view(n, c, 2, -1)
            low, high = both[:, :, 0], both[:, :, 1]
            bands.append(torch.tanh(high * self.gain[i]))
        for high in reversed(bands):
            both = torch.stack([low, high], 2).view(n * c, 2, -1)
            low = F.conv_transpose1d(both, self.pair, stride=2)[..., 1:-1].view(n, c, -1)
            low = low[..., : 2 * high.shape[-1]]
        return low


@model("wavelet bands", trained=True)
def wavelets(batch: int = 4) -> Case:
    return _Wavelets(), (torch.randn(batch, 16, 1024),)


@model("sub-pixel upscaling", trained=True)
def espcn(batch: int = 2) -> Case:
    layers = [nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1)]
    layers += [nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3), nn.Sigmoid()]
    return nn.Sequential(*layers), (torch.randn(batch, 1, 48, 48),)


class _Twins(nn.Module):
    """Two images through one network, and how alike they are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(1, 32, 7), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(128),
        )  # fmt: skip

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = F.normalize(self.inner(a), dim=-1), F.normalize(self.inner(b), dim=-1)
        return F.cosine_similarity(a, b) - torch.norm(a - b, dim=1)


@model("siamese twins", trained=True)
def twins(batch: int = 8) -> Case:
    made, given = _Twins(), (torch.randn(batch, 1, 40, 40), torch.randn(batch, 1, 40, 40))
    made(*given)  # gives the lazy layer its size
    return made, given


class _Windows(nn.Module):
    """Attention in windows that are shifted by a roll, with biases by distance and a mask."""

    def __init__(self, width: int, heads: int, window: int, shift: int, size: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        at = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("place", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        region = torch.zeros(1, size, size, 1)
        cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for i, rows in enumerate(cuts):
            for j, columns in enumerate(cuts):
                region[:, rows, columns] = 3 * i + j
        kind = self.split(region).squeeze(-1)
        apart = kind[:, None] - kind[:, :, None]
        self.register_buffer("mask", apart.masked_fill(apart != 0, -100.0))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        n, h, w, c = x.shape
        s = self.window
        x = x.view(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, s * s, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, h, w, c = x.shape
        s = self.window
        y = self.split(torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2)))
        q, k, v = self.qkv(y).view(-1, s * s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        weight = q * (c // self.heads) ** -0.5 @ k.transpose(-2, -1)
        bias = self.bias[self.place.view(-1)].view(s * s, s * s, -1).permute(2, 0, 1)
        weight = weight + bias
        weight = weight.view(n, -1, self.heads, s * s, s * s) + self.mask[None, :, None]
        weight = weight.view(-1, self.heads, s * s, s * s).softmax(-1)
        y = self.out((weight @ v).transpose(1, 2).reshape(-1, s * s, c))
        y = y.view(n, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


@model("shifted windows", trained=True)
def windows(batch: int = 2) -> Case:
    return _Windows(96, 3, 7, 3, 28), (torch.randn(batch, 28, 28, 96),)
