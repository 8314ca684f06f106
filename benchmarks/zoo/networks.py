"""Convolutional, generative and tabular networks, written as their authors' readers write them."""

from __future__ import annotations

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


def _conv(a: int, b: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    padding = kernel // 2
    return nn.Sequential(
        nn.Conv2d(a, b, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(b), nn.ReLU(inplace=True),
    )  # fmt: skip


@model("lenet", trained=True)
def lenet(batch: int = 32) -> Case:
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5)]
    layers += [nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10)), (
        torch.randn(batch, 1, 28, 28),
    )


@model("vgg", trained=True)
def vgg(batch: int = 2) -> Case:
    layers: list[nn.Module] = []
    for a, b in ((3, 32), (32, 64), (64, 128), (128, 128)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(2048, 512), nn.ReLU(), nn.Dropout(), nn.Linear(512, 100)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 64, 64),)


class _Dense(nn.Module):
    def __init__(self, width: int, grow: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_conv(width + i * grow, grow) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


@model("densenet", trained=True)
def densenet(batch: int = 4) -> Case:
    layers = [_conv(3, 32, 3, 2), _Dense(32, 16, 4), _conv(96, 48, 1), nn.AvgPool2d(2)]
    layers += [_Dense(48, 16, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(112, 10)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 64, 64),)


class _Squeezed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(_conv(width, width), _conv(width, width))
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 8, 1), nn.SiLU(),
            nn.Conv2d(width // 8, width, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        return F.relu(x + y * self.gate(y))


@model("squeeze and excitation", trained=True)
def squeezed(batch: int = 4) -> Case:
    layers = [_conv(3, 64, 3, 2), *[_Squeezed(64) for _ in range(3)], nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10)), (torch.randn(batch, 3, 64, 64),)


