"""Neighbours over graphs, points and molecules: scatters, sparse products, what is near."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Gat(nn.Module):
    """Attention over edges, its softmax by scattered maxima and sums (GATv2)."""

    def __init__(self, a: int, d: int, heads: int) -> None:
        super().__init__()
        self.h, self.d = heads, d
        self.left, self.right = nn.Linear(a, heads * d), nn.Linear(a, heads * d)
        self.att, self.bias = (
            nn.Parameter(torch.randn(1, heads, d) / 4),
            nn.Parameter(torch.zeros(heads * d)),
        )

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        n = x.size(0)
        src, dst = edges
        left, right = self.left(x).view(n, self.h, self.d), self.right(x).view(n, self.h, self.d)
        e = (F.leaky_relu(left[src] + right[dst], 0.2) * self.att).sum(-1)
        index = dst.unsqueeze(-1).expand_as(e)
        high = torch.full((n, self.h), float("-inf")).scatter_reduce(0, index, e, "amax")
        e = torch.exp(e - high[dst])
        total = torch.zeros(n, self.h).scatter_add_(0, index, e)
        alpha = e / (total[dst] + 1e-16)
        out = torch.zeros(n, self.h, self.d).index_add_(0, dst, left[src] * alpha.unsqueeze(-1))
        return F.elu(out.flatten(1) + self.bias)


class _Gats(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = _Gat(64, 16, 4), _Gat(64, 16, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x, edges), edges)


@model("gatv2 by scatters")
def gat(batch: int = 1000) -> Case:
    return _Gats(), (torch.randn(batch, 64), torch.randint(0, batch, (2, 8 * batch)))


class _Pna(nn.Module):
    """Four reductions over neighbours, three scalers by degree."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.pre, self.post = nn.Linear(2 * d, d), nn.Linear(13 * d, d)
        self.norm = nn.BatchNorm1d(d)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        src, dst = edges[0], edges[1]
        n = x.shape[0]
        m = self.pre(torch.cat([x[dst], x[src]], -1))
        at = dst.view(-1, 1).expand_as(m)
        deg = torch.zeros(n).scatter_add_(0, dst, torch.ones(dst.shape[0])).clamp(min=1)
        zero = torch.zeros_like(x)
        mean = zero.scatter_reduce(0, at, m, "mean", include_self=False)
        high = zero.scatter_reduce(0, at, m, "amax", include_self=False)
        low = zero.scatter_reduce(0, at, m, "amin", include_self=False)
        square = zero.scatter_reduce(0, at, m * m, "mean", include_self=False)
        std = torch.sqrt(F.relu(square - mean * mean) + 1e-5)
        all_ = torch.cat([mean, high, low, std], -1)
        log = torch.log(deg + 1).unsqueeze(-1)
        scaled = torch.cat([x, all_, all_ * (log / 2.3), all_ * (2.3 / log)], -1)
        return F.relu(self.norm(self.post(scaled))) + x


