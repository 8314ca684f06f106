"""Strangers that attend or scan: memories, windows, capacities, complex rotations."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Capacity(nn.Module):
    """Top-2 experts with a capacity: one-hot places by running sums, dispatched by einsum."""

    def __init__(self, width: int, experts: int, room: int) -> None:
        super().__init__()
        self.experts, self.room = experts, room
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / math.sqrt(2 * width))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.reshape(-1, x.shape[-1])
        gates = F.softmax(self.gate(flat), -1)
        first = gates.argmax(-1)
        mask1 = F.one_hot(first, self.experts)
        second = gates.masked_fill(mask1.bool(), float("-inf")).argmax(-1)
        mask2 = F.one_hot(second, self.experts)
        place1 = torch.cumsum(mask1, 0) - 1
        place2 = torch.cumsum(mask2, 0) - 1 + mask1.sum(0, keepdim=True)
        loss = (gates.mean(0) * mask1.float().mean(0)).sum() * self.experts
        mask1 = mask1 * (place1 < self.room)
        mask2 = mask2 * (place2 < self.room)
        g1, g2 = (gates * mask1).sum(1), (gates * mask2).sum(1)
        total = (g1 + g2).clamp(min=1e-9)
        combine = x.new_zeros(flat.shape[0], self.experts, self.room)
        for g, mask, place in ((g1, mask1, place1), (g2, mask2, place2)):
            at = F.one_hot((place * mask).sum(1).clamp(max=self.room - 1), self.room).float()
            combine = combine + torch.einsum("se,sc->sec", (g / total)[:, None] * mask, at)
        sent = torch.einsum("sec,sm->ecm", combine.bool().float(), flat)
        done = torch.bmm(F.relu(torch.bmm(sent, self.up)), self.down)
        return torch.einsum("sec,ecm->sm", combine, done).view_as(x), loss


@model("top-2 experts with capacity", trained=True)
def capacity(batch: int = 4) -> Case:
    return _Capacity(128, 8, 96), (torch.randn(batch, 64, 128),)


class _Rotated(nn.Module):
    """Rotary positions as complex numbers, grouped keys, a cache that is written by slices."""

    turns: torch.Tensor

    def __init__(self, width: int, heads: int, groups: int, length: int) -> None:
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.depth, bias=False)
        self.out, self.norm = nn.Linear(width, width, bias=False), nn.LayerNorm(width)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)
        angles = 1 / 10000 ** (torch.arange(0, self.depth, 2).float() / self.depth)
        turns = torch.outer(torch.arange(length).float(), angles)
        self.register_buffer("turns", torch.polar(torch.ones_like(turns), turns))

    def turned(self, x: torch.Tensor, start: int) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turns = self.turns[start : start + x.shape[1]].view(1, x.shape[1], 1, -1)
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        start = keys.shape[1] - n
        h = self.norm(x)
        q = self.turned(self.q(h).view(b, n, self.heads, self.depth), start)
        k, v = self.kv(h).view(b, n, 2, self.groups, self.depth).unbind(2)
        keys, values = keys.clone(), values.clone()
        keys[:, start:] = self.turned(k, start)
        values[:, start:] = v
        times = self.heads // self.groups
        k, v = keys.repeat_interleave(times, 2), values.repeat_interleave(times, 2)
        score = torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(2, 3))
        score = score / math.sqrt(self.depth)
        mask = torch.full((n, n), float("-inf")).triu(1)
        score = score + torch.hstack([torch.zeros(n, start), mask])
        y = torch.matmul(F.softmax(score.float(), -1).type_as(q), v.transpose(1, 2))
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


@model("complex rotations and a cache", trained=True)
def rotated(batch: int = 1) -> Case:
    cache = torch.randn(batch, 160, 2, 32)
    return _Rotated(256, 8, 2, 160), (torch.randn(batch, 32, 256), cache, cache.flip(1))


class _Shifted(nn.Module):
    """Relative places by padding and viewing again (Transformer-XL), with a memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.depth = heads, width // heads
        self.qkv, self.r = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.u, self.v = (nn.Parameter(torch.randn(heads, self.depth) * 0.1) for _ in range(2))
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        steps = 1 / 10000 ** (torch.arange(0.0, width, 2) / width)
        self.register_buffer("steps", steps)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        q_len, b, c = x.shape
        both = torch.cat([memory, x], 0)
        k_len = both.shape[0]
        place = torch.outer(torch.arange(k_len - 1, -1, -1.0), self.steps)  # type: ignore[arg-type]  # a buffer
        place = torch.cat([place.sin(), place.cos()], -1)
        q, k, v = torch.chunk(self.qkv(both), 3, -1)
        q = q[-q_len:].view(q_len, b, self.heads, self.depth)
        k, v = (t.view(k_len, b, self.heads, self.depth) for t in (k, v))
        r = self.r(place).view(k_len, self.heads, self.depth)
        ac = torch.einsum("ibnd,jbnd->ijbn", q + self.u, k)
        bd = torch.einsum("ibnd,jnd->ijbn", q + self.v, r)
        zero = bd.new_zeros(q_len, 1, *bd.shape[2:])
        bd = torch.cat([zero, bd], 1).view(k_len + 1, q_len, *bd.shape[2:])[1:].view_as(bd)
        score = (ac + bd) / math.sqrt(self.depth)
        ahead = torch.triu(torch.ones(q_len, k_len), k_len - q_len + 1).bool()
        score = score.float().masked_fill(ahead[:, :, None, None], -float("inf"))
        y = torch.einsum("ijbn,jbnd->ibnd", F.softmax(score, 1), v)
        return self.norm(x + self.out(y.reshape(q_len, b, c)))


