"""Strangers of recommending, of graphs and of policies: hashes, scatters, targets that follow."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Towers(nn.Module):
    """Users and items hashed into tables, bags averaged under a mask, in-batch softmax."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.rows = rows
        self.users, self.items = nn.Embedding(rows, width), nn.Embedding(rows, width)
        self.words = nn.Embedding(rows, width, padding_idx=0)

        def tower() -> nn.Sequential:
            return nn.Sequential(nn.Linear(2 * width, 128), nn.ReLU(), nn.Linear(128, 64))

        self.left, self.right = tower(), tower()

    def hashed(self, ids: torch.Tensor, salt: int) -> torch.Tensor:
        ids = (ids ^ (ids >> 15)) * (0x2C1B3C6D + salt)
        return torch.remainder(ids ^ (ids >> 12), self.rows)

    def bag(self, ids: torch.Tensor) -> torch.Tensor:
        mask = (ids > 0).float().unsqueeze(-1)
        return (self.words(self.hashed(ids, 7)) * mask).sum(1) / mask.sum(1).clamp(min=1)

    def forward(
        self, user: torch.Tensor, seen: torch.Tensor, item: torch.Tensor, title: torch.Tensor,
        popular: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        u = torch.cat([self.users(self.hashed(user, 1)), self.bag(seen)], -1)
        v = torch.cat([self.items(self.hashed(item, 3)), self.bag(title)], -1)
        u, v = F.normalize(self.left(u), dim=-1), F.normalize(self.right(v), dim=-1)
        logits = u @ v.T / 0.05 - popular.log()
        same = (item[:, None] == item[None]) & ~torch.eye(len(item), dtype=torch.bool)
        return F.cross_entropy(logits.masked_fill(same, -1e4), torch.arange(len(item)))


@model("two towers with hashes", trained=True)
def towers(batch: int = 256) -> Case:
    big = 2**31
    return _Towers(5000, 32), (
        torch.randint(0, big, (batch,)), torch.randint(0, big, (batch, 30)),
        torch.randint(0, 400, (batch,)), torch.randint(0, big, (batch, 12)),
        torch.rand(batch) + 0.01,
    )  # fmt: skip


class _Interest(nn.Module):
    """What a user saw, weighed by what is offered: outer features, Dice, a masked sum (DIN)."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.score = nn.Sequential(
            nn.Linear(4 * width, 80),
            nn.Sigmoid(),
            nn.Linear(80, 40),
            nn.Sigmoid(),
            nn.Linear(40, 1),
        )
        self.first, self.second = nn.Linear(3 * width, 200), nn.Linear(200, 80)
        self.norm = nn.BatchNorm1d(200, eps=1e-9)
        self.alpha, self.out = nn.Parameter(torch.zeros(200)), nn.Linear(80, 1)

    def forward(
        self, seen: torch.Tensor, lengths: torch.Tensor, item: torch.Tensor
    ) -> torch.Tensor:
        keys, q = self.table(seen), self.table(item)
        wide = q.unsqueeze(1).expand_as(keys)
        score = self.score(torch.cat([wide, keys, wide - keys, wide * keys], -1)).squeeze(-1)
        score[torch.arange(seen.shape[1])[None] >= lengths[:, None]] = 0
        user = torch.bmm(score.unsqueeze(1), keys).squeeze(1)
        h = self.first(torch.cat([user, q, user * q], -1))
        p = torch.sigmoid(self.norm(h))
        h = p * h + (1 - p) * self.alpha * h
        return torch.sigmoid(self.out(torch.relu(self.second(h)))).squeeze(-1)


@model("interest in what was seen", trained=True)
def interest(batch: int = 128) -> Case:
    seen, lengths = torch.randint(0, 3000, (batch, 40)), torch.randint(1, 40, (batch,))
    return _Interest(3000, 32), (seen, lengths, torch.randint(0, 3000, (batch,)))


class _Compressed(nn.Module):
    """Products of all pairs of columns, squeezed by 1x1 convolutions (xDeepFM)."""

    def __init__(self, columns: int, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(columns * rows, width)
        self.rows = rows
        self.squeeze = nn.ModuleList(nn.Conv1d(columns * c, 64, 1) for c in (columns, 32))
        self.deep = nn.Sequential(nn.Linear(columns * width, 128), nn.ReLU(), nn.Dropout(0.0))
        self.out = nn.Linear(32 + 64 + 128, 1)

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        x = self.table(at + torch.arange(at.shape[1]) * self.rows)
        b, _n, d = x.shape
        h, found = x, []
        for i, layer in enumerate(self.squeeze):
            pairs = torch.einsum("bhd,bmd->bhmd", h, x).reshape(b, -1, d)
            y = F.relu(layer(pairs))
            if i == 0:
                h, y = torch.split(y, 32, 1)
            found.append(y.sum(-1))
        return self.out(torch.cat([*found, self.deep(x.flatten(1))], 1))


@model("compressed pairs of columns", trained=True)
def compressed(batch: int = 64) -> Case:
    return _Compressed(16, 200, 16), (torch.randint(0, 200, (batch, 16)),)


class _Doubly(nn.Module):
    """Basis blocks that take away what they explain (N-BEATS)."""

    def __init__(self, back: int, ahead: int) -> None:
        super().__init__()
        self.back, self.ahead = back, ahead
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(back, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 16)
            )
            for _ in range(6)
        )
        t = torch.arange(-back, ahead).float() / ahead
        self.register_buffer("trend", torch.stack([t**i for i in range(8)]))
        waves = [f(2 * math.pi * i * t) for i in range(1, 5) for f in (torch.cos, torch.sin)]
        self.register_buffer("season", torch.stack(waves))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, total = x, x.new_zeros(x.shape[0], self.ahead)
        for i, block in enumerate(self.blocks):
            basis = self.trend if i < 3 else self.season
            theta = block(left)
            left = left - (theta[:, :8] @ basis)[:, : self.back]  # type: ignore[operator]  # a buffer
            total = total + (theta[:, 8:] @ basis)[:, self.back :]  # type: ignore[operator]  # a buffer
        return total


@model("basis blocks (n-beats)", trained=True)
def doubly(batch: int = 64) -> Case:
    return _Doubly(60, 12), (torch.randn(batch, 60),)


class _Principal(nn.Module):
    """Neighbours gathered by mean, max, min and deviation (PNA), scaled by degrees."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.after = nn.ModuleList(nn.Linear(13 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        src, dst = edges
        n, c = x.shape
        degree = torch.zeros(n).scatter_add_(0, dst, torch.ones(dst.shape[0])).clamp(min=1)
        at = dst.unsqueeze(-1).expand(-1, c)
        scale = (degree.log1p() / 2.2)[:, None]
        for before, after, norm in zip(self.before, self.after, self.norms, strict=True):
            m = F.relu(before(torch.cat([x[src], x[dst]], -1)))
            mean = torch.zeros(n, c).scatter_add_(0, at, m) / degree[:, None]
            square = torch.zeros(n, c).scatter_add_(0, at, m * m) / degree[:, None]
            top = torch.zeros(n, c).scatter_reduce_(0, at, m, "amax", include_self=False)
            low = torch.zeros(n, c).scatter_reduce_(0, at, m, "amin", include_self=False)
            std = torch.sqrt(F.relu(square - mean * mean) + 1e-5)
            all_ = torch.cat([mean, top, low, std], -1)
            h = after(torch.cat([x, all_, all_ * scale, all_ / scale], -1))
            x = x + F.relu(norm(h))
        pooled = torch.zeros(16, c).index_add_(0, graph, x)
        return self.out(pooled)


@model("neighbours by four means", trained=True)
def principal(batch: int = 400) -> Case:
    edges, graph = torch.randint(0, batch, (2, 6 * batch)), torch.randint(0, 16, (batch,))
    return _Principal(48, 3), (torch.randn(batch, 48), edges, graph)


class _Continuous(nn.Module):
    """Atoms in a smooth cutoff: Gaussians of distances, filters for each edge (SchNet)."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.table = nn.Embedding(20, width)
        self.filters = nn.ModuleList(
            nn.Sequential(nn.Linear(50, width), nn.Softplus(), nn.Linear(width, width))
            for _ in range(layers)
        )
        self.inner = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.outer = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Softplus(), nn.Linear(width, width))
            for _ in range(layers)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, kinds: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        x = self.table(kinds)
        _b, n = kinds.shape
        apart = torch.cdist(places, places)
        centres = torch.linspace(0, 5, 50)
        spread = torch.exp(-10 * (apart.unsqueeze(-1) - centres) ** 2)
        cut = 0.5 * (torch.cos(apart * math.pi / 5) + 1) * (apart < 5)
        cut = cut * (1 - torch.eye(n))
        for filt, inner, outer in zip(self.filters, self.inner, self.outer, strict=True):
            w = filt(spread) * cut.unsqueeze(-1)
            x = x + outer((w * inner(x).unsqueeze(1)).sum(2))
        return self.out(x).sum(1)


@model("continuous filters of atoms", trained=True)
def continuous(batch: int = 8) -> Case:
    return _Continuous(64, 3), (torch.randint(0, 20, (batch, 24)), torch.randn(batch, 24, 3) * 2)


class _Actors(nn.Module):
    """Soft actor-critic: a squashed policy, two critics and two that follow them slowly."""

    def __init__(self, seen: int, acts: int) -> None:
        super().__init__()

        def net(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(a, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, b)
            )

        self.actor = net(seen, 2 * acts)
        self.critics = nn.ModuleList(net(seen + acts, 1) for _ in range(2))
        self.slow = nn.ModuleList(net(seen + acts, 1) for _ in range(2))
        self.slow.requires_grad_(False)
        self.alpha = nn.Parameter(torch.zeros(()))

    def draw(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log = self.actor(x).chunk(2, -1)
        log = torch.clamp(log, -20, 2)
        raw = mean + log.exp() * noise
        chance = (-0.5 * noise**2 - log - 0.5 * math.log(2 * math.pi)).sum(-1, keepdim=True)
        chance = chance - (2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(-1, keepdim=True)
        return torch.tanh(raw), chance

    def forward(
        self, x: torch.Tensor, act: torch.Tensor, reward: torch.Tensor, then: torch.Tensor,
        done: torch.Tensor, noise: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        alpha = self.alpha.exp()
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.critics.parameters(), strict=True):
                slow.mul_(0.995).add_(fast, alpha=0.005)
            ahead, chance = self.draw(then, noise[0])
            both = torch.cat([then, ahead], -1)
            value = torch.min(self.slow[0](both), self.slow[1](both)) - alpha * chance
            target = reward + 0.99 * (1 - done) * value
        both = torch.cat([x, act], -1)
        loss = sum((F.mse_loss(c(both), target) for c in self.critics), torch.zeros(()))
        own, chance = self.draw(x, noise[1])
        both = torch.cat([x, own], -1)
        worth = torch.min(self.critics[0](both), self.critics[1](both))
        loss = loss + (alpha.detach() * chance - worth).mean()
        return loss - (self.alpha * (chance.detach() - 6.0)).mean()


@model("soft actor-critic, training", training=True)
def actors(batch: int = 256) -> Case:
    x, act, then = torch.randn(batch, 17), torch.rand(batch, 6) * 2 - 1, torch.randn(batch, 17)
    done = (torch.rand(batch, 1) < 0.05).float()
    return _Actors(17, 6), (x, act, torch.randn(batch, 1), then, done, torch.randn(2, batch, 6))


class _Distributed(nn.Module):
    """Values as distributions: moved, clipped and laid on a grid again by index_add_ (C51)."""

    support: torch.Tensor

    def __init__(self, atoms: int, acts: int) -> None:
        super().__init__()
        self.atoms, self.acts = atoms, acts
        self.body = nn.Sequential(
            nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 9 * 9, 256), nn.ReLU(),
        )  # fmt: skip
        self.value, self.gain = nn.Linear(256, atoms), nn.Linear(256, atoms * acts)
        self.register_buffer("support", torch.linspace(-10, 10, atoms))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x / 255.0)
        gain = self.gain(h).view(-1, self.acts, self.atoms)
        return self.value(h).unsqueeze(1) + gain - gain.mean(1, keepdim=True)

    def forward(
        self, x: torch.Tensor, act: torch.Tensor, reward: torch.Tensor, then: torch.Tensor,
        going: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        b = x.shape[0]
        rows = torch.arange(b)
        with torch.no_grad():
            p = F.softmax(self.logits(then), -1)
            p = p[rows, (p * self.support).sum(-1).argmax(1)]
            z = (reward[:, None] + 0.99 * going[:, None] * self.support).clamp(-10, 10)
            at = (z + 10) / (20 / (self.atoms - 1))
            low, high = at.floor().long(), at.ceil().long()
            low[(high > 0) & (low == high)] -= 1
            high[(low < self.atoms - 1) & (low == high)] += 1
            start = (rows * self.atoms)[:, None]
            target = torch.zeros(b * self.atoms)
            target.index_add_(0, (low + start).view(-1), (p * (high.float() - at)).view(-1))
            target.index_add_(0, (high + start).view(-1), (p * (at - low.float())).view(-1))
        log = F.log_softmax(self.logits(x), -1)[rows, act]
        return -(target.view(b, -1) * log).sum(-1).mean()


@model("values as distributions, training", training=True)
def distributed(batch: int = 8) -> Case:
    frames = torch.randint(0, 255, (2, batch, 4, 84, 84)).float()
    acts, going = torch.randint(0, 6, (batch,)), (torch.rand(batch) > 0.1).float()
    return _Distributed(51, 6), (frames[0], acts, torch.randn(batch), frames[1], going)


class _Oblivious(nn.Module):
    """Soft trees whose levels ask one question each: leaves by products of all answers (NODE)."""

    def __init__(self, columns: int, trees: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.pick = nn.Parameter(torch.randn(columns, trees, depth))
        self.cut, self.sharp = (
            nn.Parameter(torch.randn(trees, depth)),
            nn.Parameter(torch.zeros(trees, depth)),
        )
        self.leaf = nn.Parameter(torch.randn(trees, 2**depth, 3))
        codes = torch.arange(2**depth)
        bits = torch.stack([(codes >> i) & 1 for i in range(depth)])
        self.register_buffer("bins", torch.stack([bits, 1 - bits], 1).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = torch.einsum("bi,ind->bnd", x, torch.softmax(self.pick, 0))
        t = (seen - self.cut) * torch.exp(-self.sharp)
        t = torch.stack([-t, t], -1)
        hard = torch.clamp(0.5 * t + 0.5, 0, 1)
        match = torch.einsum("btds,dsc->btdc", hard, self.bins)
        return torch.einsum("bnd,ndc->bnc", match.prod(-2), self.leaf).mean(1)


@model("oblivious trees", trained=True)
def oblivious(batch: int = 64) -> Case:
    return _Oblivious(40, 64, 5), (torch.randn(batch, 40),)
