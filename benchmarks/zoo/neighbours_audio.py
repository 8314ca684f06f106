"""Neighbours that hear: vocoders, separators, recognisers, spectra there and back."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class _Resonance(nn.Module):
    def __init__(self, width: int, k: int) -> None:
        super().__init__()
        self.a = nn.ModuleList(
            weight_norm(nn.Conv1d(width, width, k, dilation=d, padding=d * (k - 1) // 2))
            for d in (1, 3, 5)
        )
        self.b = nn.ModuleList(
            weight_norm(nn.Conv1d(width, width, k, padding=(k - 1) // 2)) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for a, b in zip(self.a, self.b, strict=True):
            y = a(F.leaky_relu(x, 0.1))
            x = b(F.leaky_relu(y, 0.1)) + x
        return x


class _HifiGan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pre = weight_norm(nn.Conv1d(80, 128, 7, 1, 3))
        self.ups = nn.ModuleList([weight_norm(nn.ConvTranspose1d(128, 64, 16, 8, 4)),
                                  weight_norm(nn.ConvTranspose1d(64, 32, 16, 8, 4)),
                                  weight_norm(nn.ConvTranspose1d(32, 16, 4, 2, 1))])  # fmt: skip
        self.blocks = nn.ModuleList(_Resonance(w, k) for w in (64, 32, 16) for k in (3, 7, 11))
        self.post = weight_norm(nn.Conv1d(16, 1, 7, 1, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pre(x)
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            xs = None
            for j in range(3):
                y = self.blocks[i * 3 + j](x)
                xs = y if xs is None else xs + y
            x = xs / 3
        return torch.tanh(self.post(F.leaky_relu(x)))


@model("hifi-gan with weight norm")
def hifigan(batch: int = 1) -> Case:
    return _HifiGan(), (torch.randn(batch, 80, 24),)


class _Demucs(nn.Module):
    """Strided convolutions with gates, a recurrent layer both ways, and back up with skips."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        a, h = 2, width
        for i in range(depth):
            self.encoder.append(nn.Sequential(nn.Conv1d(a, h, 8, 4), nn.ReLU(),
                                              nn.Conv1d(h, 2 * h, 1), nn.GLU(1)))  # fmt: skip
            last: list[nn.Module] = [nn.ReLU()] if i else []
            self.decoder.insert(0, nn.Sequential(
                nn.Conv1d(h, 2 * h, 3, 1, 1), nn.GLU(1),
                nn.ConvTranspose1d(h, 8 if i == 0 else a, 8, 4), *last))  # fmt: skip
            a, h = h, h * 2
        self.lstm = nn.LSTM(a, a, 2, bidirectional=True)
        self.linear = nn.Linear(2 * a, a)

    def forward(self, mix: torch.Tensor) -> torch.Tensor:
        mono = mix.mean(1, keepdim=True)
        std, mean = mono.std(-1, keepdim=True), mono.mean(-1, keepdim=True)
        x = (mix - mean) / (1e-5 + std)
        saved = []
        for e in self.encoder:
            x = e(x)
            saved.append(x)
        y, _ = self.lstm(x.permute(2, 0, 1))
        x = self.linear(y).permute(1, 2, 0)
        for d in self.decoder:
            skip = saved.pop(-1)
            n = min(skip.shape[-1], x.shape[-1])
            x = d(x[..., :n] + skip[..., :n])
        x = x * std + mean
        return x.view(x.size(0), 4, 2, x.size(-1))


@model("demucs")
def demucs(batch: int = 1) -> Case:
    return _Demucs(16, 4), (torch.randn(batch, 2, 16128),)


