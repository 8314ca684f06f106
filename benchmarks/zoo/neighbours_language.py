"""Neighbours that speak: attention, experts and weights of language models, written out."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


def _rope(x: torch.Tensor, cis: torch.Tensor) -> torch.Tensor:
    dtype = x.dtype
    z = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * cis.view(1, z.size(1), 1, z.size(-1))).flatten(3).to(dtype)


class _Latent(nn.Module):
    """Latent attention: keys and values out of one small vector, absorbed at decoding."""

    def __init__(self, d: int, heads: int, rank: int, absorb: bool) -> None:
        super().__init__()
        self.h, self.nope, self.rot, self.vd, self.rank = heads, 32, 16, 32, rank
        self.absorb = absorb
        self.wq_a, self.q_norm = nn.Linear(d, 96, bias=False), nn.RMSNorm(96)
        self.wq_b = nn.Linear(96, heads * (self.nope + self.rot), bias=False)
        self.wkv_a, self.kv_norm = nn.Linear(d, rank + self.rot, bias=False), nn.RMSNorm(rank)
        self.wkv_b = nn.Linear(rank, heads * (self.nope + self.vd), bias=False)
        self.wo = nn.Linear(heads * self.vd, d, bias=False)
        self.register_buffer("kv_cache", torch.randn(2, 160, rank))
        self.register_buffer("pe_cache", torch.randn(2, 160, self.rot))

    def forward(
        self, x: torch.Tensor, cis: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        b, t, _ = x.size()
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(b, t, self.h, -1)
        q_nope, q_pe = torch.split(q, [self.nope, self.rot], -1)
        q_pe = _rope(q_pe, cis)
        kv, k_pe = torch.split(self.wkv_a(x), [self.rank, self.rot], -1)
        k_pe = _rope(k_pe.unsqueeze(2), cis)
        scale = (self.nope + self.rot) ** -0.5
        if not self.absorb:
            kv = self.wkv_b(self.kv_norm(kv)).view(b, t, self.h, -1)
            k_nope, v = torch.split(kv, [self.nope, self.vd], -1)
            k = torch.cat([k_nope, k_pe.expand(-1, -1, self.h, -1)], -1)
            scores = torch.einsum("bshd,bthd->bsht", torch.cat([q_nope, q_pe], -1), k) * scale
            scores = scores + mask.unsqueeze(1) if mask is not None else scores
            scores = scores.softmax(-1, dtype=torch.float32).type_as(x)
            out = torch.einsum("bsht,bthd->bshd", scores, v)
        else:
            end = 128 + t
            self.kv_cache[:b, 128:end] = self.kv_norm(kv)
            self.pe_cache[:b, 128:end] = k_pe.squeeze(2)
            wkv_b = self.wkv_b.weight.view(self.h, -1, self.rank)
            q_nope = torch.einsum("bshd,hdc->bshc", q_nope, wkv_b[:, : self.nope])
            scores = (
                torch.einsum("bshc,btc->bsht", q_nope, self.kv_cache[:b, :end])
                + torch.einsum("bshr,btr->bsht", q_pe, self.pe_cache[:b, :end])
            ) * scale
            scores = scores.softmax(-1, dtype=torch.float32).type_as(x)
            out = torch.einsum("bsht,btc->bshc", scores, self.kv_cache[:b, :end])
            out = torch.einsum("bshc,hdc->bshd", out, wkv_b[:, -self.vd :])
        return self.wo(out.flatten(2))


def _cis(t: int, d: int) -> torch.Tensor:
    freqs = 1.0 / (10000.0 ** (torch.arange(0, d, 2).float() / d))
    return torch.polar(torch.ones(t, d // 2), torch.outer(torch.arange(t).float(), freqs))


@model("latent attention, prompt")
def latent(batch: int = 2) -> Case:
    mask = torch.full((96, 96), float("-inf")).triu_(1)
    return _Latent(256, 8, 64, False), (torch.randn(batch, 96, 256), _cis(96, 16), mask)


@model("latent attention, absorbed token")
def latent_token(batch: int = 2) -> Case:
    return _Latent(512, 16, 128, True), (torch.randn(batch, 1, 512), _cis(1, 16), None)


class _GroupedExperts(nn.Module):
    """Experts chosen within the best groups; each gathers its tokens and adds what it makes."""

    def __init__(self, d: int, inner: int, experts: int, groups: int, top: int) -> None:
        super().__init__()
        self.groups, self.top, self.n = groups, top, experts
        self.gate = nn.Parameter(torch.randn(experts, d) / 16)
        self.bias = nn.Parameter(torch.randn(experts) / 16)
        self.w1, self.w3 = (nn.Parameter(torch.randn(experts, inner, d) / 16) for _ in range(2))
        self.w2 = nn.Parameter(torch.randn(experts, d, inner) / 16)
        self.shared = nn.Sequential(nn.Linear(d, inner), nn.SiLU(), nn.Linear(inner, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        x = x.view(-1, shape[-1])
        scores = F.linear(x, self.gate).sigmoid()
        biased = (scores + self.bias).view(x.size(0), self.groups, -1)
        best = biased.topk(2, -1)[0].sum(-1).topk(self.groups // 2, -1)[1]
        mask = biased.new_ones(x.size(0), self.groups, dtype=torch.bool).scatter_(1, best, False)
        biased = biased.masked_fill_(mask.unsqueeze(-1), float("-inf")).flatten(1)
        indices = torch.topk(biased, self.top, -1)[1]
        weights = scores.gather(1, indices)
        weights = weights / weights.sum(-1, keepdim=True) * 2.5
        flat = indices.flatten()
        order = flat.argsort(stable=True)
        token = order // self.top
        counts = torch.bincount(flat, minlength=self.n)
        ends = counts.cumsum(0)
        rows = x[token]
        expert = torch.searchsorted(ends, torch.arange(rows.size(0)), right=True)
        one = torch.einsum("td,tid->ti", rows, self.w1[expert])
        three = torch.einsum("td,tid->ti", rows, self.w3[expert])
        made = torch.einsum("ti,tdi->td", F.silu(one) * three, self.w2[expert])
        y = torch.zeros_like(x).index_add_(0, token, made * weights.flatten()[order, None])
        return (y + self.shared(x)).view(shape)


@model("experts of groups with index_add")
def grouped(batch: int = 1) -> Case:
    return _GroupedExperts(64, 48, 16, 4, 4), (torch.randn(batch, 64, 64),)


class _LoopExperts(nn.Module):
    """The loop over experts that most code has: where, gather, expert, index_add_."""

    def __init__(self, d: int, inner: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, inner), nn.GELU(), nn.Linear(inner, d))
            for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, t, d = x.shape
        x = x.view(-1, d)
        logits = self.gate(x)
        weights, chosen = torch.topk(F.softmax(logits, 1, dtype=torch.float), 2, -1)
        weights /= weights.sum(-1, keepdim=True)
        out = torch.zeros((b * t, d), dtype=x.dtype)
        mask = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            share = (mask[i] * weights.t()).sum(0)
            out += expert(x) * share[:, None]
        return out.view(b, t, d), logits


@model("experts, all of them weighed")
def loop_experts(batch: int = 2) -> Case:
    return _LoopExperts(128, 256, 8), (torch.randn(batch, 64, 128),)


class _MaskedExperts(nn.Module):
    """Experts that read and write their tokens by boolean masks; `top` of them for each."""

    def __init__(self, d: int, inner: int, experts: int, top: int) -> None:
        super().__init__()
        self.top = top
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, inner), nn.GELU(), nn.Linear(inner, d))
            for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(self.top, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            for k in range(self.top):
                mask = chosen[:, k] == i
                if self.top == 1:
                    out[mask] = expert(x[mask])
                else:
                    out[mask] += weights[mask, k, None] * expert(x[mask])
        return out


@model("experts by masks")
def masked_experts(batch: int = 512) -> Case:
    return _MaskedExperts(256, 256, 8, 1), (torch.randn(batch, 256),)


@model("experts by masks, two of them")
def two_masked_experts(batch: int = 512) -> Case:
    return _MaskedExperts(256, 256, 8, 2), (torch.randn(batch, 256),)


class _BitLinear(nn.Linear):
    """Ternary weights and 8-bit activations, quantised at every call (BitNet b1.58)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.rms_norm(x, x.shape[-1:])
        scale = 127.0 / x.abs().max(-1, keepdim=True).values.clamp_(min=1e-5)
        xq = (x * scale).round().clamp_(-128, 127) / scale
        wscale = 1.0 / self.weight.abs().mean().clamp_(min=1e-5)
        wq = (self.weight * wscale).round().clamp_(-1, 1) / wscale
        return F.linear(x + (xq - x).detach(), self.weight + (wq - self.weight).detach())


