"""What takes the place of attention in a language model: blocks of keys chosen by score, retention,
long convolutions, gated recurrences, scores by a function."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


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
