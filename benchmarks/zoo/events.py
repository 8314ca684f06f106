"""Models of what happened: events, missing values, spectra of series, clicks, learned kernels."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


# ------------------------------ events in continuous time
class _Hawkes(nn.Module):
    """The neural Hawkes process: cells that decay between events, a likelihood by quadrature."""

    def __init__(self, kinds: int, d: int) -> None:
        super().__init__()
        self.kinds, self.d = kinds, d
        self.emb, self.cell, self.rate = (
            nn.Embedding(kinds + 1, d),
            nn.Linear(2 * d, 7 * d),
            nn.Linear(d, kinds),
        )

    def forward(self, kind: torch.Tensor, gap: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        b, t = kind.shape
        h, c, bar = (torch.zeros(b, self.d) for _ in range(3))
        x, like = self.emb(kind), torch.zeros(b)
        for i in range(t):
            i_, f, z, o, ib, fb, delta = self.cell(torch.cat([x[:, i], h], 1)).chunk(7, 1)
            z = torch.tanh(z)
            c = torch.sigmoid(f) * c + torch.sigmoid(i_) * z
            bar = torch.sigmoid(fb) * bar + torch.sigmoid(ib) * z
            delta, o = F.softplus(delta), torch.sigmoid(o)
            times = torch.cat([gap[:, i, None], gap[:, i, None] * u], 1)  # b, 1 + samples
            ct = bar[:, None] + (c - bar)[:, None] * torch.exp(-delta[:, None] * times[..., None])
            ht = o[:, None] * torch.tanh(ct)
            rate = F.softplus(self.rate(ht))
            if i + 1 < t:
                like = like + torch.log(
                    rate[:, 0].gather(1, kind[:, i + 1, None]).squeeze(1) + 1e-9
                )
            like = like - rate[:, 1:].sum(-1).mean(1) * gap[:, i]
            c, h = ct[:, 0], ht[:, 0]
        return -like.mean()


@model("events in continuous time", trained=True)
def hawkes(batch: int = 16) -> Case:
    return _Hawkes(8, 48), (torch.randint(0, 8, (batch, 20)), torch.rand(batch, 20), torch.rand(6))


# ------------------------------ missing values (GRU-D)
class _GruD(nn.Module):
    mean: torch.Tensor

    def __init__(self, features: int, d: int) -> None:
        super().__init__()
        self.wg = nn.Parameter(torch.rand(features))
        self.gh, self.cell = nn.Linear(features, d), nn.GRUCell(2 * features, d)
        self.register_buffer("mean", torch.zeros(features, dtype=torch.float64))
        self.out = nn.Linear(d, 2)

    def forward(self, x: torch.Tensor, stamps: torch.Tensor) -> torch.Tensor:
        mask = ~torch.isnan(x)
        x = torch.nan_to_num(x)
        b, t, f = x.shape
        since, last = torch.zeros(b, f), self.mean.float().expand(b, f)
        h = torch.zeros(b, self.gh.out_features)
        for i in range(t):
            m = mask[:, i]
            if i > 0:
                gap = (stamps[:, i] - stamps[:, i - 1])[:, None]
                since = gap + torch.where(mask[:, i - 1], 0.0, since)
            decay = torch.exp(-torch.relu(self.wg * since))
            last = torch.where(m, x[:, i], last)
            filled = torch.where(m, x[:, i], decay * last + (1 - decay) * self.mean.float())
            h = h * torch.exp(-torch.relu(self.gh(since)))
            h = self.cell(torch.cat([filled, m.float()], 1), h)
        return self.out(h)


@model("missing values that decay", trained=True)
def gru_d(batch: int = 32) -> Case:
    x = torch.randn(batch, 24, 17)
    x[torch.rand_like(x) < 0.6] = float("nan")
    return _GruD(17, 64), (x, torch.rand(batch, 24).cumsum(1))


# ------------------------------ modes of a spectrum (FEDformer)
class _Modes(nn.Module):
    """RevIN, moving averages, attention between chosen Fourier modes with complex weights."""

    def __init__(self, channels: int, length: int, d: int, modes: int, out: int) -> None:
        super().__init__()
        self.modes, self.out = modes, out
        self.gain, self.shift = (
            nn.Parameter(torch.ones(channels)),
            nn.Parameter(torch.zeros(channels)),
        )
        self.emb = nn.Conv1d(channels, d, 3, padding=1, padding_mode="circular", bias=False)
        self.w = nn.Parameter(torch.randn(8, d // 8, d // 8, modes, 2) / d)
        self.conv1, self.conv2 = (
            nn.Conv1d(d, 2 * d, 1, bias=False),
            nn.Conv1d(2 * d, d, 1, bias=False),
        )
        self.proj, self.trend, self.length = (
            nn.Linear(d, channels),
            nn.Linear(length, out),
            nn.Linear(length, out),
        )
        self.index = sorted(torch.randperm(length // 2)[:modes].tolist())

    def split(self, x: torch.Tensor, k: int = 25) -> tuple[torch.Tensor, torch.Tensor]:
        front, end = x[:, :1].repeat(1, (k - 1) // 2, 1), x[:, -1:].repeat(1, (k - 1) // 2, 1)
        trend = F.avg_pool1d(torch.cat([front, x, end], 1).transpose(1, 2), k, 1).transpose(1, 2)
        return x - trend, trend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, std = (
            x.mean(1, keepdim=True),
            torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5),
        )
        x = (x - mean) / std * self.gain + self.shift
        season, trend = self.split(x)
        y = self.emb(season.transpose(1, 2))
        b, d, n = y.shape
        spec = torch.fft.rfft(y.view(b, 8, d // 8, n), dim=-1)
        mixed = torch.zeros(b, 8, d // 8, n // 2 + 1, dtype=torch.cfloat)
        weight = torch.view_as_complex(self.w)
        mixed[..., : self.modes] = torch.einsum("bhim,hiom->bhom", spec[..., self.index], weight)
        y = y + torch.fft.irfft(mixed, n=n).reshape(b, d, n)
        y, more = self.split(y.transpose(1, 2))
        y = self.split(y + self.conv2(F.gelu(self.conv1(y.transpose(1, 2)))).transpose(1, 2))[0]
        y = self.length(self.proj(y + more).transpose(1, 2)) + self.trend(trend.transpose(1, 2))
        return (y.transpose(1, 2) - self.shift) / (self.gain + 1e-10) * std + mean


@model("modes of a spectrum", trained=True)
def fedformer(batch: int = 16) -> Case:
    return _Modes(7, 96, 64, 32, 48), (torch.randn(batch, 96, 7),)


# ------------------------------ rates of several kinds (N-HiTS)
class _Hits(nn.Module):
    def __init__(self, length: int, out: int, width: int) -> None:
        super().__init__()
        self.out, self.pools, self.coarse = out, (16, 8, 1), (4, 12, out)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(math.ceil(length / p), width),
                nn.ReLU(),
                nn.Linear(width, width),
                nn.ReLU(),
                nn.Linear(width, length + c),
            )
            for p, c in zip(self.pools, self.coarse, strict=True)
        )

    def forward(self, x: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
        rest, total, parts = x, x[:, -1:].expand(-1, self.out), []
        for block, pool in zip(self.blocks, self.pools, strict=True):
            theta = block(F.max_pool1d(rest.unsqueeze(1), pool, pool, ceil_mode=True).squeeze(1))
            back, knots = theta[:, : x.shape[1]], theta[:, x.shape[1] :]
            forecast = F.interpolate(knots[:, None], size=self.out, mode="linear")[:, 0]
            rest, total = rest - back, total + forecast
            parts.append(forecast)
        return OrderedDict(forecast=total, parts=torch.stack(parts, 1), rest=rest)


@model("rates of several kinds")
def nhits(batch: int = 256) -> Case:
    return _Hits(168, 24, 256), (torch.randn(batch, 168),)


# ------------------------------ interests that evolve (DIEN), a dict of ids
class _Evolving(nn.Module):
    def __init__(self, items: int, users: int, d: int) -> None:
        super().__init__()
        self.tables = nn.ModuleDict(
            {
                "item": nn.Embedding(items, d, padding_idx=0),
                "cat": nn.Embedding(100, d),
                "user": nn.Embedding(users, d),
            }
        )
        self.gru = nn.GRU(2 * d, 2 * d, batch_first=True)
        self.att = nn.Bilinear(2 * d, 2 * d, 1)
        self.x, self.h = nn.Linear(2 * d, 6 * d), nn.Linear(2 * d, 6 * d)
        self.mlp = nn.Sequential(
            nn.Linear(7 * d, 80), nn.BatchNorm1d(80), nn.PReLU(), nn.Linear(80, 1)
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        seq = torch.cat(
            [self.tables["item"](batch["items"]), self.tables["cat"](batch["cats"])], -1
        )
        target = torch.cat(
            [self.tables["item"](batch["item"]), self.tables["cat"](batch["cat"])], -1
        )
        mask = batch["items"] != 0
        y, _ = self.gru(seq)
        score = self.att(y, target[:, None].expand_as(y).contiguous()).squeeze(-1)
        a = score.masked_fill(~mask, -(2**31)).softmax(-1)
        h = torch.zeros_like(target)
        for t in range(y.shape[1]):
            xr, xz, xn = self.x(y[:, t]).chunk(3, -1)
            hr, hz, hn = self.h(h).chunk(3, -1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz) * a[:, t, None]
            new = (1 - z) * h + z * torch.tanh(xn + r * hn)
            h = torch.where(mask[:, t, None], new, h)
        user = self.tables["user"](batch["user"])
        pooled = (seq * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return torch.sigmoid(self.mlp(torch.cat([user, target, h, pooled], -1)))


@model("interests that evolve", trained=True)
def evolving(batch: int = 32) -> Case:
    items = torch.randint(1, 2000, (batch, 20))
    items[:8, 12:] = 0
    return _Evolving(2000, 500, 24), (
        {
            "items": items,
            "cats": torch.randint(0, 100, (batch, 20)),
            "item": torch.randint(1, 2000, (batch,)),
            "cat": torch.randint(0, 100, (batch,)),
            "user": torch.randint(0, 500, (batch,)),
        },
    )


# ------------------------------ random filters (MiniRocket)
class _Rocket(nn.Module):
    weight: torch.Tensor

    def __init__(self, filters: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.dilations = dilations
        w = -torch.ones(84, 1, 9)
        rows = torch.combinations(torch.arange(9), 3)
        w[torch.arange(84)[:, None], 0, rows] = 2.0
        self.register_buffer("weight", w)
        self.head = nn.Linear(84 * filters * len(dilations), 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for d in self.dilations:
            y = F.conv1d(x, self.weight, padding=4 * d, dilation=d)
            q = torch.quantile(y.flatten(2), torch.tensor([0.25, 0.5, 0.75]), dim=2)
            found.append(
                (y.unsqueeze(-1) > q.permute(1, 2, 0)[:, :, None]).float().mean(2).flatten(1)
            )
        return self.head(torch.cat(found, 1))


@model("random filters and their shares")
def rocket(batch: int = 8) -> Case:
    return _Rocket(3, (1, 4, 16)), (torch.randn(batch, 1, 200),)


# ------------------------------ kernels learned, cholesky, float64
class _DeepKernel(nn.Module):
    def __init__(self, d: int, inducing: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 4)).double()
        self.z = nn.Parameter(torch.randn(inducing, 4, dtype=torch.float64))
        self.raw = nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def kernel(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        scale, amp, _ = F.softplus(self.raw)
        d = math.sqrt(5) * torch.cdist(a, b).clamp(min=1e-15) / scale
        return amp * (1 + d + d**2 / 3) * torch.exp(-d)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        h, noise = self.net(x), F.softplus(self.raw[2]) + 1e-3
        m = self.z.shape[0]
        kzz = self.kernel(self.z, self.z) + 1e-6 * torch.eye(m, dtype=x.dtype)
        low = torch.linalg.cholesky(kzz)
        a = torch.linalg.solve_triangular(low, self.kernel(self.z, h), upper=False) / noise.sqrt()
        b = torch.eye(m, dtype=x.dtype) + a @ a.T
        lb = torch.linalg.cholesky(b)
        c = torch.linalg.solve_triangular(lb, a @ y[:, None], upper=False) / noise.sqrt()
        bound = -lb.diagonal().log().sum() - 0.5 * x.shape[0] * torch.log(2 * math.pi * noise)
        bound = bound - 0.5 * y.pow(2).sum() / noise + 0.5 * c.pow(2).sum()
        trace = F.softplus(self.raw[1]) * x.shape[0] / noise - a.pow(2).sum()
        return bound - 0.5 * trace, c


@model("deep kernel of inducing points, float64", trained=True)
def deep_kernel(batch: int = 256) -> Case:
    x = torch.randn(batch, 8, dtype=torch.float64)
    return _DeepKernel(8, 48), (x, torch.sin(x[:, 0]))
