"""Language models that are more than layers: caches in lists, samplers, exits, sparse attention,
retention, copies from the source."""

from __future__ import annotations

import math
from collections.abc import Callable
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


# ------------------------------------------------------------- blocks of keys chosen by top k
class _BlockSparse(nn.Module):
    """Keys by blocks: means of blocks are scored, the best blocks gathered, a window added."""

    def __init__(self, d: int, h: int, block: int, top: int) -> None:
        super().__init__()
        self.h, self.block, self.top = h, block, top
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate = nn.Linear(d, 2 * h)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        h, s, e = self.h, self.block, d // self.h
        q, k, v = self.qkv(x).reshape(b, n, 3, h, e).permute(2, 0, 3, 1, 4)
        kb, vb = k.reshape(b, h, n // s, s, e), v.reshape(b, h, n // s, s, e)
        coarse = torch.einsum("bhie,bhje->bhij", q, kb.mean(3)) * e**-0.5
        row = torch.arange(n)[:, None] // s
        coarse = coarse.masked_fill(torch.arange(n // s) > row, -1e9)
        _, chosen = coarse.topk(self.top, -1)  # b h n top
        index = chosen[..., None, None].expand(-1, -1, -1, -1, s, e)
        ks = torch.gather(kb[:, :, None].expand(-1, -1, n, -1, -1, -1), 3, index).flatten(3, 4)
        vs = torch.gather(vb[:, :, None].expand(-1, -1, n, -1, -1, -1), 3, index).flatten(3, 4)
        sim = torch.einsum("bhie,bhije->bhij", q, ks) * e**-0.5
        at = (chosen[..., None] * s + torch.arange(s)).flatten(3)
        sim = sim.masked_fill(at > torch.arange(n)[:, None], torch.finfo(sim.dtype).min)
        fine = torch.einsum("bhij,bhije->bhie", sim.softmax(-1), vs)
        mask = torch.ones(n, n, dtype=torch.bool).tril() & ~torch.ones(n, n, dtype=torch.bool).tril(
            -s
        )
        local = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        g = self.gate(x).sigmoid().reshape(b, n, h, 2).permute(0, 2, 1, 3)
        y = g[..., :1] * fine + g[..., 1:] * local
        return self.out(y.transpose(1, 2).reshape(b, n, d))


@model("blocks of keys chosen by top k", trained=True)
def block_sparse(batch: int = 1) -> Case:
    return _BlockSparse(128, 4, 16, 3), (torch.randn(batch, 128, 128),)


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


# ------------------------------------------------------------------------------------- retention
class _Retention(nn.Module):
    """Chunks: decayed products inside, a state from chunk to chunk, group norm, swish gate."""

    def __init__(self, d: int, h: int, chunk: int) -> None:
        super().__init__()
        self.h, self.chunk = h, chunk
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(d, d, bias=False) for _ in range(5))
        self.norm = nn.GroupNorm(h, d)
        self.gamma = (
            1 - torch.exp(torch.linspace(math.log(1 / 32), math.log(1 / 512), h))
        ).tolist()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        h, c, e = self.h, self.chunk, d // self.h
        q, k, v = (
            f(x).view(b, n // c, c, h, e).permute(1, 0, 3, 2, 4) for f in (self.q, self.k, self.v)
        )
        k = k * e**-0.5
        i = torch.arange(c, dtype=torch.float32)
        gamma = torch.tensor(self.gamma).view(h, 1, 1)
        inner = torch.where(i[:, None] >= i, gamma ** (i[:, None] - i).clamp(min=0), 0.0)
        cross, fade = gamma ** (i + 1).view(1, c, 1), gamma ** (c - i - 1).view(1, c, 1)
        state, outs = torch.zeros(b, h, e, e), []
        for qi, ki, vi in zip(q, k, v, strict=True):
            y = (qi @ ki.transpose(-1, -2) * inner) @ vi + (qi * cross) @ state
            state = state * gamma**c + (ki * fade).transpose(-1, -2) @ vi
            outs.append(y)
        y = torch.stack(outs, 1).permute(0, 1, 3, 2, 4).reshape(b * n, d)
        y = self.norm(y).view(b, n, d)
        return self.o(F.silu(self.g(x)) * y)


@model("retention by chunks", trained=True)
def retention(batch: int = 2) -> Case:
    net = nn.Sequential(*[_Retention(128, 4, 32) for _ in range(2)])
    return net, (torch.randn(batch, 256, 128),)


# --------------------------------------------------------------------------- differential attention
class _Differential(nn.Module):
    def __init__(self, d: int, h: int, depth: int) -> None:
        super().__init__()
        self.h, self.e = h, d // h // 2
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(torch.randn(self.e) * 0.1) for _ in range(4)
        )
        self.norm = nn.RMSNorm(2 * self.e, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q = self.q(x).view(b, n, 2 * self.h, self.e).transpose(1, 2) * self.e**-0.5
        k = self.k(x).view(b, n, 2 * self.h, self.e).transpose(1, 2)
        v = self.v(x).view(b, n, self.h, 2 * self.e).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2))
        w = w + torch.triu(torch.zeros(n, n).fill_(float("-inf")).type_as(w), 1)
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        one = torch.exp((self.lq1 * self.lk1).sum(-1).float()).type_as(q)
        two = torch.exp((self.lq2 * self.lk2).sum(-1).float()).type_as(q)
        lam = one - two + self.init
        w = w.view(b, self.h, 2, n, n)
        w = w[:, :, 0] - lam * w[:, :, 1]
        y = self.norm(torch.matmul(w, v)) * (1 - self.init)
        return x + self.o(y.transpose(1, 2).reshape(b, n, d))


@model("differential transformer", trained=True)
def differential(batch: int = 2) -> Case:
    return nn.Sequential(*[_Differential(192, 4, i) for i in range(3)]), (
        torch.randn(batch, 96, 192),
    )


# ------------------------------------------------------------------------------------------- hyena
class _Hyena(nn.Module):
    """Gates between long convolutions whose filters a small sine network writes."""

    z: torch.Tensor
    t: torch.Tensor
    deltas: torch.Tensor

    def __init__(self, d: int, length: int, order: int = 2, width: int = 32) -> None:
        super().__init__()
        self.d, self.order = d, order
        self.inp, self.out = nn.Linear(d, (order + 1) * d), nn.Linear(d, d)
        self.short = nn.Conv1d(
            (order + 1) * d, (order + 1) * d, 3, padding=2, groups=(order + 1) * d
        )
        self.filter = nn.ModuleList([nn.Linear(5, width), nn.Linear(width, width),
                                     nn.Linear(width, d * order, bias=False)])  # fmt: skip
        self.freq, self.bias = (
            nn.Parameter(10 * torch.ones(width)),
            nn.Parameter(torch.randn(order, d)),
        )
        t = torch.linspace(0, 1, length)[:, None]
        w = 2 * math.pi * torch.arange(length)[:, None] / length
        z = torch.exp(-1j * torch.linspace(1e-4, 1, 2)[None] * w)
        self.register_buffer("t", t)
        self.register_buffer("z", torch.cat([t, z.real, z.imag], -1))
        self.register_buffer(
            "deltas", torch.linspace(math.log(1e-2) / 1.5, math.log(1e-2) / 0.3, d * order)
        )

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        n = u.size(1)
        x = self.short(self.inp(u).transpose(1, 2))[..., :n]
        *gates, v = x.split(self.d, 1)
        f = self.z
        for layer in self.filter[:-1]:
            f = torch.sin(self.freq * layer(f))
        f = self.filter[-1](f) * torch.exp(-self.t * self.deltas.abs())
        f = f.view(n, self.order, self.d).permute(1, 2, 0)
        for o, gate in enumerate(reversed(gates)):
            spectrum = torch.fft.rfft(f[o], n=2 * n) / (2 * n)
            y = torch.fft.irfft(torch.fft.rfft(v, n=2 * n) * spectrum, n=2 * n, norm="forward")[
                ..., :n
            ]
            v = (y + v * self.bias[o][:, None]) * gate
        return self.out(v.transpose(1, 2))


@model("hyena", trained=True)
def hyena(batch: int = 2) -> Case:
    return _Hyena(96, 512), (torch.randn(batch, 512, 96),)


# --------------------------------------------------------- griffin: gated recurrence by doubling
class _Griffin(nn.Module):
    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.h = h
        self.x, self.y, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.conv = nn.Conv1d(d, d, 4, padding=3, groups=d)
        self.wa, self.wx = (
            nn.Parameter(torch.randn(h, d // h, d // h) / math.sqrt(d // h)) for _ in range(2)
        )
        self.a = nn.Parameter(torch.rand(d) + 1)

    def forward(self, u: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
        b, n, _ = u.shape
        gate = F.gelu(self.y(u), approximate="tanh")
        x = self.conv(self.x(u).mT)[..., :n].mT
        xh = x.reshape(b, n, self.h, -1)
        ga = torch.sigmoid(torch.einsum("bnhi,hij->bnhj", xh, self.wa)).flatten(2)
        gx = torch.sigmoid(torch.einsum("bnhi,hij->bnhj", xh, self.wx)).flatten(2)
        log_a = -8.0 * ga * F.softplus(self.a)
        reset = (segment[:, 1:] != segment[:, :-1]).unsqueeze(-1)
        reset = F.pad(reset, (0, 0, 1, 0), value=True)
        a = torch.where(reset, 0.0, torch.exp(log_a))
        v = x * gx * torch.where(reset, 1.0, torch.sqrt(-torch.expm1(2 * log_a)))
        step = 1
        while step < n:  # an associative scan, doubled
            v = torch.cat([v[:, :step], v[:, step:] + a[:, step:] * v[:, :-step]], 1)
            a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
            step *= 2
        return self.o(v * gate)


@model("griffin's gated recurrence", trained=True)
def griffin(batch: int = 2) -> Case:
    segment = torch.arange(256).expand(batch, -1) // 100
    return _Griffin(128, 4), (torch.randn(batch, 256, 128), segment)


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


# ---------------------------------------------------- attention whose scores a function changes
Score = Callable[..., torch.Tensor]


class _Flexible(nn.Module):
    """Score and mask functions of single places, mapped over four axes by vmap."""

    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.h, self.qkv, self.out = h, nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.bias = nn.Embedding(33, h)

    def forward(self, x: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias.weight

        def score_mod(
            s: torch.Tensor, bi: torch.Tensor, hi: torch.Tensor, i: torch.Tensor, j: torch.Tensor
        ) -> torch.Tensor:
            far = (i - j).clamp(-16, 16) + 16
            s = 20.0 * torch.tanh((s + bias[far, hi]) / 20.0)
            ok = (document[bi, i] == document[bi, j]) & (i >= j)
            return torch.where(ok, s, -float("inf"))

        mapped: Score = score_mod
        for axes in (
            (0, None, None, None, 0),
            (0, None, None, 0, None),
            (0, None, 0, None, None),
            (0, 0, None, None, None),
        ):
            mapped = torch.vmap(mapped, in_dims=axes)
        s = (q @ k.mT) / math.sqrt(q.shape[-1])
        s = mapped(s, torch.arange(b), torch.arange(self.h), torch.arange(n), torch.arange(n))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


@model("scores changed by a mapped function", trained=True)
def flexible(batch: int = 2) -> Case:
    return _Flexible(128, 4), (
        torch.randn(batch, 128, 128),
        torch.arange(128).expand(batch, -1) // 50,
    )


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
