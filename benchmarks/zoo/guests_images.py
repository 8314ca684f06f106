"""Guests, images and sets: odd convolutions, own gradients, masks, sorting, products of three."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Voice(nn.Module):
    """Weights with a norm of their own, each channel normed by itself, upsampling by transposes."""

    def __init__(self) -> None:
        super().__init__()
        norm = torch.nn.utils.parametrizations.weight_norm
        self.first = norm(nn.Conv1d(32, 64, 7, padding=3))
        self.ups = nn.ModuleList(
            norm(nn.ConvTranspose1d(64 >> i, 32 >> i, 8, 4, padding=2)) for i in range(2)
        )
        self.inner = nn.ModuleList(
            norm(nn.Conv1d(32 >> i, 32 >> i, 3, dilation=3, padding=3)) for i in range(2)
        )
        self.norms = nn.ModuleList(nn.InstanceNorm1d(32 >> i, affine=True) for i in range(2))
        self.last = norm(nn.Conv1d(16, 1, 7, padding=3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for up, inner, one in zip(self.ups, self.inner, self.norms, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            x = x + inner(F.leaky_relu(one(x), 0.1))
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


@model("vocoder", trained=True)
def voice(batch: int = 2) -> Case:
    return _Voice(), (torch.randn(batch, 32, 100),)


class _Contrast(nn.Module):
    """Two views of each image are like each other and unlike all else."""

    def __init__(self, groups: int) -> None:
        super().__init__()

        def block(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.GroupNorm(groups, b), nn.SiLU()
            )

        self.net = nn.Sequential(block(3, 32), block(32, 64), block(64, 64))
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        z = self.head(self.net(torch.cat([one, two])).mean((2, 3)))
        z = F.normalize(z, dim=-1)
        same = torch.eye(z.shape[0], dtype=torch.bool)
        score = (z @ z.T / 0.1).masked_fill(same, float("-inf"))
        n = one.shape[0]
        target = torch.cat([torch.arange(n) + n, torch.arange(n)])
        return F.cross_entropy(score, target)


@model("contrastive pairs", trained=True)
def contrast(batch: int = 16) -> Case:
    return _Contrast(8), (torch.randn(batch, 3, 32, 32), torch.randn(batch, 3, 32, 32))


class _Signs(torch.autograd.Function):
    """The sign, whose gradient is let through where the input is small."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1)


class _Binary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in ((32, 32), (32, 64))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in (32, 64))
        for norm in self.norms:  # sums of signs are often 0, and rounding would decide their sign
            nn.init.uniform_(norm.bias, 0.01, 0.5)
        self.first, self.out = nn.Conv2d(3, 32, 3, 2, 1), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            weight = _Signs.apply(conv.weight) * conv.weight.abs().mean((1, 2, 3), keepdim=True)
            x = norm(F.max_pool2d(F.conv2d(_Signs.apply(x), weight, padding=1), 2))
        return self.out(x.mean((2, 3)))


@model("binary network", trained=True)
def binary(batch: int = 8) -> Case:
    return _Binary(), (torch.randn(batch, 3, 32, 32),)


class _Unshuffled(nn.Module):
    """Pixels become channels, a few gated convolutions, and channels become pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = (
            nn.Conv2d(12, width, 3, padding=1),
            nn.Conv2d(width, 12, 3, padding=1),
        )
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(3))
        self.inner = nn.ModuleList(nn.Conv2d(width, 2 * width, 1) for _ in range(3))
        self.deep = nn.ModuleList(
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width) for _ in range(3)
        )
        self.outer = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))
        self.near = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(F.pixel_unshuffle(x, 2))
        for norm, inner, deep, near, outer in zip(
            self.norms, self.inner, self.deep, self.near, self.outer, strict=True
        ):
            a, b = deep(inner(norm(y))).chunk(2, 1)
            z = a * b
            y = y + outer(z * near(z.mean((2, 3), keepdim=True)))
        return x + F.pixel_shuffle(self.last(y), 2)


@model("denoiser of shuffled pixels", trained=True)
def unshuffled(batch: int = 1) -> Case:
    return _Unshuffled(32), (torch.rand(batch, 3, 64, 64),)


class _Mined(nn.Module):
    """Of each class the farthest of its own and the nearest of the others, by masks."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.PReLU(), nn.Linear(256, 64))

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        z = self.net(x)
        far = torch.cdist(z, z)
        same = label[:, None] == label[None]
        own = same & ~torch.eye(len(label), dtype=torch.bool)
        most = torch.where(own, far, -torch.inf).amax(1)
        least = far.masked_fill(same, torch.inf).amin(1)
        good = own.any(1) & (~same).any(1) & torch.isfinite(most) & torch.isfinite(least)
        return torch.where(good, F.relu(most - least + 0.2), 0.0).sum() / good.sum().clamp(min=1)


