"""Strangers of science and tables: derivatives inside a model, filters, solves, float64."""

from __future__ import annotations

import itertools
import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Burgers(nn.Module):
    """A physics-informed network: derivatives of itself by x and t, twice, inside of the loss."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        sizes = [2] + [width] * layers + [1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def u(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = torch.stack([x, t], -1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h).squeeze(-1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x, t = x.requires_grad_(True), t.requires_grad_(True)
        u = self.u(x, t)
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        return u_t + u * u_x - (0.01 / math.pi) * u_xx


@model("physics-informed network, training", training=True)
def burgers(batch: int = 1000) -> Case:
    return _Burgers(32, 5), (torch.rand(batch) * 2 - 1, torch.rand(batch))


class _Particles(nn.Module):
    """A particle filter: move, weigh, resample by a running sum and a search."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.move = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))
        self.see = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, seen: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        at = (torch.arange(n) + 0.5) / n
        means = []
        for t in range(self.steps):
            x = x + 0.1 * self.move(x) + 0.05 * noise[t]
            log = -0.5 * ((seen[:, t, None] - self.see(x)) ** 2).sum(-1) / 0.1
            w = torch.softmax(log, -1)
            means.append((w.unsqueeze(-1) * x).sum(1))
            picked = torch.searchsorted(w.cumsum(-1), at.expand(b, n).contiguous())
            picked = picked.clamp(max=n - 1)
            x = torch.gather(x, 1, picked.unsqueeze(-1).expand(-1, -1, 4))
        return torch.stack(means, 1)


@model("particle filter")
def particles(batch: int = 8) -> Case:
    noise = torch.randn(20, batch, 500, 4)
    return _Particles(20), (torch.randn(batch, 500, 4), torch.randn(batch, 20, 2), noise)


class _Registration(nn.Module):
    """Two clouds laid upon each other: soft matches, then the best rotation by an SVD."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(3, width, 1), nn.InstanceNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 1), nn.InstanceNorm1d(width), nn.ReLU(),
        )  # fmt: skip

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(2):
            f, g = self.features(a.transpose(1, 2)), self.features(b.transpose(1, 2))
            w = torch.softmax(-torch.cdist(f.transpose(1, 2), g.transpose(1, 2)), -1)
            matched = w @ b
            ca, cb = a.mean(1, keepdim=True), matched.mean(1, keepdim=True)
            h = (a - ca).transpose(1, 2) @ (matched - cb)
            u, _, vt = torch.linalg.svd(h)
            sign = torch.det(vt.transpose(1, 2) @ u.transpose(1, 2))
            flip = torch.diag_embed(torch.stack([torch.ones_like(sign)] * 2 + [sign], -1))
            rotation = vt.transpose(1, 2) @ flip @ u.transpose(1, 2)
            a = (a - ca) @ rotation.transpose(1, 2) + cb
        return a, rotation


@model("clouds laid upon each other")
def registration(batch: int = 8) -> Case:
    return _Registration(64), (torch.randn(batch, 256, 3), torch.randn(batch, 256, 3))


class _Lattice(nn.Module):
    """Flow by lattice Boltzmann in float64: nine directions that roll and collide."""

    weights: torch.Tensor
    ways: torch.Tensor
    wall: torch.Tensor

    def __init__(self, steps: int, size: int) -> None:
        super().__init__()
        self.steps = steps
        ways = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
        self.moves = ways
        self.register_buffer("ways", torch.tensor(ways, dtype=torch.float64))
        weights = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float64))
        y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.register_buffer("wall", (x - size // 4) ** 2 + (y - size // 2) ** 2 < (size / 9) ** 2)
        self.back = [0, 3, 4, 1, 2, 7, 8, 5, 6]

    def forward(self, f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(self.steps):
            f = torch.stack([torch.roll(f[i], m, (0, 1)) for i, m in enumerate(self.moves)])
            bounced = f[self.back][:, self.wall]
            rho = f.sum(0)
            u = torch.einsum("qd,qxy->dxy", self.ways, f) / rho
            cu = torch.einsum("qd,dxy->qxy", self.ways, u)
            square = (u * u).sum(0)
            even = self.weights[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * square)
            f = f - (f - even) / 0.6
            f[:, self.wall] = bounced
        return f, u


@model("lattice boltzmann float64")
def lattice() -> Case:
    f = torch.ones(9, 96, 96, dtype=torch.float64) + 0.01 * torch.randn(9, 96, 96).double()
    return _Lattice(10, 96), (f,)


class _Sparsemax(nn.Module):
    """The projection onto the simplex by a sort, as published code has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ordered, _ = torch.sort(x, -1, descending=True)
        counts = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        total = ordered.cumsum(-1)
        support = 1 + counts * ordered > total
        size = support.sum(-1, keepdim=True)
        tau = (total.gather(-1, size - 1) - 1) / size.to(x.dtype)
        return torch.clamp(x - tau, min=0)


class _TabNet(nn.Module):
    """Columns chosen step after step by sparse masks; normalised in small virtual batches."""

    def __init__(self, columns: int, width: int, steps: int) -> None:
        super().__init__()
        self.steps, self.width = steps, width
        self.first = nn.BatchNorm1d(columns)
        self.shared = nn.Linear(columns, 4 * width, bias=False)
        self.own = nn.ModuleList(
            nn.ModuleList([nn.BatchNorm1d(4 * width), nn.Linear(2 * width, 4 * width)])
            for _ in range(steps + 1)
        )
        self.pick = nn.ModuleList(
            nn.Sequential(nn.Linear(width, columns, bias=False), nn.BatchNorm1d(columns))
            for _ in range(steps)
        )
        self.sparse, self.out = _Sparsemax(), nn.Linear(width, 2)

    def part(self, x: torch.Tensor, i: int) -> torch.Tensor:
        norm, layer = self.own[i]  # type: ignore[misc]  # a pair
        h = self.shared(x)
        h = F.glu(torch.cat([norm(c) for c in h.chunk(4, 0)], 0), -1)
        return (h + F.glu(layer(h), -1)) * math.sqrt(0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        prior = torch.ones_like(x)
        out = torch.zeros(x.shape[0], self.width)
        h = self.part(x, 0)[:, self.width :]
        loss = x.new_zeros(())
        for i in range(self.steps):
            mask = self.sparse(self.pick[i](h) * prior)
            loss = loss + (mask * torch.log(mask + 1e-10)).sum(-1).mean() / self.steps
            prior = prior * (1.3 - mask)
            found = self.part(mask * x, i + 1)
            out = out + F.relu(found[:, : self.width])
            h = found[:, self.width :]
        return self.out(out), -loss


@model("tabnet", trained=True)
def tabnet(batch: int = 512) -> Case:
    return _TabNet(54, 32, 4), (torch.randn(batch, 54),)