class _Pnas(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.layers, self.out = nn.ModuleList(_Pna(d) for _ in range(2)), nn.Linear(d, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, edges)
        pooled = torch.zeros(32, x.shape[1]).index_add(0, graph, x)
        count = torch.bincount(graph, minlength=32).clamp(min=1).unsqueeze(1)
        return self.out(pooled / count)


@model("pna of scattered reductions")
def pna(batch: int = 800) -> Case:
    graph = torch.sort(torch.randint(0, 32, (batch,)))[0]
    return _Pnas(40), (torch.randn(batch, 40), torch.randint(0, batch, (2, 4 * batch)), graph)


class _SparseGcn(nn.Module):
    """Propagation by a sparse matrix that is a buffer, as the first tutorials do."""

    def __init__(self, n: int, a: int, d: int, out: int) -> None:
        super().__init__()
        i = torch.randint(0, n, (2, 6 * n))
        i = torch.cat([i, i.flip(0), torch.arange(n).repeat(2, 1)], 1)
        deg = torch.bincount(i[0], minlength=n).float()
        w = deg[i[0]].rsqrt() * deg[i[1]].rsqrt()
        self.register_buffer("adj", torch.sparse_coo_tensor(i, w, (n, n)).coalesce())
        self.one, self.two = nn.Linear(a, d), nn.Linear(d, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(torch.sparse.mm(self.adj, self.one(x)))
        return F.log_softmax(torch.sparse.mm(self.adj, self.two(x)), 1)


@model("gcn by torch.sparse.mm")
def gcn_sparse(batch: int = 1500) -> Case:
    return _SparseGcn(batch, 128, 64, 16), (torch.randn(batch, 128),)


class _Gin(nn.Module):
    def __init__(self, d: int, layers: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.Linear(d, 2 * d), nn.BatchNorm1d(2 * d), nn.ReLU(), nn.Linear(2 * d, d)
            )
            for _ in range(layers)
        )
        self.atoms = nn.ModuleList(nn.Embedding(v, d) for v in (119, 5, 12, 10, 6))
        self.bonds = nn.ModuleList(
            nn.ModuleList(nn.Embedding(v, d) for v in (5, 6, 2)) for _ in range(layers)
        )

    def forward(
        self, x: torch.Tensor, edges: torch.Tensor, attr: torch.Tensor, graph: torch.Tensor
    ) -> torch.Tensor:
        h = sum(table(x[:, i]) for i, table in enumerate(self.atoms))
        for layer, mlp in enumerate(self.mlps):
            e = sum(table(attr[:, i]) for i, table in enumerate(self.bonds[layer]))
            m = F.relu(h[edges[0]] + e)
            agg = torch.zeros_like(h).scatter_add(0, edges[1].unsqueeze(1).expand_as(m), m)
            h = h + F.relu(mlp((1 + self.eps[layer]) * h + agg))
        return torch.segment_reduce(h, "mean", lengths=torch.bincount(graph, minlength=24), axis=0)


@model("gin of molecules")
def gin(batch: int = 600) -> Case:
    graph = torch.sort(torch.cat([torch.arange(24), torch.randint(0, 24, (batch - 24,))]))[0]
    x = torch.stack([torch.randint(0, v, (batch,)) for v in (119, 5, 12, 10, 6)], 1)
    attr = torch.stack([torch.randint(0, v, (3 * batch,)) for v in (5, 6, 2)], 1)
    return _Gin(64, 3), (x, torch.randint(0, batch, (2, 3 * batch)), attr, graph)


class _SetAbstraction(nn.Module):
    """Points far from each other, balls around them, shared layers, the highest of each ball."""

    def __init__(self, points: int, radius: float, near: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.points, self.radius, self.near = points, radius, near
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Conv2d(a, b, 1), nn.BatchNorm2d(b), nn.ReLU()]
        self.mlp = nn.Sequential(*layers)

    def farthest(self, xyz: torch.Tensor) -> torch.Tensor:
        b, n, _ = xyz.shape
        chosen = torch.zeros(b, self.points, dtype=torch.long)
        distance = torch.ones(b, n) * 1e10
        farthest = torch.zeros(b, dtype=torch.long)
        rows = torch.arange(b)
        for i in range(self.points):
            chosen[:, i] = farthest
            centroid = xyz[rows, farthest, :].view(b, 1, 3)
            dist = torch.sum((xyz - centroid) ** 2, -1)
            distance = torch.min(distance, dist)
            farthest = torch.max(distance, -1)[1]
        return chosen

    def forward(self, xyz: torch.Tensor, points: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        b, n, _ = xyz.shape
        rows = torch.arange(b)
        centers = xyz[rows[:, None], self.farthest(xyz)]
        sq = -2 * centers @ xyz.permute(0, 2, 1)
        sq += torch.sum(centers**2, -1).view(b, self.points, 1)
        sq += torch.sum(xyz**2, -1).view(b, 1, n)
        idx = torch.arange(n).view(1, 1, n).repeat([b, self.points, 1])
        idx = torch.where(sq > self.radius**2, n, idx).sort(-1)[0][:, :, : self.near]
        first = idx[:, :, 0].view(b, self.points, 1).repeat([1, 1, self.near])
        idx = torch.where(idx == n, first, idx)
        grouped = xyz[rows[:, None, None], idx] - centers.view(b, self.points, 1, 3)
        if points is not None:
            grouped = torch.cat([grouped, points[rows[:, None, None], idx]], -1)
        y = self.mlp(grouped.permute(0, 3, 2, 1))
        return centers, torch.max(y, 2)[0].permute(0, 2, 1)


class _PointNet2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = _SetAbstraction(64, 0.4, 16, (3, 32, 32, 64))
        self.two = _SetAbstraction(16, 0.8, 16, (67, 64, 64, 128))
        self.out = nn.Linear(128, 40)

    def forward(self, xyz: torch.Tensor) -> torch.Tensor:
        centers, y = self.one(xyz, None)
        _, y = self.two(centers, y)
        return F.log_softmax(self.out(y.max(1)[0]), -1)


@model("pointnet++")
def pointnet2(batch: int = 2) -> Case:
    return _PointNet2(), (torch.rand(batch, 512, 3) * 2 - 1,)


class _Dgcnn(nn.Module):
    """Edges to the nearest twenty in feature space, again at each layer."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
            for a, b in ((3, 32), (32, 32), (32, 64))
        )
        self.last = nn.Sequential(
            nn.Conv1d(128, 256, 1, bias=False), nn.BatchNorm1d(256), nn.LeakyReLU(0.2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for conv in self.convs:
            b, c, n = x.shape
            inner = -2 * torch.matmul(x.transpose(2, 1), x)
            xx = torch.sum(x**2, 1, keepdim=True)
            idx = (-xx - inner - xx.transpose(2, 1)).topk(self.k, -1)[1]
            idx = (idx + torch.arange(0, b).view(-1, 1, 1) * n).view(-1)
            flat = x.transpose(2, 1).contiguous()
            near = flat.view(b * n, -1)[idx, :].view(b, n, self.k, c)
            own = flat.view(b, n, 1, c).repeat(1, 1, self.k, 1)
            edge = torch.cat((near - own, own), 3).permute(0, 3, 1, 2).contiguous()
            x = conv(edge).max(-1, keepdim=False)[0]
            found.append(x)
        y = self.last(torch.cat(found, 1))
        return torch.cat([F.adaptive_max_pool1d(y, 1), F.adaptive_avg_pool1d(y, 1)], 1).flatten(1)


@model("dgcnn")
def dgcnn(batch: int = 2) -> Case:
    return _Dgcnn(20), (torch.randn(batch, 3, 256),)


class _Voxels(nn.Module):
    """Points scattered into a grid of voxels, three-dimensional filters, read back by trilinear."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side
        self.embed = nn.Linear(6, 16)
        self.net = nn.Sequential(
            nn.Conv3d(16, 32, 3, padding=1),
            nn.BatchNorm3d(32),
            nn.ReLU(),
            nn.Conv3d(32, 16, 3, padding=1),
            nn.InstanceNorm3d(16),
            nn.GELU(),
        )

    def forward(self, xyz: torch.Tensor, rgb: torch.Tensor) -> torch.Tensor:
        b, n, _ = xyz.shape
        f = self.embed(torch.cat([xyz, rgb], -1))
        cell = ((xyz + 1) / 2 * self.side).long().clamp(0, self.side - 1)
        flat = (cell[..., 2] * self.side + cell[..., 1]) * self.side + cell[..., 0]
        at = flat.unsqueeze(-1).expand(-1, -1, 16)
        grid = torch.zeros(b, self.side**3, 16).scatter_add(1, at, f)
        count = torch.zeros(b, self.side**3).scatter_add(1, flat, torch.ones(b, n))
        grid = (grid / count.clamp(min=1).unsqueeze(-1)).transpose(1, 2)
        vol = self.net(grid.reshape(b, 16, self.side, self.side, self.side))
        back = F.grid_sample(vol, xyz.view(b, n, 1, 1, 3), align_corners=False)
        return back.view(b, 16, n).transpose(1, 2)


@model("points to voxels and back")
def voxels(batch: int = 1) -> Case:
    return _Voxels(20), (torch.rand(batch, 4000, 3) * 2 - 1, torch.rand(batch, 4000, 3))


class _SchNet(nn.Module):
    """Periodic distances, a cosine cutoff, energies a molecule and forces' norms."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.words = nn.Embedding(100, d)
        self.register_buffer("offset", torch.linspace(0, 5, 50))
        self.filters = nn.ModuleList(
            nn.Sequential(nn.Linear(50, d), nn.Softplus(), nn.Linear(d, d)) for _ in range(3)
        )
        self.into = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(3))
        self.out = nn.ModuleList(
            nn.Sequential(nn.Linear(d, d), nn.Softplus(), nn.Linear(d, d)) for _ in range(3)
        )
        self.energy = nn.Linear(d, 1)

    def forward(self, z: torch.Tensor, pos: torch.Tensor) -> dict[str, torch.Tensor]:
        n = z.shape[0]
        apart = pos[:, None] - pos[None]
        apart = apart - 8.0 * torch.round(apart / 8.0)
        dist = torch.linalg.norm(apart + 1e-9, dim=-1)
        cut = 0.5 * (torch.cos(dist * math.pi / 5) + 1) * (dist < 5).float() * (1 - torch.eye(n))
        basis = torch.exp(-10 * (dist[..., None] - self.offset) ** 2)
        x = self.words(z)
        for f, a, o in zip(self.filters, self.into, self.out, strict=True):
            w = f(basis) * cut.unsqueeze(-1)
            x = x + o(torch.einsum("ijd,jd->id", w, a(x)))
        e = self.energy(x).squeeze(-1)
        return {"energy": e.sum(), "atoms": e, "near": (dist < 5).sum(-1)}


@model("schnet in a periodic box")
def schnet(batch: int = 64) -> Case:
    return _SchNet(64), (torch.randint(1, 20, (batch,)), torch.rand(batch, 3) * 8)