class _Enhancer(nn.Module):
    """A mask over a complex spectrum by recurrent cells, and the sound again."""

    def __init__(self, n: int, hop: int) -> None:
        super().__init__()
        self.n, self.hop, bins = n, hop, n // 2 + 1
        self.register_buffer("window", torch.hann_window(n))
        self.gru = nn.GRU(bins, 128, batch_first=True)
        self.mask = nn.Linear(128, 2 * bins)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spec = torch.stft(x, self.n, self.hop, window=self.window, return_complex=True)
        mag = torch.log1p(spec.abs()).transpose(1, 2)
        h, _ = self.gru(mag)
        re, im = torch.tanh(self.mask(h)).transpose(1, 2).chunk(2, 1)
        clean = spec * torch.complex(re, im)
        return torch.istft(clean, self.n, self.hop, window=self.window, length=x.shape[-1]), (
            torch.angle(clean)
        )


@model("speech enhancement by complex masks")
def enhancer(batch: int = 2) -> Case:
    return _Enhancer(512, 128), (torch.randn(batch, 16000),)


@model("wav2letter")
def wav2letter(batch: int = 2) -> Case:
    layers: list[nn.Module] = [nn.Conv1d(40, 128, 48, 2, 23), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv1d(128, 128, 7, 1, 3), nn.ReLU(inplace=True)]
    layers += [nn.Conv1d(128, 512, 32, 1, 16), nn.ReLU(), nn.Conv1d(512, 30, 1), nn.LogSoftmax(1)]
    return nn.Sequential(*layers), (torch.randn(batch, 40, 300),)


