"""Strangers that work on sequences: loops over time, masks, ragged losses, as people write them."""

from __future__ import annotations

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _TimeMix(nn.Module):
    """Receptance, weight, key, value: a matrix state that decays, step after step."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.mix = nn.Parameter(torch.rand(4, width))
        self.decay = nn.Parameter(torch.randn(width) * 0.5)
        self.bonus = nn.Parameter(torch.randn(heads, self.size) * 0.1)
        self.r, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.near = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, width))
        self.norm, self.inner = nn.LayerNorm(width), nn.GroupNorm(heads, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        h = self.norm(x)
        before = F.pad(h, (0, 0, 1, -1))
        parts = [h + (before - h) * m for m in self.mix]
        r = self.r(parts[0]).view(b, t, self.heads, self.size)
        k = self.k(parts[1]).view(b, t, self.heads, self.size)
        v = self.v(parts[2]).view(b, t, self.heads, self.size)
        w = torch.exp(-torch.exp(self.decay + self.near(parts[3]))).view_as(r)
        state = x.new_zeros(b, self.heads, self.size, self.size)
        seen = []
        for i in range(t):
            kv = k[:, i].unsqueeze(-1) * v[:, i].unsqueeze(-2)
            now = state + self.bonus.unsqueeze(-1) * kv
            seen.append(torch.einsum("bhk,bhkv->bhv", r[:, i], now))
            state = state * w[:, i].unsqueeze(-1) + kv
        y = torch.stack(seen, 1).reshape(b * t, c)
        return x + self.out(self.inner(y).view(b, t, c))


@model("rwkv state by a loop", trained=True)
def time_mix(batch: int = 4) -> Case:
    return _TimeMix(128, 4), (torch.randn(batch, 48, 128),)


class _Speller(nn.Module):
    """Attention that knows where it was (convolved weights), two cells, frame after frame."""

    def __init__(self, width: int, frames: int) -> None:
        super().__init__()
        self.frames = frames
        self.pre = nn.Sequential(nn.Linear(80, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.attend, self.decode = (
            nn.LSTMCell(128 + width, width),
            nn.LSTMCell(2 * width, width),
        )
        self.query, self.key = nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False)
        self.place = nn.Conv1d(2, 32, 31, padding=15, bias=False)
        self.placed, self.score = nn.Linear(32, 64, bias=False), nn.Linear(64, 1, bias=False)
        self.frame, self.stop = nn.Linear(2 * width, 80), nn.Linear(2 * width, 1)

    def forward(
        self, memory: torch.Tensor, mels: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        b, n, c = memory.shape
        hidden = torch.arange(n) >= lengths[:, None]
        keys = self.key(memory)
        h1 = c1 = h2 = c2 = torch.zeros(b, c)
        weights, total, context = torch.zeros(b, n), torch.zeros(b, n), torch.zeros(b, c)
        given = self.pre(mels)
        frames, stops = [], []
        for t in range(self.frames):
            h1, c1 = self.attend(torch.cat([given[:, t], context], -1), (h1, c1))
            near = self.placed(self.place(torch.stack([weights, total], 1)).transpose(1, 2))
            energy = self.score(torch.tanh(self.query(h1)[:, None] + keys + near)).squeeze(-1)
            weights = torch.softmax(energy.masked_fill(hidden, -1e9), -1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            h2, c2 = self.decode(torch.cat([h1, context], -1), (h2, c2))
            both = torch.cat([h2, context], -1)
            frames.append(self.frame(both))
            stops.append(self.stop(both))
        return torch.stack(frames, 1), torch.cat(stops, 1)


@model("tacotron decoder", trained=True)
def speller(batch: int = 4) -> Case:
    lengths = torch.randint(30, 60, (batch,))
    return _Speller(256, 24), (torch.randn(batch, 60, 256), torch.randn(batch, 24, 80), lengths)


class _Labels(nn.Module):
    """Letters of a sound without their places: the CTC loss over a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, (11, 7), (3, 2), (5, 3))
        self.norm = nn.BatchNorm2d(16)
        self.cells = nn.GRU(16 * 40, 128, bidirectional=True, batch_first=True)
        self.out = nn.Linear(256, 29)

    def forward(
        self, x: torch.Tensor, text: torch.Tensor, inside: torch.Tensor, outside: torch.Tensor
    ) -> torch.Tensor:
        h = F.hardtanh(self.norm(self.conv(x)), 0, 20)
        h = self.cells(h.permute(0, 3, 1, 2).flatten(2))[0]
        log = F.log_softmax(self.out(h), -1).transpose(0, 1)
        return F.ctc_loss(log, text, inside, outside, blank=0, zero_infinity=True)


