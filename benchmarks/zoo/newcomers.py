"""Newcomers of sequences, tables and graphs: written first, measured afterwards."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Performer(nn.Module):
    """Attention by random features of the softmax kernel: linear in the number of tokens."""

    features: torch.Tensor

    def __init__(self, width: int, heads: int, features: int) -> None:
        super().__init__()
        self.heads, depth = heads, width // heads
        blocks = [torch.linalg.qr(torch.randn(depth, depth))[0] for _ in range(features // depth)]
        self.register_buffer("features", torch.cat(blocks) * math.sqrt(depth))
        self.to_qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def kernel(self, x: torch.Tensor, query: bool) -> torch.Tensor:
        x = x * x.shape[-1] ** -0.25
        seen = x @ self.features.T
        size = x.pow(2).sum(-1, keepdim=True) / 2
        axes = (-1,) if query else (-1, -2)
        top = seen.amax(axes, keepdim=True).detach()
        return (torch.exp(seen - size - top) + 1e-4) / math.sqrt(self.features.shape[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        qkv = self.to_qkv(self.norms[0](x)).view(b, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = self.kernel(q, True), self.kernel(k, False)
        scale = 1 / (q @ k.sum(2).unsqueeze(-1))
        seen = (q @ (k.transpose(-1, -2) @ v)) * scale
        x = x + self.out(seen.transpose(1, 2).reshape(b, n, c))
        return x + self.feed(self.norms[1](x))


@model("performer", trained=True)
def performer(batch: int = 2) -> Case:
    return _Performer(128, 4, 128), (torch.randn(batch, 512, 128),)


class _Equivariant(nn.Module):
    """Messages between atoms that see distances alone; places move along differences."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()

        def net(inside: int, outside: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(inside, width), nn.SiLU(), nn.Linear(width, outside))

        self.edges = nn.ModuleList(net(2 * width + 1, width) for _ in range(layers))
        self.moves = nn.ModuleList(net(width, 1) for _ in range(layers))
        self.nodes = nn.ModuleList(net(2 * width, width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, h: torch.Tensor, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        row, col = pairs
        for edge, move, node in zip(self.edges, self.moves, self.nodes, strict=True):
            apart = x[row] - x[col]
            far = apart.pow(2).sum(-1, keepdim=True)
            said = F.silu(edge(torch.cat([h[row], h[col], far], -1)))
            step = apart / (far.sqrt() + 1) * move(said)
            x = x + torch.zeros_like(x).index_add(0, row, step) / 8
            heard = torch.zeros_like(h).index_add(0, row, said)
            h = h + node(torch.cat([h, heard], -1))
        return self.out(h).sum() + x.pow(2).mean()


@model("equivariant graph network", trained=True)
def equivariant(batch: int = 400) -> Case:
    pairs = torch.randint(0, batch, (2, 8 * batch))
    return _Equivariant(64, 3), (torch.randn(batch, 64), torch.randn(batch, 3), pairs)


class _GatedResidual(nn.Module):
    def __init__(self, width: int, given: int | None = None) -> None:
        super().__init__()
        self.skip = nn.Linear(given, width) if given else nn.Identity()
        self.first, self.second = nn.Linear(given or width, width), nn.Linear(width, width)
        self.gate, self.norm = nn.Linear(width, 2 * width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(F.elu(self.first(x)))
        return self.norm(self.skip(x) + F.glu(self.gate(y), -1))


class _Fusion(nn.Module):
    """Temporal fusion: chosen variables, an LSTM, attention with one shared value."""

    mask: torch.Tensor

    def __init__(self, variables: int, width: int, heads: int, steps: int) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.each = nn.ModuleList(_GatedResidual(width) for _ in range(variables))
        self.choose = nn.Sequential(
            _GatedResidual(width, variables * width), nn.Linear(width, variables)
        )
        self.cells, self.after = nn.LSTM(width, width, batch_first=True), _GatedResidual(width)
        self.qk, self.v = nn.Linear(width, 2 * width), nn.Linear(width, width // heads)
        self.join, self.last = nn.Linear(width // heads, width), _GatedResidual(width)
        self.out = nn.Linear(width, 3)
        self.register_buffer("mask", torch.ones(steps, steps, dtype=torch.bool).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        parts = [embed(x[..., i : i + 1]) for i, embed in enumerate(self.embed)]
        weights = torch.softmax(self.choose(torch.cat(parts, -1)), -1).unsqueeze(-1)
        each = torch.stack([net(p) for net, p in zip(self.each, parts, strict=True)], -2)
        x = (weights * each).sum(-2)
        x = self.after(x + self.cells(x)[0])
        q, k = self.qk(x).view(b, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(self.mask, -1e9)
        seen = (torch.softmax(score, -1) @ self.v(x).unsqueeze(1)).mean(1)
        return self.out(self.last(x + self.join(seen)))


@model("temporal fusion transformer", trained=True)
def fusion(batch: int = 16) -> Case:
    return _Fusion(8, 64, 4, 48), (torch.randn(batch, 48, 8),)


class _Memory(nn.Module):
    """A matrix memory with exponential gates, in its parallel form (xLSTM)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.gates, self.norm = nn.Linear(3 * width, 2 * heads), nn.LayerNorm(width)
        self.near = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.inner = nn.GroupNorm(heads, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        inside, gate = self.up(self.norm(x)).chunk(2, -1)
        near = F.silu(self.near(inside.transpose(1, 2))[..., :n].transpose(1, 2))
        q, k, v = self.q(near), self.k(near), self.v(inside)
        enter, keep = self.gates(torch.cat([q, k, v], -1)).transpose(1, 2).chunk(2, 1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        total = F.logsigmoid(keep).cumsum(-1)
        log = total.unsqueeze(-1) - total.unsqueeze(-2) + enter.unsqueeze(-2)
        log = log.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), float("-inf"))
        top = log.amax(-1, keepdim=True)
        seen = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) * torch.exp(log - top)
        size = torch.maximum(seen.sum(-1, keepdim=True).abs(), torch.exp(-top)) + 1e-6
        y = ((seen / size) @ v).transpose(1, 2).reshape(b * n, c)
        return x + self.down(self.inner(y).view(b, n, c) * F.silu(gate))


@model("matrix memory", trained=True)
def memory(batch: int = 2) -> Case:
    return _Memory(128, 4), (torch.randn(batch, 128, 128),)


class _Correlated(nn.Module):
    """Forecasts by autocorrelation: the best delays by a transform, a trend by moving means."""

    def __init__(self, width: int, steps: int, best: int) -> None:
        super().__init__()
        self.best, self.steps = best, steps
        self.embed = nn.Conv1d(7, width, 3, padding=1, padding_mode="circular")
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.feed = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1, bias=False), nn.GELU(),
            nn.Conv1d(2 * width, width, 1, bias=False),
        )  # fmt: skip
        self.head = nn.Linear(width, 7)

    @staticmethod
    def split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ends = [x[:, :1].repeat(1, 12, 1), x, x[:, -1:].repeat(1, 12, 1)]
        trend = F.avg_pool1d(torch.cat(ends, 1).transpose(1, 2), 25, 1).transpose(1, 2)
        return x - trend, trend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x.transpose(1, 2)).transpose(1, 2)
        q, k, v = self.q(x), self.k(x), self.v(x)
        both = torch.fft.rfft(q, dim=1) * torch.fft.rfft(k, dim=1).conj()
        alike = torch.fft.irfft(both, n=self.steps, dim=1).mean(-1)
        weight, delay = alike.topk(self.best, -1)
        weight = torch.softmax(weight, -1)
        twice, places = v.repeat(1, 2, 1), torch.arange(self.steps)
        seen = torch.zeros_like(v)
        for i in range(self.best):
            at = (places + delay[:, i : i + 1]).unsqueeze(-1).expand(-1, -1, v.shape[-1])
            seen = seen + twice.gather(1, at) * weight[:, i, None, None]
        season, trend = self.split(x + self.out(seen))
        season = season + self.feed(season.transpose(1, 2)).transpose(1, 2)
        return self.head(self.split(season)[0] + trend)


@model("autocorrelation", trained=True)
def correlated(batch: int = 4) -> Case:
    return _Correlated(64, 96, 4), (torch.randn(batch, 96, 7),)


class _Crossed(nn.Module):
    """Deep and cross layers with a factorisation machine over embedded columns."""

    def __init__(self, fields: int, rows: int, width: int) -> None:
        super().__init__()
        self.table, self.bias = nn.Embedding(fields * rows, width), nn.Embedding(fields * rows, 1)
        self.offsets = [i * rows for i in range(fields)]
        total = fields * width
        self.cross = nn.ModuleList(nn.Linear(total, total) for _ in range(2))
        self.deep = nn.Sequential(
            nn.Linear(total, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.0),
            nn.Linear(256, 64), nn.BatchNorm1d(64), nn.ReLU(),
        )  # fmt: skip
        self.out = nn.Linear(total + 64, 1)

    def forward(self, columns: torch.Tensor) -> torch.Tensor:
        at = columns + columns.new_tensor(self.offsets)
        x = self.table(at)
        pairs = 0.5 * (x.sum(1).pow(2) - x.pow(2).sum(1)).sum(1, keepdim=True)
        first = flat = x.flatten(1)
        for layer in self.cross:
            flat = first * layer(flat) + flat
        joined = self.out(torch.cat([flat, self.deep(first)], 1))
        return torch.sigmoid(joined + pairs + self.bias(at).sum(1))


@model("deep and crossed columns", trained=True)
def crossed(batch: int = 256) -> Case:
    return _Crossed(20, 500, 16), (torch.randint(0, 500, (batch, 20)),)


class _Policy(nn.Module):
    """A clipped policy step: advantages by a loop back in time, a critic, an entropy."""

    def __init__(self, seen: int, actions: int) -> None:
        super().__init__()

        def net(out: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(seen, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, out)
            )

        self.actor, self.critic = net(actions), net(1)
        self.spread = nn.Parameter(torch.zeros(actions))

    def forward(
        self, x: torch.Tensor, taken: torch.Tensor, old: torch.Tensor, reward: torch.Tensor,
        going: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        value = self.critic(x).squeeze(-1)
        with torch.no_grad():
            ahead, gains = torch.zeros_like(reward[0]), []
            for t in reversed(range(reward.shape[0])):
                after = value[t + 1] if t + 1 < reward.shape[0] else torch.zeros_like(ahead)
                error = reward[t] + 0.99 * after * going[t] - value[t]
                ahead = error + 0.99 * 0.95 * going[t] * ahead
                gains.append(ahead)
            gain = torch.stack(gains[::-1])
            target = gain + value
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        policy = torch.distributions.Normal(
            self.actor(x), self.spread.exp().expand(taken.shape), validate_args=False
        )
        ratio = (policy.log_prob(taken).sum(-1) - old).exp()
        clipped = torch.clamp(ratio, 0.8, 1.2)
        loss = -torch.min(ratio * gain, clipped * gain).mean()
        return loss + 0.5 * F.mse_loss(value, target) - 0.01 * policy.entropy().sum(-1).mean()


@model("clipped policy", trained=True)
def policy(batch: int = 16) -> Case:
    x, taken = torch.randn(64, batch, 17), torch.randn(64, batch, 6)
    old, reward = torch.randn(64, batch) * 0.1 - 8, torch.randn(64, batch)
    return _Policy(17, 6), (x, taken, old, reward, (torch.rand(64, batch) > 0.02).float())