@model("transformer-xl", trained=True)
def shifted(batch: int = 4) -> Case:
    return _Shifted(256, 8), (torch.randn(48, batch, 256), torch.randn(48, batch, 256))


class _Turing(nn.Module):
    """A memory that is read and written by content and by shifts (neural Turing machine)."""

    def __init__(self, rows: int, width: int, hidden: int) -> None:
        super().__init__()
        self.rows, self.width, self.hidden = rows, width, hidden
        self.cell = nn.LSTMCell(8 + width, hidden)
        self.heads = nn.Linear(hidden, 2 * (width + 6) + 2 * width)
        self.out = nn.Linear(hidden + width, 8)
        self.start = nn.Parameter(torch.randn(rows, width) * 0.1)

    def address(self, p: torch.Tensor, memory: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        w = self.width
        key, beta, gate = torch.tanh(p[:, :w]), F.softplus(p[:, w]), torch.sigmoid(p[:, w + 1])
        shift, gamma = F.softmax(p[:, w + 2 : w + 5], -1), 1 + F.softplus(p[:, w + 5])
        alike = F.cosine_similarity(memory + 1e-16, key.unsqueeze(1) + 1e-16, dim=-1)
        content = F.softmax(beta[:, None] * alike, 1)
        mixed = gate[:, None] * content + (1 - gate[:, None]) * before
        wide = torch.cat([mixed[:, -1:], mixed, mixed[:, :1]], 1)
        moved = (wide.unfold(1, 3, 1) * shift[:, None]).sum(-1)
        sharp = moved ** gamma[:, None]
        return sharp / (sharp.sum(1, keepdim=True) + 1e-16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        memory = self.start.expand(b, -1, -1)
        h = c = x.new_zeros(b, self.hidden)
        r, w_r = x.new_zeros(b, self.width), x.new_zeros(b, self.rows)
        w_w = x.new_zeros(b, self.rows)
        outs = []
        for i in range(t):
            h, c = self.cell(torch.cat([x[:, i], r], 1), (h, c))
            p_r, p_w, erase, add = self.heads(h).split(
                [self.width + 6, self.width + 6, self.width, self.width], 1
            )
            w_r, w_w = self.address(p_r, memory, w_r), self.address(p_w, memory, w_w)
            r = torch.bmm(w_r.unsqueeze(1), memory).squeeze(1)
            memory = memory * (1 - w_w.unsqueeze(2) * torch.sigmoid(erase).unsqueeze(1))
            memory = memory + w_w.unsqueeze(2) * add.unsqueeze(1)
            outs.append(torch.sigmoid(self.out(torch.cat([h, r], 1))))
        return torch.stack(outs, 1)


@model("turing machine", trained=True)
def turing(batch: int = 16) -> Case:
    return _Turing(64, 20, 100), (torch.rand(batch, 16, 8),)


class _Induced(nn.Module):
    """Sets through induced points, with nn.MultiheadAttention and padded members."""

    def __init__(self, width: int, points: int) -> None:
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.points = nn.ParameterList(torch.randn(1, points, width) for _ in range(2))
        self.one = nn.ModuleList(
            nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(2)
        )
        self.two = nn.ModuleList(
            nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.seed = nn.Parameter(torch.randn(1, 4, width))
        self.pool = nn.MultiheadAttention(width, 4, batch_first=True)
        self.out = nn.Linear(4 * width, 10)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        pad = torch.arange(n)[None] >= lengths[:, None]
        x = self.embed(x)
        for i in range(2):
            points = self.points[i].repeat(b, 1, 1)
            h = self.norms[2 * i](points + self.one[i](points, x, x, key_padding_mask=pad)[0])
            x = self.norms[2 * i + 1](x + self.two[i](x, h, h)[0])
        seeds = self.seed.repeat(b, 1, 1)
        return self.out(self.pool(seeds, x, x, key_padding_mask=pad)[0].flatten(1))


@model("set transformer", trained=True)
def induced(batch: int = 8) -> Case:
    return _Induced(128, 16), (torch.randn(batch, 200, 3), torch.randint(100, 200, (batch,)))


class _Chunks(nn.Module):
    """A window that slides, by chunks that overlap (as_strided), with a mask for the edges."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        w, d = self.window, c // self.heads
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4).unbind(0)
        q = (q / math.sqrt(d)).reshape(b, self.heads, n // w, w, d)
        k, v = F.pad(k, (0, 0, w, w)), F.pad(v, (0, 0, w, w))
        k = k.unfold(2, 3 * w, w)
        v = v.unfold(2, 3 * w, w)
        score = torch.einsum("bhcqd,bhcdk->bhcqk", q, k)
        at = torch.arange(n).view(n // w, w, 1)
        seen = (torch.arange(n // w) * w - w)[:, None, None] + torch.arange(3 * w)
        hidden = ((at - seen).abs() > w) | (seen < 0) | (seen >= n)
        score = score.masked_fill(hidden, torch.finfo(score.dtype).min)
        y = torch.einsum("bhcqk,bhcdk->bhcqd", score.softmax(-1), v)
        return x + self.out(y.reshape(b, self.heads, n, d).transpose(1, 2).reshape(b, n, c))


@model("sliding chunks", trained=True)
def chunks(batch: int = 1) -> Case:
    return _Chunks(256, 8, 64), (torch.randn(batch, 512, 256),)


class _StateSpace(nn.Module):
    """A diagonal state space of complex numbers: its kernel by powers, convolved by FFT (S4D)."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(width) * 4 - 6)
        self.log_a = nn.Parameter(torch.full((width, states), math.log(0.5)))
        imaginary = math.pi * torch.arange(states).float()
        self.a_imag = nn.Parameter(imaginary.repeat(width, 1))
        self.c = nn.Parameter(torch.randn(width, states, 2))
        self.skip = nn.Parameter(torch.randn(width))
        self.out, self.norm = nn.Conv1d(width, 2 * width, 1), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        u = self.norm(x).transpose(1, 2)
        dt = torch.exp(self.log_dt)
        a = -torch.exp(self.log_a) + 1j * self.a_imag
        da = a * dt.unsqueeze(-1)
        c = torch.view_as_complex(self.c) * (torch.exp(da) - 1.0) / a
        powers = torch.exp(da.unsqueeze(-1) * torch.arange(length))
        kernel = 2 * torch.einsum("hn,hnl->hl", c, powers).real
        kf, uf = torch.fft.rfft(kernel, n=2 * length), torch.fft.rfft(u, n=2 * length)
        y = torch.fft.irfft(uf * kf, n=2 * length)[..., :length] + u * self.skip.unsqueeze(-1)
        return x + F.glu(self.out(F.gelu(y)), 1).transpose(1, 2)


@model("diagonal state space", trained=True)
def state_space(batch: int = 4) -> Case:
    return _StateSpace(64, 16), (torch.randn(batch, 256, 64),)


class _Pointers(nn.Module):
    """Cities chosen one by one: masks written in place, the best taken by argmax and gather."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed, self.first = nn.Linear(2, width), nn.Parameter(torch.randn(width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.cell = nn.GRUCell(width, width)
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v = nn.Parameter(torch.randn(width) / math.sqrt(width))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, n, _ = x.shape
        seen = self.encode(self.embed(x))
        keys, h = self.k(seen), seen.mean(1)
        taken = torch.zeros(b, n, dtype=torch.bool)
        now, log, tour = self.first.expand(b, -1), x.new_zeros(b), []
        for _ in range(n):
            h = self.cell(now, h)
            score = 10 * torch.tanh((torch.tanh(self.q(h)[:, None] + keys) * self.v).sum(-1))
            score[taken] = -1e9
            p = F.log_softmax(score, -1)
            best = p.argmax(-1)
            log = log + p.gather(1, best[:, None]).squeeze(1)
            taken = taken.scatter(1, best[:, None], True)
            now = seen[torch.arange(b), best]
            tour.append(best)
        return log, torch.stack(tour, 1)


@model("pointer network", trained=True)
def pointers(batch: int = 16) -> Case:
    return _Pointers(64), (torch.rand(batch, 20, 2),)


class _Delta(nn.Module):
    """The delta rule by chunks: a triangular solve inside each, a state between them."""

    def __init__(self, width: int, heads: int, chunk: int) -> None:
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv, self.beta = nn.Linear(width, 3 * width), nn.Linear(width, heads)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        d, m = c // self.heads, n // self.chunk
        qkv = self.qkv(x).view(b, m, self.chunk, 3, self.heads, d)
        q, k, v = qkv.permute(3, 0, 4, 1, 2, 5)
        q, k = F.normalize(F.silu(q), dim=-1), F.normalize(F.silu(k), dim=-1)
        beta = torch.sigmoid(self.beta(x)).view(b, m, self.chunk, self.heads)
        beta = beta.permute(0, 3, 1, 2).unsqueeze(-1)
        eye = torch.eye(self.chunk)
        lower = ((k * beta) @ k.transpose(-1, -2)).tril(-1) + eye
        t = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
        w, u = t @ (k * beta), t @ (v * beta)
        inner = (q @ k.transpose(-1, -2)).tril()
        state, outs = x.new_zeros(b, self.heads, d, d), []
        for i in range(m):
            new = u[:, :, i] - w[:, :, i] @ state
            outs.append(q[:, :, i] @ state + inner[:, :, i] @ new)
            state = state + k[:, :, i].transpose(-1, -2) @ new
        y = torch.stack(outs, 2).reshape(b, self.heads, n, d).transpose(1, 2).reshape(b, n, c)
        return x + self.out(y)


@model("delta rule by chunks", trained=True)
def delta(batch: int = 2) -> Case:
    return _Delta(128, 4, 32), (torch.randn(batch, 256, 128),)


class _Sliding(nn.Module):
    """Each token attends to those around it: keys and values unfolded into windows."""

    def __init__(self, d: int, window: int) -> None:
        super().__init__()
        self.window, self.qkv, self.out = window, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half, n = self.window // 2, x.shape[1]
        q, k, v = self.qkv(x).chunk(3, -1)
        k, v = (F.pad(t, (0, 0, half, half)).unfold(1, self.window, 1) for t in (k, v))
        scores = torch.einsum("bnd,bndw->bnw", q, k) / math.sqrt(q.shape[-1])
        at = torch.arange(n)[:, None] + torch.arange(self.window) - half
        scores = scores.masked_fill((at < 0) | (at >= n), float("-inf"))
        return x + self.out(torch.einsum("bnw,bndw->bnd", scores.softmax(-1), v))


@model("windows of keys by unfold", trained=True)
def sliding(batch: int = 4) -> Case:
    return nn.Sequential(*[_Sliding(64, 9) for _ in range(2)]), (torch.randn(batch, 128, 64),)