class _Shuffled(nn.Module):
    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.one = _conv(width, width, 1, groups=groups)
        self.two = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.three = nn.Conv2d(width, width, 1, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        y = self.one(x).view(n, self.groups, c // self.groups, h, w).transpose(1, 2)
        return F.relu(x + self.three(self.two(y.reshape(n, c, h, w))))


@model("shufflenet", trained=True)
def shuffled(batch: int = 4) -> Case:
    return nn.Sequential(_conv(3, 96, 3, 2), *[_Shuffled(96, 3) for _ in range(4)]), (
        torch.randn(batch, 3, 64, 64),
    )


class _Unet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = _conv(3, width), _conv(width, 2 * width)
        self.three = _conv(2 * width, 4 * width)
        self.up = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.four, self.five = _conv(4 * width, 2 * width), _conv(3 * width, width)
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.one(x)
        b = self.two(F.max_pool2d(a, 2))
        c = self.up(self.three(F.max_pool2d(b, 2)))
        b = self.four(torch.cat([b, c], 1))
        b = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=True)
        return self.out(self.five(torch.cat([a, b], 1)))


@model("u-net", trained=True)
def unet(batch: int = 1) -> Case:
    return _Unet(24), (torch.randn(batch, 3, 96, 96),)


class _Pyramid(nn.Module):
    """Boxes and classes of a detector with anchors, from three resolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_conv(w, width, 3, 2) for w in (3, width, width, width))
        self.side = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))
        self.head = nn.Conv2d(width, 3 * 85, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for layer in self.down:
            x = layer(x)
            found.append(x)
        above, out = None, []
        for side, x in zip(self.side, found[:0:-1], strict=True):
            x = side(x)
            if above is not None:
                x = x + F.interpolate(above, scale_factor=2, mode="nearest")
            above = x
            n, _, h, w = x.shape
            y = self.head(x).view(n, 3, 85, h, w).permute(0, 1, 3, 4, 2).reshape(n, -1, 85)
            out.append(torch.cat([y[..., :4].sigmoid() * 2 - 0.5, y[..., 4:].sigmoid()], -1))
        return torch.cat(out, 1)


@model("detector with a pyramid")
def pyramid(batch: int = 2) -> Case:
    return _Pyramid(48), (torch.randn(batch, 3, 128, 128),)


@model("style transfer")
def style(batch: int = 1) -> Case:
    def block(a: int, b: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        padded = nn.ReflectionPad2d(kernel // 2)
        return [padded, nn.Conv2d(a, b, kernel, stride), nn.InstanceNorm2d(b, affine=True)]

    layers = [*block(3, 16, 9), nn.ReLU(), *block(16, 32, 3, 2), nn.ReLU(), *block(32, 32, 3)]
    layers += [nn.ReLU(), nn.Upsample(scale_factor=2, mode="nearest"), *block(32, 3, 9)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 96, 96),)


@model("super resolution", trained=True)
def larger(batch: int = 1) -> Case:
    layers = [nn.Conv2d(1, 48, 5, padding=2), nn.PReLU(), nn.Conv2d(48, 32, 3, padding=1)]
    layers += [nn.PReLU(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)]
    return nn.Sequential(*layers), (torch.randn(batch, 1, 96, 96),)


@model("dcgan", trained=True)
def dcgan(batch: int = 16) -> Case:
    layers: list[nn.Module] = [nn.ConvTranspose2d(64, 128, 4), nn.BatchNorm2d(128), nn.ReLU()]
    for a, b in ((128, 64), (64, 32)):
        layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()), (
        torch.randn(batch, 64, 1, 1),
    )


@model("discriminator, training", training=True)
def discriminator(batch: int = 16) -> Case:
    layers: list[nn.Module] = []
    for a, b in ((3, 32), (32, 64), (64, 128)):
        conv = nn.utils.parametrizations.spectral_norm(nn.Conv2d(a, b, 4, 2, 1))
        layers += [conv, nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 1)), (
        torch.randn(batch, 3, 32, 32),
    )


class _Denoiser(nn.Module):
    """A block of a diffusion model: group norms, a time embedding, attention over pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(64, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.convs[0](F.silu(self.norms[0](x))) + self.time(F.silu(time))[..., None, None]
        x = x + self.convs[1](F.silu(self.norms[1](y)))
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norms[2](x)).reshape(n, 3, c, h * w).unbind(1)
        weight = torch.softmax(torch.einsum("bct,bcs->bts", q, k) * c**-0.5, -1)
        return x + self.out(torch.einsum("bts,bcs->bct", weight, v).reshape(n, c, h, w))


@model("diffusion block", trained=True)
def denoiser(batch: int = 2) -> Case:
    return _Denoiser(64), (torch.randn(batch, 64, 24, 24), torch.randn(batch, 64))


class _Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
        self.decode = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, log = self.encode(x).chunk(2, 1)
        y = torch.sigmoid(self.decode(mean + noise * torch.exp(0.5 * log)))
        divergence = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum(1)
        return F.binary_cross_entropy(y, torch.sigmoid(x), reduction="none").sum(1) + divergence


@model("vae", trained=True)
def vae(batch: int = 128) -> Case:
    return _Vae(), (torch.randn(batch, 784), torch.randn(batch, 20))


class _Mixer(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, 128), nn.GELU(), nn.Linear(128, tokens))
        self.within = nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.second(x))


@model("mlp mixer", trained=True)
def mixer(batch: int = 4) -> Case:
    return nn.Sequential(*[_Mixer(64, 192) for _ in range(3)]), (torch.randn(batch, 64, 192),)


class _Dlrm(nn.Module):
    """Wide tables of categories, a tower for numbers, products of all pairs."""

    def __init__(self, tables: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(5000, width, mode="sum") for _ in range(tables))
        self.tables.requires_grad_(False)
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: torch.Tensor, *bags: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        rows = [table(bag) for table, bag in zip(self.tables, bags, strict=True)]
        every = torch.stack([x, *rows], 1)
        products = torch.bmm(every, every.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([x, products], 1)))


@model("dlrm, 26 tables")
def dlrm(batch: int = 128) -> Case:
    return _Dlrm(26, 32), (
        torch.randn(batch, 13), *[torch.randint(0, 5000, (batch, 4)) for _ in range(26)],
    )  # fmt: skip


class _Columns(nn.Module):
    """Categories and numbers of a table side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(100, 8) for _ in range(20))
        self.norm = nn.BatchNorm1d(10)
        self.rest = nn.Sequential(nn.Linear(170, 200), nn.ReLU(), nn.Linear(200, 2))

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        x = torch.cat([c(categories[:, i]) for i, c in enumerate(self.columns)], 1)
        return self.rest(torch.cat([x, self.norm(numbers)], 1))


@model("table of columns", trained=True)
def columns(batch: int = 256) -> Case:
    return _Columns(), (torch.randint(0, 100, (batch, 20)), torch.randn(batch, 10))
