"""Guests, sequences: attention variants, filters, densities and cells, written as people do, first,
and measured afterwards."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Linear(nn.Module):
    """Attention without a softmax: features that are positive, sums over what came before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, self.heads, -1).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        states = torch.einsum("nthd,nthe->nthde", k, v).cumsum(1)
        total = torch.einsum("nthd,nthd->nth", q, k.cumsum(1)).clamp(min=1e-6)
        y = torch.einsum("nthd,nthde->nthe", q, states) / total[..., None]
        return x + self.out(y.reshape(n, t, c))


@model("linear attention", trained=True)
def linear(batch: int = 2) -> Case:
    return _Linear(128, 8), (torch.randn(batch, 128, 128),)


class _Alibi(nn.Module):
    """Scores that fall with the distance, by a slope a head, and nothing from ahead."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = (
            f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        place = torch.arange(t)
        far = (place[None, :] - place[:, None]).float()
        score = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        score = score + self.slopes[:, None, None] * far
        score = score.masked_fill(place[None, :] > place[:, None], -torch.inf)
        return self.o((score.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))


@model("attention with slopes", trained=True)
def alibi(batch: int = 4) -> Case:
    return _Alibi(128, 8), (torch.randn(batch, 96, 128),)


class _Local(nn.Module):
    """Each place looks at its neighbours alone, which `unfold` lays side by side."""

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.reach, self.qkv = reach, nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(torch.zeros(2 * reach + 1))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        t = x.shape[1]
        q, k, v = self.qkv(x).chunk(3, -1)
        valid = torch.arange(t)[None] < lengths[:, None]
        edge = (0, 0, self.reach, self.reach)
        k, v = (F.pad(y, edge).unfold(1, 2 * self.reach + 1, 1) for y in (k, v))
        seen = F.pad(valid, edge[2:], value=False).unfold(1, 2 * self.reach + 1, 1)
        score = torch.einsum("ntc,ntcw->ntw", q, k) / math.sqrt(q.shape[-1]) + self.bias
        score = score.masked_fill(~seen, -1e9).softmax(-1)
        return torch.einsum("ntw,ntcw->ntc", score, v) * valid[..., None]


@model("attention to neighbours", trained=True)
def local(batch: int = 4) -> Case:
    return _Local(64, 8), (torch.randn(batch, 128, 64), torch.tensor([128, 100, 64, 9][:batch]))


class _Kalman(nn.Module):
    """Prediction and correction of a linear system, a batch of tracks, step by step."""

    def __init__(self, state: int, seen: int) -> None:
        super().__init__()
        self.move = nn.Parameter(torch.eye(state) + 0.01 * torch.randn(state, state))
        self.see = nn.Parameter(torch.randn(seen, state) * 0.5)
        self.noise, self.blur = nn.Parameter(torch.zeros(state)), nn.Parameter(torch.zeros(seen))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, r = torch.diag_embed(self.noise.exp()), torch.diag_embed(self.blur.exp())
        mean = x.new_zeros(n, self.move.shape[0])
        spread = torch.eye(self.move.shape[0]).expand(n, -1, -1)
        total = x.new_zeros(n)
        for i in range(t):
            mean = mean @ self.move.T
            spread = self.move @ spread @ self.move.T + q
            off = x[:, i] - mean @ self.see.T
            s = self.see @ spread @ self.see.T + r
            gain = torch.linalg.solve(s, self.see @ spread).transpose(1, 2)
            mean = mean + (gain @ off[..., None])[..., 0]
            spread = spread - gain @ self.see @ spread
            total = total + (off * torch.linalg.solve(s, off[..., None])[..., 0]).sum(-1)
        return total


@model("kalman filter", trained=True)
def kalman(batch: int = 64) -> Case:
    return _Kalman(4, 2), (torch.randn(batch, 16, 2),)


class _Mixture(nn.Module):
    """The logarithm of a density that is a mixture of normal ones."""

    def __init__(self, inside: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.net = nn.Sequential(nn.Linear(inside, 256), nn.Tanh(), nn.Linear(256, 3 * parts * 2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logit, mean, scale = self.net(x).view(-1, 3, self.parts, 2).unbind(1)
        mixed = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=logit[..., 0], validate_args=False),
            torch.distributions.Independent(
                torch.distributions.Normal(mean, F.softplus(scale) + 1e-3, validate_args=False), 1,
                validate_args=False,
            ),
            validate_args=False,
        )  # fmt: skip
        return -mixed.log_prob(y)


@model("mixture density", trained=True)
def mixture(batch: int = 1024) -> Case:
    return _Mixture(16, 12), (torch.randn(batch, 16), torch.randn(batch, 2))


class _Hyena(nn.Module):
    """A filter as long as the sequence, by Fourier transforms, between two gates."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.short = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.filter = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, width))
        time = torch.linspace(0, 1, length)[:, None]
        waves = [f(2 * math.pi * k * time) for k in range(1, 5) for f in (torch.sin, torch.cos)]
        self.register_buffer("place", torch.cat([time, *waves], 1))
        self.fade = nn.Parameter(torch.linspace(1, 8, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = x.shape[1]
        a, b, v = self.short(self.inner(x).transpose(1, 2))[..., :t].chunk(3, 1)
        kernel = (self.filter(self.place) * torch.exp(-self.fade * self.place[:, :1])).T
        v = v * a
        both = torch.fft.rfft(v, n=2 * t) * torch.fft.rfft(kernel, n=2 * t)
        y = torch.fft.irfft(both, n=2 * t)[..., :t] + v
        return self.out((y * b).transpose(1, 2))


@model("long convolution", trained=True)
def hyena(batch: int = 2) -> Case:
    return _Hyena(64, 512), (torch.randn(batch, 512, 64),)


class _Ragged(nn.Module):
    """A cell over sequences of several lengths: past its end, a row keeps its state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell, self.norm = nn.GRUCell(width, width), nn.LayerNorm(width)
        self.out = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(x.shape[0], x.shape[2])
        for t in range(x.shape[1]):
            new = self.norm(self.cell(x[:, t], state))
            state = torch.where((t < lengths)[:, None], new, state)
        return self.out(state)


@model("cells over ragged rows", trained=True)
def ragged(batch: int = 16) -> Case:
    return _Ragged(96), (torch.randn(batch, 24, 96), torch.randint(1, 25, (batch,)))