@model("bitlinear layers")
def bitlinear(batch: int = 8) -> Case:
    return nn.Sequential(
        _BitLinear(256, 1024, bias=False), nn.SiLU(), _BitLinear(1024, 256, bias=False), nn.ReLU(),
        _BitLinear(256, 256, bias=False),
    ), (torch.randn(batch, 16, 256),)  # fmt: skip


class _Int4(nn.Module):
    """Two weights a byte, scales and zeros a group of 64, unpacked at every call."""

    def __init__(self, a: int, b: int, group: int = 64) -> None:
        super().__init__()
        self.group = group
        self.register_buffer("packed", torch.randint(0, 256, (b, a // 2), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(b, a // group) * 0.01)
        self.register_buffer("zeros", torch.randint(6, 10, (b, a // group)).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = self.packed & 0xF, (self.packed >> 4) & 0xF
        q = torch.stack([low, high], -1).flatten(1).to(x.dtype)
        q = q.view(q.size(0), -1, self.group)
        w = (q - self.zeros.to(x.dtype).unsqueeze(-1)) * self.scales.to(x.dtype).unsqueeze(-1)
        return F.linear(x, w.flatten(1))


@model("int4 weights unpacked")
def int4(batch: int = 4) -> Case:
    return nn.Sequential(_Int4(512, 1536), nn.SiLU(), _Int4(1536, 512)), (torch.randn(batch, 512),)


@model("int4 weights unpacked, bfloat16")
def int4_bfloat16(batch: int = 4) -> Case:
    return nn.Sequential(_Int4(512, 1536), nn.SiLU(), _Int4(1536, 512)), (
        torch.randn(batch, 512).bfloat16(),
    )


class _Lora(nn.Module):
    """Adapters of several users in one batch, chosen by row, merged on the fly for one."""

    def __init__(self, d: int, users: int, r: int) -> None:
        super().__init__()
        self.base, self.other = nn.Linear(d, d), nn.Linear(d, d)
        self.a, self.b = (
            nn.Parameter(torch.randn(users, r, d) / 8),
            nn.Parameter(torch.randn(users, d, r) / 8),
        )
        self.la, self.lb = nn.Parameter(torch.randn(r, d) / 8), nn.Parameter(torch.randn(d, r) / 8)
        self.scale = 16 / r

    def forward(self, x: torch.Tensor, user: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        y = y + self.scale * torch.bmm(
            torch.bmm(x, self.a[user].transpose(1, 2)), self.b[user].transpose(1, 2)
        )
        merged = self.other.weight + self.scale * (self.lb @ self.la)
        return F.linear(F.gelu(y), merged, self.other.bias)


@model("lora of several users")
def lora(batch: int = 8) -> Case:
    return _Lora(384, 16, 8), (torch.randn(batch, 16, 384), torch.randint(0, 16, (batch,)))


class _Cached(nn.Module):
    """One token of a decoder with a cache written by index_copy_, as gpt-fast does."""

    def __init__(self, d: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.h, self.e, self.length = heads, d // heads, length
        self.words = nn.Embedding(2000, d)
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d, bias=False) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(d, 3 * d, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(d, 3 * d, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * d, d, bias=False) for _ in range(layers))
        self.n1, self.n2 = (nn.ModuleList(nn.RMSNorm(d) for _ in range(layers)) for _ in range(2))
        for i in range(layers):
            self.register_buffer(f"k{i}", torch.zeros(1, heads, length, self.e))
            self.register_buffer(f"v{i}", torch.zeros(1, heads, length, self.e))
        self.register_buffer("mask", torch.tril(torch.ones(length, length, dtype=torch.bool)))
        self.head = nn.Linear(d, 2000, bias=False)

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = self.words(token)
        b, t, d = x.shape
        mask = self.mask[None, None, at]
        for i in range(len(self.qkv)):
            q, k, v = self.qkv[i](self.n1[i](x)).split(d, -1)
            q, k, v = (m.view(b, t, self.h, self.e).transpose(1, 2) for m in (q, k, v))
            keys = getattr(self, f"k{i}").index_copy_(2, at, k)
            values = getattr(self, f"v{i}").index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + self.o[i](y.transpose(1, 2).reshape(b, t, d))
            h = self.n2[i](x)
            x = x + self.down[i](F.silu(self.gate[i](h)) * self.up[i](h))
        return self.head(x)


@model("token with a cache by index_copy_")
def cached(batch: int = 1) -> Case:
    return _Cached(384, 6, 4, 256), (torch.randint(0, 2000, (batch, 1)), torch.tensor([100]))


class _Sinks(nn.Module):
    """A window of neighbours, learnt sinks beside the scores, slopes by distance."""

    def __init__(self, d: int, heads: int, groups: int, window: int) -> None:
        super().__init__()
        self.h, self.g, self.e, self.window = heads, groups, d // heads, window
        self.q, self.kv = nn.Linear(d, d), nn.Linear(d, 2 * groups * self.e)
        self.o, self.sinks = nn.Linear(d, d), nn.Parameter(torch.randn(heads))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.g, self.h // self.g, self.e)
        k, v = self.kv(x).view(b, t, 2, self.g, self.e).unbind(2)
        qk = torch.einsum("bqhmd,bkhd->bhmqk", q, k) / math.sqrt(self.e)
        mask = torch.triu(qk.new_full((t, t), -float("inf")), 1)
        mask += torch.tril(qk.new_full((t, t), -float("inf")), -self.window)
        qk = qk + mask
        sinks = self.sinks.reshape(1, self.g, -1, 1, 1).expand(b, -1, -1, t, 1)
        w = torch.softmax(torch.cat([qk, sinks], -1), -1)[..., :-1]
        return self.o(torch.einsum("bhmqk,bkhd->bqhmd", w, v).reshape(b, t, d))


@model("window with sinks")
def sinks(batch: int = 2) -> Case:
    return nn.Sequential(_Sinks(256, 8, 2, 32), _Sinks(256, 8, 2, 32)), (
        torch.randn(batch, 128, 256),
    )


class _Verify(nn.Module):
    """Speculative sampling: how many of the drafted tokens stand, and what follows them."""

    def forward(
        self, draft: torch.Tensor, target: torch.Tensor, tokens: torch.Tensor, u: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        k = draft.shape[1]
        p, q = torch.softmax(target / 0.8, -1), torch.softmax(draft / 0.8, -1)
        pt = p[:, :k].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        qt = q.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        accepted = u < (pt / qt.clamp_min(1e-10)).clamp_max(1.0)
        length = accepted.long().cumprod(-1).sum(-1)
        q_pad = F.pad(q, (0, 0, 0, 1))
        at = length[:, None, None].expand(-1, 1, p.shape[-1])
        left = (p.gather(1, at) - q_pad.gather(1, at)).squeeze(1).clamp(min=0)
        left = left / left.sum(-1, keepdim=True).clamp_min(1e-10)
        following = left.argmax(-1)
        out = torch.where(torch.arange(k + 1) < length[:, None], F.pad(tokens, (0, 1)), -1)
        out = out.scatter(1, length[:, None], following[:, None])
        return out, length, torch.log(left.max(-1).values + 1e-9)


@model("speculative verification")
def verify(batch: int = 8) -> Case:
    return _Verify(), (
        torch.randn(batch, 5, 8000), torch.randn(batch, 6, 8000),
        torch.randint(0, 8000, (batch, 5)), torch.rand(batch, 5),
    )  # fmt: skip


class _Encoder(nn.Module):
    """What the documentation shows: nn.TransformerEncoder with padding, pooled by a mask."""

    def __init__(self, first: bool, act: str) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            128, 4, 512, batch_first=True, norm_first=first, activation=act
        )
        self.layers = nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(128))
        self.words, self.places = nn.Embedding(1000, 128, padding_idx=0), nn.Embedding(64, 128)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pad = ids == 0
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        y = self.layers(x, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return (y * keep).sum(1) / keep.sum(1).clamp(min=1)


@model("nn.TransformerEncoder with padding")
def padded(batch: int = 4) -> Case:
    ids = torch.randint(1, 1000, (batch, 64))
    ids[0, 40:] = 0
    return _Encoder(False, "gelu"), (ids,)


@model("nn.TransformerEncoder, norm first")
def norm_first(batch: int = 4) -> Case:
    return _Encoder(True, "relu"), (torch.randint(1, 1000, (batch, 64)),)


class _Decoder(nn.Module):
    """nn.TransformerDecoder over memory with both masks, tied words."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerDecoderLayer(128, 4, 512, batch_first=True, norm_first=True)
        self.layers, self.words = nn.TransformerDecoder(layer, 2), nn.Embedding(1000, 128)

    def forward(self, ids: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        y = self.layers(self.words(ids), memory, tgt_mask=mask, tgt_is_causal=True)
        return y @ self.words.weight.t()


@model("nn.TransformerDecoder")
def decoder(batch: int = 4) -> Case:
    return _Decoder(), (torch.randint(0, 1000, (batch, 32)), torch.randn(batch, 60, 128))


class _Beams(nn.Module):
    """A beam search of several steps in one forward, a recurrent cell under it."""

    def __init__(self, v: int, d: int, beams: int, steps: int) -> None:
        super().__init__()
        self.words, self.cell, self.out = nn.Embedding(v, d), nn.GRUCell(d, d), nn.Linear(d, v)
        self.beams, self.steps, self.v = beams, steps, v

    def forward(self, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, d = h.shape
        h = h.repeat_interleave(self.beams, 0)
        scores = torch.full((b, self.beams), -1e9)
        scores[:, 0] = 0
        tokens = torch.ones(b, self.beams, 1, dtype=torch.long)
        for _ in range(self.steps):
            h = self.cell(self.words(tokens[:, :, -1].reshape(-1)), h)
            logp = F.log_softmax(self.out(h), -1).view(b, self.beams, -1)
            ended = tokens[:, :, -1] == 2
            logp = logp.masked_fill(ended.unsqueeze(-1), -1e9)
            total = (scores.unsqueeze(-1) + logp).view(b, -1)
            scores, at = total.topk(self.beams, -1)
            parent, word = torch.div(at, self.v, rounding_mode="floor"), at % self.v
            tokens = tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
            tokens = torch.cat([tokens, word.unsqueeze(-1)], -1)
            h = (
                h.view(b, self.beams, d)
                .gather(1, parent.unsqueeze(-1).expand(-1, -1, d))
                .flatten(0, 1)
            )
        return tokens, scores


@model("beam search of twelve steps")
def beams(batch: int = 4) -> Case:
    return _Beams(1000, 128, 4, 12), (torch.randn(batch, 128),)