@model("ctc loss", trained=True)
def labels(batch: int = 4) -> Case:
    text = torch.randint(1, 29, (batch, 20))
    outside = torch.randint(10, 20, (batch,))
    return _Labels(), (torch.randn(batch, 1, 120, 100), text, torch.full((batch,), 50), outside)


class _Transducer(nn.Module):
    """The loss of a transducer: a lattice of log sums walked cell by cell in Python."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.sounds, self.texts = nn.Linear(40, width), nn.GRU(width, width, batch_first=True)
        self.joint = nn.Linear(width, words)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        f, g = self.sounds(x), self.texts(self.table(text))[0]
        log = self.joint(torch.tanh(f[:, :, None] + g[:, None])).log_softmax(-1)
        blank = log[..., 0]
        emit = log[:, :, :-1].gather(-1, text[:, None, 1:, None].expand(-1, x.shape[1], -1, 1))
        emit = emit.squeeze(-1)
        steps, letters = blank.shape[1:]
        alpha = [[blank.new_zeros(blank.shape[0])]]
        for u in range(1, letters):
            alpha[0].append(alpha[0][u - 1] + emit[:, 0, u - 1])
        for t in range(1, steps):
            row = [alpha[t - 1][0] + blank[:, t - 1, 0]]
            for u in range(1, letters):
                stay, go = alpha[t - 1][u] + blank[:, t - 1, u], row[u - 1] + emit[:, t, u - 1]
                row.append(torch.logaddexp(stay, go))
            alpha.append(row)
        return -(alpha[-1][-1] + blank[:, -1, -1]).mean()


@model("transducer loss", trained=True)
def transducer(batch: int = 4) -> Case:
    return _Transducer(64, 40), (torch.randn(batch, 24, 40), torch.randint(0, 40, (batch, 8)))


class _GlobalNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, width, 1))
        self.shift = nn.Parameter(torch.zeros(1, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((1, 2), keepdim=True)
        power = ((x - mean) ** 2).mean((1, 2), keepdim=True)
        return self.scale * (x - mean) / torch.sqrt(power + 1e-8) + self.shift


class _Separator(nn.Module):
    """Two voices out of one sound: learnt filters, dilated blocks, masks, overlapped frames."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, 256, 16, 8, bias=False)
        self.decode = nn.ConvTranspose1d(256, 1, 16, 8, bias=False)
        self.first = nn.Sequential(_GlobalNorm(256), nn.Conv1d(256, width, 1))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, 2 * width, 1), nn.PReLU(), _GlobalNorm(2 * width),
                nn.Conv1d(2 * width, 2 * width, 3, padding=2**i, dilation=2**i, groups=2 * width),
                nn.PReLU(), _GlobalNorm(2 * width), nn.Conv1d(2 * width, width, 1),
            )
            for i in range(blocks)
        )  # fmt: skip
        self.masks = nn.Conv1d(width, 2 * 256, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = F.relu(self.encode(x.unsqueeze(1)))
        y = self.first(w)
        for block in self.blocks:
            y = y + block(y)
        masks = torch.sigmoid(self.masks(y)).view(x.shape[0], 2, 256, -1)
        apart = (w.unsqueeze(1) * masks).flatten(0, 1)
        return self.decode(apart).view(x.shape[0], 2, -1)


@model("conv-tasnet", trained=True)
def separator(batch: int = 1) -> Case:
    return _Separator(96, 6), (torch.randn(batch, 8000),)