@model("hardest pairs", trained=True)
def mined(batch: int = 256) -> Case:
    return _Mined(), (torch.randn(batch, 64), torch.randint(0, 20, (batch,)))


class _Matched(nn.Module):
    """Boxes beside boxes: how far they cover each other, who belongs to whom, offsets."""

    def forward(self, boxes: torch.Tensor, truth: torch.Tensor) -> tuple[torch.Tensor, ...]:
        low = torch.maximum(boxes[:, None, :2], truth[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], truth[None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        size, other = ((b[:, 2:] - b[:, :2]).prod(-1) for b in (boxes, truth))
        cover = both / (size[:, None] + other[None] - both)
        best, which = cover.max(1)
        kind = torch.where(best >= 0.5, 1, torch.where(best < 0.3, 0, -1))
        forced = cover.argmax(0)
        kind = kind.index_fill(0, forced, 1)
        mine = truth[which]
        middle, wide = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
        goal, broad = (mine[:, :2] + mine[:, 2:]) / 2, mine[:, 2:] - mine[:, :2]
        offsets = torch.cat([(goal - middle) / wide, torch.log(broad / wide)], -1)
        return kind, torch.where((kind == 1)[:, None], offsets, 0.0), best


@model("matched boxes")
def matched(batch: int = 4096) -> Case:
    def some(n: int) -> torch.Tensor:
        low = torch.rand(n, 2) * 90
        return torch.cat([low, low + 5 + torch.rand(n, 2) * 20], 1)

    return _Matched(), (some(batch), some(24))


class _Bilinear(nn.Module):
    """Three-way products over parts of two descriptions, joined by a softmax over pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.core = nn.Parameter(torch.randn(32, 32, 24) / 32)
        self.left, self.right = nn.Linear(96, 32), nn.Linear(64, 32)
        self.out = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = self.left(x), self.right(y)
        joint = torch.einsum("npi,nqj,ijk->npqk", a, b, self.core)
        weight = torch.einsum("npi,nqi->npq", a, b).flatten(1).softmax(-1).view(*joint.shape[:3])
        return self.out(torch.einsum("npqk,npq->nk", joint.tanh(), weight))


@model("three-way products", trained=True)
def bilinear(batch: int = 16) -> Case:
    return _Bilinear(), (torch.randn(batch, 12, 96), torch.randn(batch, 20, 64))


class _SortPool(nn.Module):
    """Nodes of a graph in the order of their last feature, the first of them convolved."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, 32) for a in (16, 32, 32))
        self.conv, self.out = nn.Conv1d(96, 32, 5), nn.Linear(32, 2)

    def forward(self, x: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        near = near / near.sum(-1, keepdim=True).clamp(min=1)
        seen = []
        for layer in self.layers:
            x = torch.tanh(near @ layer(x))
            seen.append(x)
        x = torch.cat(seen, -1)
        order = x[..., -1].argsort(-1, descending=True)[:, :20]
        x = x.gather(1, order[..., None].expand(-1, -1, x.shape[-1]))
        return self.out(F.relu(self.conv(x.transpose(1, 2))).amax(-1))


@model("sorted nodes", trained=True)
def sort_pool(batch: int = 8) -> Case:
    return _SortPool(), (torch.randn(batch, 100, 16), (torch.rand(batch, 100, 100) < 0.1).float())
