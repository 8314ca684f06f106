"""Language models that decide while they run: caches in lists, samplers, exits, drafts over a tree,
copies from the source."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F

Cache = list[tuple[torch.Tensor, torch.Tensor]]


# -------------------------------------------------------- nanoGPT with a cache in a Python list
class CausalSelfAttention(nn.Module):
    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.n_head, self.n_embd = h, d

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)), (k, v)


class _NanoGPT(nn.Module):
    def __init__(self, d: int, h: int, depth: int, vocab: int, new: int) -> None:
        super().__init__()
        self.new = new
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(256, d)
        self.attn = nn.ModuleList(CausalSelfAttention(d, h) for _ in range(depth))
        self.ln1 = nn.ModuleList(nn.LayerNorm(d, bias=False) for _ in range(depth))
        self.ln2 = nn.ModuleList(nn.LayerNorm(d, bias=False) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(depth)
        )
        self.ln_f = nn.LayerNorm(d, bias=False)

    def step(
        self, idx: torch.Tensor, start: int, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        pos = torch.arange(start, start + idx.size(1))
        x, kept = self.wte(idx) + self.wpe(pos), []
        for i in range(len(self.attn)):
            y, kv = self.attn[i](self.ln1[i](x), cache[i] if cache else None)
            x = x + y
            x = x + self.mlp[i](self.ln2[i](x))
            kept.append(kv)
        return F.linear(self.ln_f(x[:, -1]), self.wte.weight), kept

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        logits, cache = self.step(idx, 0, None)
        for _ in range(self.new):
            v, _ = torch.topk(logits, 40)
            logits[logits < v[:, [-1]]] = -float("inf")
            nxt = F.softmax(logits / 0.8, -1).argmax(-1, keepdim=True)
            idx = torch.cat((idx, nxt), 1)
            logits, cache = self.step(nxt, idx.size(1) - 1, cache)
        return idx


@model("nanogpt that decodes with a list of caches")
def nanogpt(batch: int = 2) -> Case:
    return _NanoGPT(128, 4, 3, 2000, 8), (torch.randint(0, 2000, (batch, 24)),)


# ------------------------------------------------------------------------------ mixture of depths
class _Layer(nn.Module):
    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, batch_first=True, bias=False)
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.SiLU(), nn.Linear(3 * d, d))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        y = self.n1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class _Depths(nn.Module):
    def __init__(self, d: int, h: int, depth: int, keep: int) -> None:
        super().__init__()
        self.h, self.keep = h, keep
        self.layers = nn.ModuleList(_Layer(d, h) for _ in range(depth))
        self.routers = nn.ModuleList(nn.Linear(d, 1, bias=False) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        d = x.shape[-1]
        for layer, router in zip(self.layers, self.routers, strict=True):
            weight, index = router(x).squeeze(-1).topk(self.keep, dim=1, sorted=False)
            index, order = index.sort(dim=1)
            weight = weight.gather(1, order).sigmoid()
            where = index.unsqueeze(-1).expand(-1, -1, d)
            mask = index[:, :, None] < index[:, None, :]
            picked = x.gather(1, where)
            y = layer(picked, mask.repeat_interleave(self.h, 0))
            x = x.scatter_add(1, where, (y - picked) * weight.unsqueeze(-1))
        return x


@model("mixture of depths", trained=True)
def depths(batch: int = 4) -> Case:
    return _Depths(128, 4, 4, 32), (torch.randn(batch, 96, 128),)


# --------------------------------------------------------------------- halting (ACT), shared layer
class _Universal(nn.Module):
    def __init__(self, d: int, h: int, steps: int) -> None:
        super().__init__()
        self.steps, self.layer, self.p = steps, _Layer(d, h), nn.Linear(d, 1)
        self.time = nn.Parameter(torch.randn(steps, d) * 0.02)

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        halt, remain, updates = (torch.zeros(x.shape[:2], device=x.device) for _ in range(3))
        out = torch.zeros_like(x)
        for t in range(self.steps):
            p = torch.sigmoid(self.p(x)).squeeze(-1)
            running = (halt < 1.0).float()
            new = (halt + p * running > 0.9).float() * running
            running = (halt + p * running <= 0.9).float() * running
            halt = halt + p * running
            remain = remain + new * (1 - halt)
            halt = halt + new * remain
            updates += running + new
            w = (p * running + new * remain).unsqueeze(-1)
            x = self.layer(x + self.time[t])
            out = x * w + out * (1 - w)
        return out, (remain + updates).mean()


@model("universal transformer that halts", trained=True)
def universal(batch: int = 4) -> Case:
    return _Universal(128, 4, 5), (torch.randn(batch, 48, 128),)


# --------------------------------------------------------------------- medusa heads, token trees
class _Medusa(nn.Module):
    tree: torch.Tensor
    ids: torch.Tensor

    def __init__(self, d: int, vocab: int, heads: int) -> None:
        super().__init__()
        self.emb, self.layer = nn.Embedding(vocab, d), nn.ModuleList(_Layer(d, 4) for _ in range(2))
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.SiLU()) for _ in range(heads))
        self.lm = nn.Linear(d, vocab, bias=False)
        parents = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 5, 6, 4]
        mask = torch.eye(len(parents), dtype=torch.bool)
        for i, p in enumerate(parents):
            while p >= 0:
                mask[i, p] = True
                p = parents[p]
        self.register_buffer("tree", mask)
        self.register_buffer("ids", torch.tensor([0, 1, 2, 3, 11, 12, 11, 21, 22, 21, 21, 23]))
        self.parents = torch.tensor([max(p, 0) for p in parents])

    def forward(self, prompt: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n = prompt.shape[1]
        x = self.emb(prompt)
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        for layer in self.layer:
            x = layer(x, causal)
        last = x[:, -1]
        first = self.lm(last).argmax(-1, keepdim=True)
        guesses = [first] + [self.lm(last + head(last)).topk(10).indices for head in self.heads]
        tokens = torch.cat(guesses, 1)[:, self.ids]
        m = self.ids.numel()
        y = self.emb(torch.cat([prompt, tokens], 1))
        full = torch.ones(n + m, n + m, dtype=torch.bool).triu(1)
        full[n:, n:] = ~self.tree
        for layer in self.layer:
            y = layer(y, full)
        logits = self.lm(y[:, n - 1 :])
        said = logits[:, 1:].argmax(-1)[:, self.parents]
        ok = (said == tokens).long()
        ok[:, 0] = 1
        length = ok.clone()
        for _ in range(4):
            length = ok * (1 + length[:, self.parents] * (self.parents > 0))
        return tokens, length.argmax(-1)


@model("medusa heads over a tree")
def medusa(batch: int = 1) -> Case:
    return _Medusa(256, 4000, 3), (torch.randint(0, 4000, (batch, 40)),)


# ------------------------------------------------------------------------------- pointer generator
class Summary(NamedTuple):
    logp: torch.Tensor
    coverage: torch.Tensor


class _PointerGenerator(nn.Module):
    """A decoder step by step: additive attention with coverage, words copied by scatter_add."""

    def __init__(self, vocab: int, d: int, extra: int) -> None:
        super().__init__()
        self.emb, self.extra = nn.Embedding(vocab, d), extra
        self.enc = nn.GRU(d, d // 2, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(2 * d, d)
        self.wh, self.ws, self.wc = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d),
            nn.Linear(1, d, bias=False),
        )
        self.v, self.p, self.out = (
            nn.Linear(d, 1, bias=False),
            nn.Linear(3 * d, 1),
            nn.Linear(2 * d, vocab),
        )

    def forward(
        self, source: torch.Tensor, extended: torch.Tensor, target: torch.Tensor
    ) -> Summary:
        memory, _ = self.enc(self.emb(source))
        mask = source == 0
        keys, state = self.wh(memory), memory.mean(1)
        coverage, context = torch.zeros(source.shape), memory.mean(1)
        found, loss = [], torch.zeros(())
        for t in range(target.shape[1]):
            word = self.emb(target[:, t])
            state = self.cell(torch.cat([word, context], -1), state)
            e = self.v(
                torch.tanh(keys + self.ws(state)[:, None] + self.wc(coverage[..., None]))
            ).squeeze(-1)
            a = F.softmax(e.masked_fill(mask, -1e4), -1)
            loss = loss + torch.minimum(a, coverage).sum(-1).mean()
            coverage = coverage + a
            context = torch.bmm(a[:, None], memory).squeeze(1)
            gen = torch.sigmoid(self.p(torch.cat([word, state, context], -1)))
            words = gen * F.softmax(self.out(torch.cat([state, context], -1)), -1)
            words = F.pad(words, (0, self.extra)).scatter_add(1, extended, (1 - gen) * a)
            found.append(torch.log(words + 1e-9))
        return Summary(torch.stack(found, 1), loss)


@model("pointer generator with coverage", trained=True)
def pointer_generator(batch: int = 4) -> Case:
    source = torch.randint(1, 1000, (batch, 60))
    source[0, 40:] = 0
    return _PointerGenerator(1000, 96, 20), (
        source, (source + torch.randint(0, 20, source.shape)), torch.randint(0, 1000, (batch, 12))
    )  # fmt: skip


# ---------------------------------------------------------------------- masked tokens, step by step
class _MaskGit(nn.Module):
    def __init__(self, d: int, vocab: int, n: int, steps: int) -> None:
        super().__init__()
        self.vocab, self.n, self.steps = vocab, n, steps
        self.emb, self.pos = nn.Embedding(vocab + 1, d), nn.Parameter(torch.randn(n, d) * 0.02)
        layer = nn.TransformerEncoderLayer(
            d, 4, 2 * d, batch_first=True, activation="gelu", dropout=0.0
        )
        self.net, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(d, vocab)

    def forward(self, ids: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        ids = ids.clone()
        for step in range(self.steps):
            masked = ids == self.vocab
            probs = self.head(self.net(self.emb(ids) + self.pos)).softmax(-1)
            p, guess = probs.max(-1)
            sure = torch.where(
                masked, torch.log(p) + noise[step] * (1 - step / self.steps), torch.inf
            )
            left = math.floor(self.n * math.cos(math.pi / 2 * (step + 1) / self.steps))
            ids = torch.where(masked, guess, ids)
            if left > 0:
                cut = sure.sort(-1).values[:, left - 1 : left]
                ids[sure <= cut] = self.vocab
        return ids


@model("masked tokens filled by confidence")
def maskgit(batch: int = 2) -> Case:
    ids = torch.full((batch, 64), 512)
    ids[:, :8] = torch.randint(0, 512, (batch, 8))
    return _MaskGit(128, 512, 64, 4), (ids, -torch.log(-torch.log(torch.rand(4, batch, 64))))
