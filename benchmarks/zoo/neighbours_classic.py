"""Neighbours that are no networks: solvers, dynamic programs and statistics."""

from __future__ import annotations

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Kmeans(nn.Module):
    """Lloyd's iterations: distances, the nearest, means by one-hot products and by index_add."""

    def __init__(self, k: int, steps: int) -> None:
        super().__init__()
        self.k, self.steps = k, steps

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        c = x[: self.k]
        for _ in range(self.steps):
            near = torch.cdist(x, c).argmin(1)
            total = torch.zeros_like(c).index_add_(0, near, x)
            count = torch.bincount(near, minlength=self.k)
            c = torch.where(count[:, None] > 0, total / count[:, None].clamp(min=1), c)
        return c, torch.cdist(x, c).argmin(1)


@model("k-means")
def kmeans(batch: int = 2000) -> Case:
    return _Kmeans(32, 8), (torch.randn(batch, 24),)


class _Pca(nn.Module):
    """Principal axes of batches by singular values, whitening, a share of variance."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x - x.mean(-2, keepdim=True)
        _, s, vh = torch.linalg.svd(x, full_matrices=False)
        s, v = s[..., : self.k], vh[..., : self.k, :]
        share = s**2 / (x**2).sum((-1, -2)).unsqueeze(-1)
        return ((x @ v.transpose(-1, -2)) / s.unsqueeze(-2).clamp(min=1e-6)).abs(), share


@model("principal components by svd")
def pca(batch: int = 4) -> Case:
    return _Pca(8), (torch.randn(batch, 200, 32),)


class _Hmm(nn.Module):
    """The forward algorithm in logarithms and Viterbi's path, step after step."""

    def __init__(self, states: int, symbols: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(states))
        self.move = nn.Parameter(torch.randn(states, states))
        self.emit = nn.Parameter(torch.randn(states, symbols))

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        t = seen.shape[1]
        move, emit = self.move.log_softmax(-1), self.emit.log_softmax(-1)
        alpha = delta = self.start.log_softmax(0) + emit[:, seen[:, 0]].T
        back = []
        for i in range(1, t):
            e = emit[:, seen[:, i]].T
            alpha = torch.logsumexp(alpha.unsqueeze(2) + move, 1) + e
            best, at = (delta.unsqueeze(2) + move).max(1)
            delta = best + e
            back.append(at)
        score, last = delta.max(-1)
        path = [last]
        for at in reversed(back):
            path.append(at.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return torch.logsumexp(alpha, -1), score, torch.stack(path[::-1], 1)


@model("hidden markov chain")
def hmm(batch: int = 16) -> Case:
    return _Hmm(24, 50), (torch.randint(0, 50, (batch, 48)),)


class _Dtw(nn.Module):
    """Dynamic time warping along anti-diagonals, hard and soft."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        d = torch.cdist(x, y) ** 2
        b, n, m = d.shape
        inf = 1e8
        before = torch.full((b, n + 1), inf)
        before[:, 0] = 0.0
        last = torch.full((b, n + 1), inf)
        for k in range(2, n + m + 1):
            lo, hi = max(1, k - m), min(n, k - 1)
            i = torch.arange(lo, hi + 1)
            cost = d[:, i - 1, k - i - 1]
            three = torch.stack(
                [before[:, lo - 1 : hi], last[:, lo - 1 : hi], last[:, lo : hi + 1]], -1
            )
            soft = -self.gamma * torch.logsumexp(-three / self.gamma, -1)
            now = torch.full((b, n + 1), inf)
            now[:, lo : hi + 1] = cost + soft
            before, last = last, now
        return last[:, n]


@model("soft dynamic time warping")
def dtw(batch: int = 16) -> Case:
    return _Dtw(0.1), (torch.randn(batch, 32, 4), torch.randn(batch, 32, 4))


class _Cg(nn.Module):
    """Conjugate gradients on an image with total variation, a fixed count of steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.register_buffer(
            "kernel", torch.tensor([[0.0, -1, 0], [-1, 4, -1], [0, -1, 0]])[None, None]
        )

    def apply_(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.5 * F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.kernel)

    def forward(self, b: torch.Tensor) -> torch.Tensor:
        x = torch.zeros_like(b)
        r = b - self.apply_(x)
        p, rs = r.clone(), (r * r).sum((1, 2, 3), keepdim=True)
        for _ in range(self.steps):
            ap = self.apply_(p)
            a = rs / (p * ap).sum((1, 2, 3), keepdim=True)
            x = x + a * p
            r = r - a * ap
            new = (r * r).sum((1, 2, 3), keepdim=True)
            p = r + (new / rs) * p
            rs = new
        return x


@model("conjugate gradients on an image")
def cg(batch: int = 2) -> Case:
    return _Cg(12), (torch.randn(batch, 1, 128, 128),)


class _Rk45(nn.Module):
    """Dormand and Prince with steps that an error chooses: a loop that data ends."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 64), nn.Tanh(), nn.Linear(64, d))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        t, h = 0.0, 0.1
        f = self.f
        while t < 1.0:
            h = min(h, 1.0 - t)
            k1 = f(y)
            k2 = f(y + h * k1 / 5)
            k3 = f(y + h * (3 / 40 * k1 + 9 / 40 * k2))
            k4 = f(y + h * (44 / 45 * k1 - 56 / 15 * k2 + 32 / 9 * k3))
            k5 = f(
                y + h * (19372 / 6561 * k1 - 25360 / 2187 * k2 + 64448 / 6561 * k3 - 212 / 729 * k4)
            )
            k6 = f(
                y
                + h
                * (
                    9017 / 3168 * k1
                    - 355 / 33 * k2
                    + 46732 / 5247 * k3
                    + 49 / 176 * k4
                    - 5103 / 18656 * k5
                )
            )
            new = y + h * (
                35 / 384 * k1 + 500 / 1113 * k3 + 125 / 192 * k4 - 2187 / 6784 * k5 + 11 / 84 * k6
            )
            k7 = f(new)
            err = h * (
                71 / 57600 * k1
                - 71 / 16695 * k3
                + 71 / 1920 * k4
                - 17253 / 339200 * k5
                + 22 / 525 * k6
                - k7 / 40
            )
            ratio = (
                (err / (1e-4 + 1e-3 * torch.maximum(y.abs(), new.abs())))
                .pow(2)
                .mean()
                .sqrt()
                .item()
            )
            if ratio <= 1:
                t, y = t + h, new
            h *= min(5.0, max(0.2, 0.9 * max(ratio, 1e-8) ** -0.2))
        return y


@model("runge-kutta that chooses its steps")
def rk45(batch: int = 256) -> Case:
    return _Rk45(32), (torch.randn(batch, 32),)


class _Sinkhorn(nn.Module):
    """Optimal transport between clouds in logarithms, fifty alternations."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        c = ((x[:, :, None] - y[:, None]) ** 2).sum(-1)
        eps = 0.1
        n, m = c.shape[1:]
        mu, nu = torch.full((n,), 1 / n).log(), torch.full((m,), 1 / m).log()
        u, v = torch.zeros(c.shape[0], n), torch.zeros(c.shape[0], m)
        for _ in range(20):
            k = (-c + u.unsqueeze(-1) + v.unsqueeze(-2)) / eps
            u = eps * (mu - torch.logsumexp(k, -1)) + u
            k = (-c + u.unsqueeze(-1) + v.unsqueeze(-2)) / eps
            v = eps * (nu - torch.logsumexp(k, -2)) + v
        plan = torch.exp((-c + u.unsqueeze(-1) + v.unsqueeze(-2)) / eps)
        return (plan * c).sum((-1, -2)), plan


@model("sinkhorn in logarithms")
def sinkhorn(batch: int = 4) -> Case:
    return _Sinkhorn(), (torch.rand(batch, 96, 2), torch.rand(batch, 96, 2))


class _Trees(nn.Module):
    """Gradient boosted trees as Hummingbird writes them: gathers a level, then leaves summed."""

    def __init__(self, trees: int, depth: int, features: int) -> None:
        super().__init__()
        n = 2**depth - 1
        self.depth, self.trees = depth, trees
        self.register_buffer("feature", torch.randint(0, features, (trees, n)))
        self.register_buffer("threshold", torch.randn(trees, n))
        self.register_buffer("leaf", torch.randn(trees, 2**depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        node = torch.zeros(x.shape[0], self.trees, dtype=torch.long)
        tree = torch.arange(self.trees)
        for _ in range(self.depth):
            value = torch.gather(x, 1, self.feature[tree, node])
            node = 2 * node + 1 + (value > self.threshold[tree, node]).long()
        return torch.sigmoid(self.leaf[tree, node - (2**self.depth - 1)].sum(-1) * 0.1)


@model("boosted trees by gathers")
def trees(batch: int = 500) -> Case:
    return _Trees(100, 6, 30), (torch.randn(batch, 30),)


class _Ekf(nn.Module):
    """An extended Kalman filter of many tracks: small solves, Cholesky, symmetric updates."""

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, t, _ = seen.shape
        f = torch.eye(4) + 0.1 * torch.diag(torch.ones(2), 2)
        q, r = 0.01 * torch.eye(4), 0.1 * torch.eye(2)
        x, p = torch.zeros(b, 4) + 1.0, torch.eye(4).expand(b, 4, 4)
        like = torch.zeros(b)
        for i in range(t):
            x, p = x @ f.T, f @ p @ f.T + q
            rng = torch.sqrt(x[:, 0] ** 2 + x[:, 1] ** 2 + 1e-3)
            pred = torch.stack([rng, torch.atan2(x[:, 1], x[:, 0])], -1)
            h = torch.zeros(b, 2, 4)
            h[:, 0, 0], h[:, 0, 1] = x[:, 0] / rng, x[:, 1] / rng
            h[:, 1, 0], h[:, 1, 1] = -x[:, 1] / rng**2, x[:, 0] / rng**2
            s = h @ p @ h.mT + r
            chol = torch.linalg.cholesky(s)
            gain = torch.cholesky_solve(h @ p, chol).mT
            e = (seen[:, i] - pred).unsqueeze(-1)
            z = torch.linalg.solve_triangular(chol, e, upper=False)
            like = like - 0.5 * (z**2).sum((1, 2)) - chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            x = x + (gain @ e).squeeze(-1)
            ikh = torch.eye(4) - gain @ h
            p = ikh @ p @ ikh.mT + gain @ r @ gain.mT
        return x, like


@model("extended kalman filter of tracks")
def ekf(batch: int = 64) -> Case:
    return _Ekf(), (torch.rand(batch, 16, 2) + 1,)


class _Hashed(nn.Module):
    """Bytes of strings hashed as n-grams into buckets, bags of them, cosines of two sides."""

    def __init__(self, buckets: int, d: int) -> None:
        super().__init__()
        self.buckets, self.table = buckets, nn.EmbeddingBag(buckets, d, mode="sum")
        self.net = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, d))

    def side(self, text: torch.Tensor) -> torch.Tensor:
        text = text.long()
        grams = []
        for n in (2, 3, 4):
            h = torch.full((text.shape[0], text.shape[1] - n + 1), 2166136261)
            for i in range(n):
                h = ((h ^ text[:, i : text.shape[1] - n + 1 + i]) * 16777619) & 0xFFFFFFFF
            grams.append(h % self.buckets)
        return F.normalize(self.net(self.table(torch.cat(grams, 1))))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.side(a) @ self.side(b).T


@model("hashed n-grams of strings")
def hashed(batch: int = 128) -> Case:
    a, b = (torch.randint(32, 127, (batch, 40), dtype=torch.uint8) for _ in range(2))
    return _Hashed(20_000, 64), (a, b)
