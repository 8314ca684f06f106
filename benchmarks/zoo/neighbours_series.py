"""Neighbours over time: forecasters and recurrences of matrices, as papers' code has them."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _TimesBlock(nn.Module):
    """The strongest periods of a series fold it into images that are convolved."""

    def __init__(self, d: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.a = nn.ModuleList(nn.Conv2d(d, 2 * d, 2 * i + 1, padding=i) for i in range(3))
        self.b = nn.ModuleList(nn.Conv2d(2 * d, d, 2 * i + 1, padding=i) for i in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, n = x.size()
        xf = torch.fft.rfft(x, dim=1)
        freq = xf.abs().mean(0).mean(-1)
        freq[0] = 0
        _, top = torch.topk(freq, self.k)
        periods = t // top.detach().cpu().numpy()
        weight = F.softmax(xf.abs().mean(-1)[:, top], 1)
        res = []
        for period in periods:
            period = int(period)
            if t % period != 0:
                length = (t // period + 1) * period
                out = torch.cat([x, torch.zeros([b, length - t, n])], 1)
            else:
                length, out = t, x
            out = out.reshape(b, length // period, period, n).permute(0, 3, 1, 2).contiguous()
            out = F.gelu(torch.stack([a(out) for a in self.a], -1).mean(-1))
            out = torch.stack([c(out) for c in self.b], -1).mean(-1)
            res.append(out.permute(0, 2, 3, 1).reshape(b, -1, n)[:, :t, :])
        y = torch.stack(res, -1)
        return (y * weight[:, None, None, :]).sum(-1) + x


@model("timesnet")
def timesnet(batch: int = 4) -> Case:
    return nn.Sequential(_TimesBlock(16, 3), nn.LayerNorm(16)), (torch.randn(batch, 96, 16),)


class _FixedTimes(nn.Module):
    """The same with periods that are known, as people rewrite it to be compiled."""

    def __init__(self, d: int, periods: tuple[int, ...]) -> None:
        super().__init__()
        self.periods, self.k = periods, len(periods)
        self.a = nn.ModuleList(nn.Conv2d(d, 2 * d, 2 * i + 1, padding=i) for i in range(4))
        self.b = nn.ModuleList(nn.Conv2d(2 * d, d, 2 * i + 1, padding=i) for i in range(4))
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, n = x.shape
        amp = torch.fft.rfft(x, dim=1).abs().mean(-1)
        weight = F.softmax(torch.topk(amp[:, 1:], self.k, dim=1).values, 1)
        res = []
        for p in self.periods:
            y = F.pad(x, (0, 0, 0, -t % p)).reshape(b, -1, p, n).permute(0, 3, 1, 2)
            y = F.gelu(torch.stack([a(y) for a in self.a], -1).mean(-1))
            y = torch.stack([c(y) for c in self.b], -1).mean(-1)
            res.append(y.permute(0, 2, 3, 1).reshape(b, -1, n)[:, :t])
        y = torch.stack(res, -1) * weight[:, None, None]
        return self.out(self.norm(y.sum(-1) + x))


@model("timesnet of known periods")
def timesnet_known(batch: int = 4) -> Case:
    return _FixedTimes(32, (24, 12, 7)), (torch.randn(batch, 96, 32),)


class _ProbSparse(nn.Module):
    """Only queries whose scores vary attend; the others take the mean (Informer)."""

    def __init__(self, d: int, heads: int, length: int) -> None:
        super().__init__()
        self.h, self.q, self.k, self.v, self.o = heads, *(nn.Linear(d, d) for _ in range(4))
        self.u = min(5 * math.ceil(math.log(length)), length)
        self.register_buffer("sample", torch.randint(length, (length, self.u)))
        self.conv, self.norm = (
            nn.Conv1d(d, d, 3, padding=1, padding_mode="circular"),
            nn.BatchNorm1d(d),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        e = q.shape[-1]
        k_expand = k.unsqueeze(-3).expand(b, self.h, n, n, e)
        k_sample = k_expand[:, :, torch.arange(n).unsqueeze(1), self.sample, :]
        qk = torch.matmul(q.unsqueeze(-2), k_sample.transpose(-2, -1)).squeeze(-2)
        m = qk.max(-1)[0] - torch.div(qk.sum(-1), n)
        top = m.topk(self.u, sorted=False)[1]
        bs, hs = torch.arange(b)[:, None, None], torch.arange(self.h)[None, :, None]
        chosen = q[bs, hs, top, :]
        attn = torch.softmax(chosen @ k.transpose(-2, -1) / math.sqrt(e), -1)
        context = v.mean(-2).unsqueeze(-2).expand(b, self.h, n, e).clone()
        context[bs, hs, top, :] = attn @ v
        x = x + self.o(context.transpose(2, 1).reshape(b, n, d))
        y = F.elu(self.norm(self.conv(x.permute(0, 2, 1))))
        return F.max_pool1d(y, 3, 2, 1).transpose(1, 2)


@model("informer prob-sparse")
def informer(batch: int = 2) -> Case:
    return nn.Sequential(_ProbSparse(128, 4, 192), _ProbSparse(128, 4, 96)), (
        torch.randn(batch, 192, 128),
    )


class _S5(nn.Module):
    """A complex diagonal recurrence by doubling steps (an associative scan written by hand)."""

    def __init__(self, d: int, n: int) -> None:
        super().__init__()
        self.log_step = nn.Parameter(torch.rand(n) * 2 - 4)
        self.a = nn.Parameter(torch.stack([-torch.rand(n) - 0.1, torch.arange(n) * math.pi], -1))
        self.b = nn.Parameter(torch.randn(n, d, 2) / math.sqrt(d))
        self.c = nn.Parameter(torch.randn(d, n, 2) / math.sqrt(n))
        self.d, self.gate, self.norm = (
            nn.Parameter(torch.randn(d)),
            nn.Linear(d, d),
            nn.LayerNorm(d),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        a = torch.view_as_complex(self.a)
        step = torch.exp(self.log_step)
        decay = torch.exp(a * step)
        b_bar = ((decay - 1) / a)[:, None] * torch.view_as_complex(self.b)
        u = torch.einsum("pd,btd->btp", b_bar, h.to(torch.complex64))
        n, aa = x.shape[1], decay.expand(x.shape[0], x.shape[1], -1)
        shift = 1
        while shift < n:
            u = torch.cat([u[:, :shift], u[:, shift:] + aa[:, shift:] * u[:, :-shift]], 1)
            aa = torch.cat([aa[:, :shift], aa[:, shift:] * aa[:, :-shift]], 1)
            shift *= 2
        y = torch.einsum("dp,btp->btd", torch.view_as_complex(self.c), u).real * 2 + self.d * h
        y = F.gelu(y)
        return x + y * torch.sigmoid(self.gate(y))


@model("s5 by doubling")
def s5(batch: int = 2) -> Case:
    return nn.Sequential(_S5(64, 32), _S5(64, 32)), (torch.randn(batch, 256, 64),)


class _S4d(nn.Module):
    """A long filter out of a diagonal state space, applied by Fourier transforms."""

    def __init__(self, d: int, n: int) -> None:
        super().__init__()
        self.c = nn.Parameter(torch.randn(d, n, 2))
        self.log_dt = nn.Parameter(torch.rand(d) * 4 - 7)
        self.log_real = nn.Parameter(torch.log(0.5 * torch.ones(d, n)))
        self.imag = nn.Parameter(math.pi * torch.arange(n).repeat(d, 1).float())
        self.skip, self.out = nn.Parameter(torch.randn(d)), nn.Conv1d(d, 2 * d, 1)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        n = u.size(-1)
        dt, c = torch.exp(self.log_dt), torch.view_as_complex(self.c)
        a = -torch.exp(self.log_real) + 1j * self.imag
        dta = a * dt.unsqueeze(-1)
        k = dta.unsqueeze(-1) * torch.arange(n)
        c = c * (torch.exp(dta) - 1.0) / a
        k = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(k)).real
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * n) * torch.fft.rfft(k, n=2 * n), n=2 * n)
        y = F.gelu(y[..., :n] + u * self.skip.unsqueeze(-1))
        return F.glu(self.out(y), 1) + u


@model("s4d layers")
def s4d(batch: int = 4) -> Case:
    return nn.Sequential(_S4d(64, 32), _S4d(64, 32)), (torch.randn(batch, 64, 512),)


def _segsum(x: torch.Tensor) -> torch.Tensor:
    t = x.size(-1)
    x = x[..., None].expand(*x.shape, t)
    x = x.masked_fill(~torch.tril(torch.ones(t, t, dtype=torch.bool), -1), 0)
    total = torch.cumsum(x, -2)
    return total.masked_fill(~torch.tril(torch.ones(t, t, dtype=torch.bool)), -torch.inf)


class _Ssd(nn.Module):
    """Mamba-2's chunked duality, by einsums of four and five letters."""

    def __init__(self, d: int, heads: int, state: int, chunk: int) -> None:
        super().__init__()
        self.h, self.p, self.n, self.chunk = heads, 2 * d // heads, state, chunk
        self.inner = 2 * d
        self.proj = nn.Linear(d, 2 * self.inner + 2 * state + heads, bias=False)
        self.conv = nn.Conv1d(
            self.inner + 2 * state,
            self.inner + 2 * state,
            4,
            groups=self.inner + 2 * state,
            padding=3,
        )
        self.a_log, self.dt_bias = nn.Parameter(torch.rand(heads)), nn.Parameter(torch.rand(heads))
        self.d, self.out = nn.Parameter(torch.ones(heads)), nn.Linear(self.inner, d, bias=False)
        self.norm = nn.RMSNorm(self.inner)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        b, t, _ = u.shape
        z, xbc, dt = torch.split(self.proj(u), [self.inner, self.inner + 2 * self.n, self.h], -1)
        dt = F.softplus(dt + self.dt_bias)
        xbc = F.silu(self.conv(xbc.transpose(1, 2)).transpose(1, 2)[:, :t])
        x, bb, cc = torch.split(xbc, [self.inner, self.n, self.n], -1)
        x = x.view(b, t, self.h, self.p)
        a = -torch.exp(self.a_log)
        y = self.ssd(x * dt.unsqueeze(-1), a * dt, bb.unsqueeze(2), cc.unsqueeze(2))
        y = (y + x * self.d.unsqueeze(-1)).reshape(b, t, -1)
        return u + self.out(self.norm(y * F.silu(z)))

    def ssd(
        self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> torch.Tensor:
        n, t = x.shape[:2]
        x, a, b, c = (m.reshape(n, t // self.chunk, self.chunk, *m.shape[2:]) for m in (x, a, b, c))
        a = a.permute(0, 3, 1, 2)
        total = torch.cumsum(a, -1)
        b, c = (m.expand(-1, -1, -1, self.h, -1) for m in (b, c))
        inside = torch.exp(_segsum(a))
        diag = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, inside, x)
        decay = torch.exp(total[:, :, :, -1:] - total)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, decay, x)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        between = torch.exp(_segsum(F.pad(total[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        off = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, torch.exp(total))
        return (diag + off).reshape(n, t, self.h, self.p)


@model("mamba-2 by chunks")
def ssd(batch: int = 2) -> Case:
    return nn.Sequential(_Ssd(96, 6, 32, 32), _Ssd(96, 6, 32, 32)), (torch.randn(batch, 128, 96),)


class _Slstm(nn.Module):
    """Exponential gates with a stabiliser, recurrent a head, step after step."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.h, self.d = heads, d
        self.w = nn.Linear(d, 4 * d)
        self.r = nn.Parameter(torch.randn(heads, d // heads, 4 * d // heads) * 0.05)
        self.norm, self.group = nn.LayerNorm(d), nn.GroupNorm(heads, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        wx = self.w(self.norm(x))
        h = c = n = m = x.new_zeros(b, d)
        out = []
        for i in range(t):
            rec = torch.einsum("bhd,hdk->bhk", h.view(b, self.h, -1), self.r).reshape(b, 4 * d)
            z, gi, gf, go = (wx[:, i] + rec).chunk(4, -1)
            log_f = F.logsigmoid(gf)
            new = torch.maximum(log_f + m, gi)
            keep, take = torch.exp(log_f + m - new), torch.exp(gi - new)
            c = keep * c + take * torch.tanh(z)
            n = keep * n + take
            m = new
            h = torch.sigmoid(go) * c / n.clamp(min=1e-6)
            out.append(h)
        y = torch.stack(out, 1)
        return x + self.group(y.reshape(b * t, d)).view(b, t, d)


@model("slstm by a loop")
def slstm(batch: int = 4) -> Case:
    return _Slstm(128, 4), (torch.randn(batch, 40, 128),)


class _Mlstm(nn.Module):
    """The parallel form of a matrix memory: decays as a triangle of differences."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.h = heads
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)
        self.q, self.k, self.v = (nn.Linear(2 * d, 2 * d, bias=False) for _ in range(3))
        self.gi, self.gf = nn.Linear(6 * d, heads), nn.Linear(6 * d, heads)
        self.norm, self.outer = nn.LayerNorm(2 * d), nn.LayerNorm(d)
        self.conv = nn.Conv1d(2 * d, 2 * d, 4, groups=2 * d, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        inner, z = self.up(self.outer(x)).chunk(2, -1)
        act = F.silu(self.conv(inner.transpose(1, 2))[..., :s].transpose(1, 2))
        q, k, v = self.q(act), self.k(act), self.v(inner)
        gates = torch.cat([q, k, v], -1)
        i, f = (g(gates).transpose(1, 2).unsqueeze(-1) for g in (self.gi, self.gf))
        q, k, v = (m.view(b, s, self.h, -1).transpose(1, 2) for m in (q, k, v))
        log_f = F.logsigmoid(f)
        ltr = torch.tril(torch.ones(s, s, dtype=torch.bool))
        cums = torch.cat([torch.zeros(b, self.h, 1, 1), torch.cumsum(log_f, -2)], -2)
        rep = cums.repeat(1, 1, 1, s + 1)
        mat = rep - rep.transpose(-2, -1)
        log_d = torch.where(ltr, mat[:, :, 1:, 1:], -float("inf")) + i.transpose(-2, -1)
        high, _ = torch.max(log_d, -1, keepdim=True)
        c = (q @ (k / math.sqrt(k.shape[-1])).transpose(-2, -1)) * torch.exp(log_d - high)
        n = torch.maximum(c.sum(-1, keepdim=True).abs(), torch.exp(-high))
        h = (c / (n + 1e-6)) @ v
        h = self.norm(h.transpose(1, 2).reshape(b, s, -1))
        return x + self.down((h + act) * F.silu(z))


@model("mlstm in parallel")
def mlstm(batch: int = 2) -> Case:
    return nn.Sequential(_Mlstm(64, 4), _Mlstm(64, 4)), (torch.randn(batch, 128, 64),)


class _Rwkv7(nn.Module):
    """A state that is decayed, corrected along one direction and written to, a token at a time."""

    def __init__(self, d: int, size: int) -> None:
        super().__init__()
        self.n, self.h = size, d // size
        self.mix = nn.Parameter(torch.rand(6, 1, 1, d))
        self.r, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.w1, self.w2 = (
            nn.Parameter(torch.randn(d, 32) * 0.1),
            nn.Parameter(torch.randn(32, d) * 0.1),
        )
        self.a1, self.a2 = (
            nn.Parameter(torch.randn(d, 32) * 0.1),
            nn.Parameter(torch.randn(32, d) * 0.1),
        )
        self.g1, self.g2 = (
            nn.Parameter(torch.randn(d, 32) * 0.1),
            nn.Parameter(torch.randn(32, d) * 0.1),
        )
        self.w0, self.a0 = nn.Parameter(torch.randn(d)), nn.Parameter(torch.randn(d))
        self.kk, self.ka, self.rk = (
            nn.Parameter(torch.rand(d)),
            nn.Parameter(torch.rand(d)),
            nn.Parameter(torch.randn(self.h, size) * 0.1),
        )
        self.ln = nn.GroupNorm(self.h, d, eps=64e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        xx = F.pad(x, (0, 0, 1, -1)) - x
        xr, xw, xk, xv, xa, xg = (x + xx * m for m in self.mix)
        r, k, v = self.r(xr), self.k(xk), self.v(xv)
        w = torch.exp(-0.606531 * torch.sigmoid(self.w0 + torch.tanh(xw @ self.w1) @ self.w2))
        a = torch.sigmoid(self.a0 + (xa @ self.a1) @ self.a2)
        g = torch.sigmoid(xg @ self.g1) @ self.g2
        kk = F.normalize((k * self.kk).view(b, t, self.h, -1), dim=-1, p=2.0).view(b, t, c)
        k = k * (1 + (a - 1) * self.ka)
        r_, w_, k_, v_, kk_, a_ = (m.view(b, t, self.h, self.n) for m in (r, w, k, v, kk, a))
        state = torch.zeros(b, self.h, self.n, self.n)
        out = torch.empty(b, t, self.h, self.n)
        for i in range(t):
            vk = v_[:, i].view(b, self.h, self.n, 1) @ k_[:, i].view(b, self.h, 1, self.n)
            ab = (-kk_[:, i]).view(b, self.h, self.n, 1) @ (kk_[:, i] * a_[:, i]).view(
                b, self.h, 1, self.n
            )
            state = state * w_[:, i].view(b, self.h, 1, self.n) + state @ ab + vk
            out[:, i] = (state @ r_[:, i].view(b, self.h, self.n, 1)).view(b, self.h, self.n)
        y = self.ln(out.view(b * t, c)).view(b, t, c)
        y = y + ((r_ * k_ * self.rk).sum(-1, keepdim=True) * v_).view(b, t, c)
        return self.o(y * g)


@model("rwkv7 by a loop")
def rwkv7(batch: int = 1) -> Case:
    return _Rwkv7(128, 32), (torch.randn(batch, 48, 128),)


class _Decomposed(nn.Module):
    """Trend and season apart, a linear layer each a channel; reversible normalisation (DLinear)."""

    def __init__(self, length: int, ahead: int, channels: int) -> None:
        super().__init__()
        self.season = nn.ModuleList(nn.Linear(length, ahead) for _ in range(channels))
        self.trend = nn.ModuleList(nn.Linear(length, ahead) for _ in range(channels))
        self.pool = nn.AvgPool1d(25, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, std = (
            x.mean(1, keepdim=True).detach(),
            torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5),
        )
        x = (x - mean) / std
        padded = torch.cat([x[:, :1].repeat(1, 12, 1), x, x[:, -1:].repeat(1, 12, 1)], 1)
        trend = self.pool(padded.permute(0, 2, 1))
        season = x.permute(0, 2, 1) - trend
        out = torch.zeros(x.size(0), x.size(2), self.season[0].out_features)
        for i in range(x.size(2)):
            out[:, i, :] = self.season[i](season[:, i, :]) + self.trend[i](trend[:, i, :])
        return out.permute(0, 2, 1) * std + mean


@model("dlinear a channel")
def dlinear(batch: int = 32) -> Case:
    return _Decomposed(336, 96, 21), (torch.randn(batch, 336, 21),)