class _RelativeHeads(nn.Module):
    """Attention whose keys know how far they are, by the shift of Transformer-XL."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.h, self.d = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.pos = nn.Linear(width, width, bias=False)
        self.u, self.w = (nn.Parameter(torch.randn(heads, self.d) * 0.1) for _ in range(2))

    def forward(self, x: torch.Tensor, p: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.h, self.d)
        k = self.k(x).view(b, t, self.h, self.d).transpose(1, 2)
        v = self.v(x).view(b, t, self.h, self.d).transpose(1, 2)
        p = self.pos(p).view(p.size(0), -1, self.h, self.d).transpose(1, 2)
        ac = torch.matmul((q + self.u).transpose(1, 2), k.transpose(-2, -1))
        bd = torch.matmul((q + self.w).transpose(1, 2), p.transpose(-2, -1))
        zero = torch.zeros((*bd.shape[:3], 1), device=bd.device, dtype=bd.dtype)
        bd = torch.cat([zero, bd], -1).view(b, self.h, bd.shape[-1] + 1, t)
        bd = bd[:, :, 1:].view(b, self.h, t, -1)[..., :t]
        scores = (ac + bd) / math.sqrt(self.d)
        low = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(mask[:, None, None, :] == 0, low)
        attn = torch.softmax(scores, -1).masked_fill(mask[:, None, None, :] == 0, 0.0)
        return self.o((attn @ v).transpose(1, 2).contiguous().view(b, t, -1))


class _ConformerLayer(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.ff1, self.ff2 = (
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            for _ in range(2)
        )
        self.norm_a, self.norm_c, self.norm_o = (nn.LayerNorm(d) for _ in range(3))
        self.attention = _RelativeHeads(d, 4)
        self.pw1, self.pw2 = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
        self.dw, self.bn = nn.Conv1d(d, d, 31, padding=15, groups=d), nn.BatchNorm1d(d)

    def forward(self, x: torch.Tensor, p: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.ff1(x)
        x = x + self.attention(self.norm_a(x), p, mask)
        y = F.glu(self.pw1(self.norm_c(x).transpose(1, 2)), 1)
        y = y.masked_fill(~mask[:, None, :], 0.0)
        x = x + self.pw2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)
        return self.norm_o(x + 0.5 * self.ff2(x))


class _Conformer(nn.Module):
    def __init__(self, d: int, layers: int) -> None:
        super().__init__()
        self.sub = nn.Sequential(
            nn.Conv2d(1, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 2), nn.ReLU()
        )
        self.inp = nn.Linear(32 * 19, d)
        self.layers = nn.ModuleList(_ConformerLayer(d) for _ in range(layers))
        self.ctc, self.d = nn.Linear(d, 128), d

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.sub(x.unsqueeze(1))
        b, c, t, f = x.size()
        x = self.inp(x.transpose(1, 2).contiguous().view(b, t, c * f)) * math.sqrt(self.d)
        lengths = ((lengths - 1) // 2 - 1) // 2
        mask = torch.arange(t, device=x.device)[None] < lengths[:, None]
        at = torch.arange(t - 1, -t, -1.0)
        rate = torch.exp(torch.arange(0, self.d, 2) * -(math.log(10000.0) / self.d))
        pe = torch.zeros(2 * t - 1, self.d)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(at[:, None] * rate), torch.cos(at[:, None] * rate)
        for layer in self.layers:
            x = layer(x, pe[None], mask)
        return {"logits": F.log_softmax(self.ctc(x), -1), "lengths": lengths}


@model("conformer recogniser")
def conformer(batch: int = 2) -> Case:
    return _Conformer(144, 3), (torch.randn(batch, 240, 80), torch.tensor([240, 180][:batch]))


class _MelAugment(nn.Module):
    """Waves to log-mel frames by a filter bank, deltas, normalised a speaker."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hamming_window(400, periodic=False))
        self.register_buffer("bank", torch.rand(257, 80) * (torch.rand(257, 80) > 0.9))
        self.register_buffer("dct", torch.randn(80, 40) / 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
        frames = x.unfold(-1, 400, 160)
        frames = (frames - frames.mean(-1, keepdim=True)) * self.window
        power = torch.fft.rfft(F.pad(frames, (0, 112))).abs().pow(2)
        mel = torch.log(torch.clamp(power @ self.bank, min=1e-6))
        mfcc = mel @ self.dct
        pad = F.pad(mfcc.transpose(1, 2), (2, 2), mode="replicate")
        delta = (pad[..., 3:-1] - pad[..., 1:-3] + 2 * (pad[..., 4:] - pad[..., :-4])) / 10
        y = torch.cat([mfcc.transpose(1, 2), delta], 1)
        return (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5)


@model("mfcc with deltas")
def mfcc(batch: int = 8) -> Case:
    return _MelAugment(), (torch.randn(batch, 16000),)


class _Ecapa(nn.Module):
    """Speaker vectors: split channels convolved one after the other, statistics by attention."""

    def __init__(self, c: int, scale: int) -> None:
        super().__init__()
        self.scale, w = scale, c // scale
        self.first = nn.Conv1d(80, c, 5, padding=2)
        self.parts = nn.ModuleList(
            nn.Conv1d(w, w, 3, padding=2, dilation=2) for _ in range(scale - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm1d(w) for _ in range(scale - 1))
        self.se = nn.Sequential(nn.Conv1d(c, 64, 1), nn.ReLU(), nn.Conv1d(64, c, 1), nn.Sigmoid())
        self.att = nn.Sequential(nn.Conv1d(3 * c, 64, 1), nn.Tanh(), nn.Conv1d(64, c, 1))
        self.fc = nn.Linear(2 * c, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        spx = torch.split(x, x.shape[1] // self.scale, 1)
        sp, out = spx[0], []
        for i in range(self.scale - 1):
            sp = self.bns[i](F.relu(self.parts[i](sp if i == 0 else sp + spx[i])))
            out.append(sp)
        y = torch.cat([*out, spx[-1]], 1)
        y = y * self.se(y.mean(2, keepdim=True)) + x
        t = y.size(-1)
        both = torch.cat(
            [
                y,
                y.mean(2, keepdim=True).repeat(1, 1, t),
                y.var(2, keepdim=True).clamp(min=1e-4).sqrt().repeat(1, 1, t),
            ],
            1,
        )
        w = torch.softmax(self.att(both), 2)
        mu = (y * w).sum(2)
        sg = ((y**2 * w).sum(2) - mu**2).clamp(min=1e-4).sqrt()
        return F.normalize(self.fc(torch.cat([mu, sg], 1)))


@model("ecapa speaker vectors")
def ecapa(batch: int = 4) -> Case:
    return _Ecapa(256, 8), (torch.randn(batch, 80, 200),)
