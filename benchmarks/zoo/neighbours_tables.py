"""Neighbours of shops and games: recommenders, rows of tables, policies and worlds imagined."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _XDeepFm(nn.Module):
    """Crossed fields by outer products and 1 x 1 filters, a linear part and a deep one."""

    def __init__(self, sizes: tuple[int, ...], d: int) -> None:
        super().__init__()
        self.register_buffer("begin", torch.tensor((0, *sizes[:-1])).cumsum(0))
        self.table, self.linear = nn.Embedding(sum(sizes), d), nn.Embedding(sum(sizes), 1)
        n = len(sizes)
        self.cin = nn.ModuleList([nn.Conv1d(n * n, 32, 1), nn.Conv1d(n * 16, 32, 1)])
        self.out = nn.Linear(16 + 32, 1)
        self.deep = nn.Sequential(
            nn.Linear(n * d, 128),
            nn.BatchNorm1d(128),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(128, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids + self.begin.unsqueeze(0)
        x = self.table(ids)
        x0, h, found = x.unsqueeze(2), x, []
        for i, conv in enumerate(self.cin):
            b, n, _, d = x0.shape
            y = x0 * h.unsqueeze(1)
            y = F.relu(conv(y.reshape(b, n * h.shape[1], d)))
            if i == 0:
                y, h = torch.split(y, 16, 1)
            found.append(y)
        crossed = self.out(torch.cat(found, 1).sum(2))
        whole = crossed + self.linear(ids).sum(1) + self.deep(x.flatten(1))
        return torch.sigmoid(whole.squeeze(1))


@model("xdeepfm")
def xdeepfm(batch: int = 128) -> Case:
    sizes = (1000, 500, 30, 5000, 12, 7, 300, 2000, 64, 100)
    ids = torch.stack([torch.randint(0, s, (batch,)) for s in sizes], 1)
    return _XDeepFm(sizes, 16), (ids,)


class _SasRec(nn.Module):
    """What a person takes next: causal layers over what was taken, all items scored."""

    def __init__(self, items: int, d: int, length: int) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(items, d, padding_idx=0), nn.Embedding(length, d)
        self.norms, self.ffs = nn.ModuleList(), nn.ModuleList()
        self.atts = nn.ModuleList()
        for _ in range(2):
            self.norms.append(nn.LayerNorm(d, eps=1e-8))
            self.atts.append(nn.MultiheadAttention(d, 2, 0.2))
            self.ffs.append(
                nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
            )
        self.last = nn.LayerNorm(d)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.items(seen) * self.items.embedding_dim**0.5
        x = x + self.places(torch.arange(seen.shape[1]).unsqueeze(0).expand_as(seen))
        gone = seen == 0
        x = x * ~gone.unsqueeze(-1)
        t = x.shape[1]
        causal = ~torch.tril(torch.ones((t, t), dtype=torch.bool))
        for norm, att, ff in zip(self.norms, self.atts, self.ffs, strict=True):
            x = x.transpose(0, 1)
            q = norm(x)
            y, _ = att(q, x, x, attn_mask=causal)
            x = (q + y).transpose(0, 1)
            x = (x + ff(x)) * ~gone.unsqueeze(-1)
        scores = self.last(x)[:, -1] @ self.items.weight.t()
        scores = scores.scatter(1, seen, float("-inf"))
        return scores.topk(20)


@model("sasrec")
def sasrec(batch: int = 16) -> Case:
    seen = torch.randint(1, 5000, (batch, 50))
    seen[: batch // 2, :20] = 0
    return _SasRec(5000, 64, 50), (seen,)


class _Mmoe(nn.Module):
    """Tasks that share experts by gates, over fields, numbers and a bag of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(s, 16) for s in (1000, 200, 50, 20))
        self.tags = nn.EmbeddingBag(3000, 16, mode="mean")
        self.register_buffer("edges", torch.sort(torch.randn(8, 31), 1)[0])
        self.buckets = nn.ModuleList(nn.Embedding(32, 8) for _ in range(8))
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
            for _ in range(6)
        )
        self.gates = nn.ModuleList(nn.Linear(144, 6, bias=False) for _ in range(3))
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 16), nn.PReLU(), nn.Linear(16, 1)) for _ in range(3)
        )

    def forward(
        self, fields: torch.Tensor, numbers: torch.Tensor, tags: torch.Tensor, offsets: torch.Tensor
    ) -> list[torch.Tensor]:
        parts = [table(fields[:, i]) for i, table in enumerate(self.tables)]
        parts.append(self.tags(tags, offsets))
        for i, table in enumerate(self.buckets):
            parts.append(table(torch.bucketize(numbers[:, i].contiguous(), self.edges[i])))
        x = torch.cat(parts, -1)
        made = torch.stack([e(x) for e in self.experts], 1)
        out = []
        for gate, tower in zip(self.gates, self.towers, strict=True):
            w = F.softmax(gate(x), -1).unsqueeze(-1)
            out.append(torch.sigmoid(tower((made * w).sum(1))).squeeze(-1))
        return out


@model("experts of several tasks")
def mmoe(batch: int = 256) -> Case:
    fields = torch.stack([torch.randint(0, s, (batch,)) for s in (1000, 200, 50, 20)], 1)
    return _Mmoe(), (
        fields,
        torch.randn(batch, 8),
        torch.randint(0, 3000, (6 * batch,)),
        torch.arange(0, 6 * batch, 6),
    )


class _FtTransformer(nn.Module):
    """A token a column: numbers by a vector each, categories by tables; ReGLU layers."""

    def __init__(self, d: int, numbers: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(numbers, d)),
            nn.Parameter(torch.randn(numbers + len(sizes), d)),
        )
        self.table, self.cls = nn.Embedding(sum(sizes), d), nn.Parameter(torch.randn(d))
        self.register_buffer("begin", torch.tensor((0, *sizes[:-1])).cumsum(0))
        self.qs, self.ks, self.vs, self.os = (
            nn.ModuleList(nn.Linear(d, d) for _ in range(3)) for _ in range(4)
        )
        self.ups, self.downs = (
            nn.ModuleList(nn.Linear(d, 2 * d) for _ in range(3)),
            nn.ModuleList(nn.Linear(d, d) for _ in range(3)),
        )
        self.n1, self.n2 = (nn.ModuleList(nn.LayerNorm(d) for _ in range(3)) for _ in range(2))
        self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 3))

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        tokens = (
            torch.cat([self.weight[None] * x[:, :, None], self.table(c + self.begin)], 1)
            + self.bias
        )
        h = torch.cat([self.cls.expand(x.shape[0], 1, -1), tokens], 1)
        b, n, d = h.shape
        for i in range(3):
            y = self.n1[i](h) if i else h
            q, k, v = (m(y).reshape(b, n, 8, d // 8).transpose(1, 2).reshape(b * 8, n, d // 8)
                       for m in (self.qs[i], self.ks[i], self.vs[i]))  # fmt: skip
            a = F.softmax(q @ k.transpose(1, 2) / math.sqrt(d // 8), -1)
            y = (a @ v).reshape(b, 8, n, d // 8).transpose(1, 2).reshape(b, n, d)
            h = h + self.os[i](y)
            u, g = self.ups[i](self.n2[i](h)).chunk(2, -1)
            h = h + self.downs[i](u * F.relu(g))
        return self.head(h[:, 0])


@model("ft-transformer")
def ft_transformer(batch: int = 64) -> Case:
    sizes = (10, 30, 7, 100)
    return _FtTransformer(64, 12, sizes), (
        torch.randn(batch, 12),
        torch.stack([torch.randint(0, s, (batch,)) for s in sizes], 1),
    )


def _entmax(x: torch.Tensor) -> torch.Tensor:
    """Sparse probabilities of the exponent 1.5, exactly, by sorting."""
    x = (x - x.max(-1, keepdim=True).values) / 2
    s = x.sort(-1, descending=True).values
    rho = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    mean, mean_sq = s.cumsum(-1) / rho, (s**2).cumsum(-1) / rho
    delta = (1 - rho * (mean_sq - mean**2)) / rho
    tau = mean - torch.sqrt(delta.clamp(min=0))
    support = (tau <= s).sum(-1, keepdim=True)
    return torch.clamp(x - tau.gather(-1, support - 1), min=0) ** 2


class _Node(nn.Module):
    """Soft oblivious trees whose features are chosen by entmax."""

    def __init__(self, features: int, trees: int, depth: int) -> None:
        super().__init__()
        self.choose = nn.Parameter(torch.randn(features, trees, depth))
        self.threshold = nn.Parameter(torch.randn(trees, depth))
        self.log_t = nn.Parameter(torch.randn(trees, depth) * 0.1)
        self.response = nn.Parameter(torch.randn(trees, 3, 2**depth))
        codes = torch.arange(2**depth).view(1, -1) // (2 ** torch.arange(depth).view(-1, 1)) % 2
        self.register_buffer("codes", torch.stack([codes, 1 - codes], -1).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = _entmax(self.choose.permute(1, 2, 0)).permute(2, 0, 1)
        f = torch.einsum("bi,ind->bnd", x, w)
        z = (f - self.threshold) * torch.exp(-self.log_t)
        z = torch.stack([-z, z], -1)
        bins = (0.5 * z + 0.5).clamp(0, 1)
        match = torch.einsum("btds,dcs->btdc", bins, self.codes)
        weights = torch.prod(match, -2)
        return torch.einsum("bnd,ncd->bnc", weights, self.response).flatten(1)


@model("soft trees by entmax")
def node(batch: int = 64) -> Case:
    return nn.Sequential(_Node(40, 48, 5), nn.Linear(144, 2)), (torch.randn(batch, 40),)


class _Rssm(nn.Module):
    """A world imagined: discrete states by straight-through samples, a GRU with a norm."""

    def __init__(self, d: int, classes: int) -> None:
        super().__init__()
        self.c, self.into = classes, nn.Linear(classes * classes + 6, d)
        self.cell, self.norm = nn.Linear(2 * d, 3 * d, bias=False), nn.LayerNorm(3 * d)
        self.prior = nn.Sequential(
            nn.Linear(d, d), nn.LayerNorm(d), nn.SiLU(), nn.Linear(d, classes**2)
        )
        self.actor = nn.Sequential(
            nn.Linear(d + classes**2, d), nn.LayerNorm(d), nn.SiLU(), nn.Linear(d, 6)
        )
        self.reward = nn.Linear(d + classes**2, 255)
        self.register_buffer("bins", torch.linspace(-20, 20, 255))

    def forward(
        self, h: torch.Tensor, z: torch.Tensor, noise: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        rewards, states = [], []
        for t in range(noise.shape[0]):
            a = torch.tanh(self.actor(torch.cat([h, z], -1)))
            x = F.silu(self.into(torch.cat([z, a], -1)))
            reset, cand, update = self.norm(self.cell(torch.cat([x, h], -1))).chunk(3, -1)
            cand = torch.tanh(torch.sigmoid(reset) * cand)
            update = torch.sigmoid(update - 1)
            h = update * cand + (1 - update) * h
            logits = self.prior(h).view(-1, self.c, self.c)
            probs = 0.99 * logits.softmax(-1) + 0.01 / self.c
            pick = (torch.log(probs) + noise[t]).argmax(-1)
            hot = F.one_hot(pick, self.c).float()
            z = (hot + probs - probs.detach()).flatten(1)
            p = self.reward(torch.cat([h, z], -1)).softmax(-1)
            r = (p * self.bins).sum(-1)
            rewards.append(torch.sign(r) * (torch.exp(r.abs()) - 1))
            states.append(h)
        rewards = torch.stack(rewards)
        total, out = torch.zeros_like(rewards[0]), []
        for r in reversed(rewards):
            total = r + 0.997 * 0.95 * total
            out.append(total)
        return {"returns": torch.stack(out[::-1]), "states": torch.stack(states)}


@model("dreamer's imagination")
def rssm(batch: int = 16) -> Case:
    c = 16
    gumbel = -torch.log(-torch.log(torch.rand(12, batch, c, c) * 0.98 + 0.01))
    z = F.one_hot(torch.randint(0, c, (batch, c)), c).float().flatten(1)
    return _Rssm(128, c), (torch.randn(batch, 128), z, gumbel)


class _Ppo(nn.Module):
    """Actor and critic with torch.distributions: log-probabilities, entropy, advantages."""

    def __init__(self, obs: int, act: int) -> None:
        super().__init__()
        self.pi = nn.Sequential(
            nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, act)
        )
        self.v = nn.Sequential(
            nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(
        self,
        obs: torch.Tensor,
        act: torch.Tensor,
        old: torch.Tensor,
        adv: torch.Tensor,
        ret: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        dist = torch.distributions.Normal(self.pi(obs), self.log_std.exp(), validate_args=False)
        logp = dist.log_prob(act).sum(-1)
        ratio = torch.exp(logp - old)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        clipped = torch.clamp(ratio, 0.8, 1.2) * adv
        value = self.v(obs).squeeze(-1)
        cat = torch.distributions.Categorical(logits=dist.mean, validate_args=False)
        return {
            "pi": -torch.min(ratio * adv, clipped).mean(), "v": F.huber_loss(value, ret),
            "entropy": dist.entropy().sum(-1).mean(), "kl": (old - logp).mean(),
            "modes": cat.probs.argmax(-1), "spread": cat.entropy(),
        }  # fmt: skip


@model("ppo with distributions")
def ppo(batch: int = 2048) -> Case:
    return _Ppo(17, 6), (
        torch.randn(batch, 17),
        torch.randn(batch, 6),
        torch.randn(batch) - 8,
        torch.randn(batch),
        torch.randn(batch),
    )


class _MuZero(nn.Module):
    """Simulations of a search in one forward: trees as tensors, selection by scores, backups."""

    def __init__(self, d: int, actions: int, sims: int) -> None:
        super().__init__()
        self.a, self.sims = actions, sims
        self.dyn = nn.Sequential(nn.Linear(d + actions, d), nn.ReLU(), nn.Linear(d, d))
        self.pred, self.rew = nn.Linear(d, actions + 1), nn.Linear(d, 1)

    def forward(self, root: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, d = root.shape
        n = self.sims + 1
        hidden = torch.zeros(b, n, d)
        hidden[:, 0] = root
        prior, visits = torch.zeros(b, n, self.a), torch.zeros(b, n, self.a)
        value, child = torch.zeros(b, n, self.a), torch.full((b, n, self.a), -1)
        prior[:, 0] = self.pred(root)[:, :-1].softmax(-1)
        rows = torch.arange(b)
        for s in range(1, n):
            node = torch.zeros(b, dtype=torch.long)
            live = torch.ones(b, dtype=torch.bool)
            path_n, path_a = [], []
            for _ in range(3):
                total = visits[rows, node].sum(-1, keepdim=True)
                score = value[rows, node] + 1.25 * prior[rows, node] * total.sqrt() / (
                    1 + visits[rows, node]
                )
                act = score.argmax(-1)
                path_n.append(node)
                path_a.append(act)
                nxt = child[rows, node, act]
                live = live & (nxt >= 0)
                node = torch.where(live, nxt, node)
            act = path_a[-1]
            state = self.dyn(torch.cat([hidden[rows, node], F.one_hot(act, self.a).float()], -1))
            out = self.pred(state)
            hidden[:, s], prior[:, s] = state, out[:, :-1].softmax(-1)
            child[rows, node, act] = s
            g = torch.tanh(out[:, -1])
            for pn, pa in zip(reversed(path_n), reversed(path_a), strict=True):
                seen = visits[rows, pn, pa]
                value[rows, pn, pa] = (value[rows, pn, pa] * seen + g) / (seen + 1)
                visits[rows, pn, pa] = seen + 1
                g = 0.99 * g
        return visits[:, 0] / visits[:, 0].sum(-1, keepdim=True), value[:, 0]


@model("muzero's search by tensors")
def muzero(batch: int = 16) -> Case:
    return _MuZero(64, 6, 8), (torch.randn(batch, 64),)


class _TwoTowers(nn.Module):
    """Hashed ids by several functions, sums of their vectors, cosines to a batch of items."""

    def __init__(self, buckets: int, d: int) -> None:
        super().__init__()
        self.buckets, self.table = buckets, nn.Embedding(buckets, d)
        self.register_buffer(
            "primes", torch.tensor([2654435761, 805459861, 3674653429, 2097192037])
        )
        self.user = nn.Sequential(nn.Linear(d + 8, 96), nn.ReLU(), nn.Linear(96, d))
        self.item = nn.Sequential(nn.Linear(d, 96), nn.ReLU(), nn.Linear(96, d))
        self.weights = nn.Embedding(buckets, 1)

    def hashed(self, ids: torch.Tensor) -> torch.Tensor:
        h = (ids.unsqueeze(-1) * self.primes) ^ (ids.unsqueeze(-1) >> 15)
        at = h.remainder(self.buckets)
        return (self.table(at) * torch.sigmoid(self.weights(at))).sum(-2)

    def forward(
        self, user: torch.Tensor, dense: torch.Tensor, history: torch.Tensor, items: torch.Tensor
    ) -> torch.Tensor:
        seen = self.hashed(history)
        keep = (history > 0).unsqueeze(-1)
        mean = (seen * keep).sum(1) / keep.sum(1).clamp(min=1)
        u = F.normalize(
            self.user(torch.cat([self.hashed(user) + mean, torch.log1p(dense.abs())], -1)), dim=-1
        )
        i = F.normalize(self.item(self.hashed(items)), dim=-1)
        return (u @ i.T / 0.07).log_softmax(-1)


@model("two towers of hashed ids")
def two_towers(batch: int = 64) -> Case:
    return _TwoTowers(10_000, 32), (
        torch.randint(1, 10**9, (batch,)),
        torch.randn(batch, 8),
        torch.randint(0, 10**9, (batch, 30)),
        torch.randint(1, 10**9, (200,)),
    )
