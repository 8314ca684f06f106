"""Models of sound: codecs with residual codebooks, synthesisers, separators, filters that are
learned, phases that are found again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


# ----------------------------------------------------------------------------------- neural codec
class _CausalConv(nn.Module):
    def __init__(self, cin: int, cout: int, k: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(cin, cout, k, stride, dilation=dilation))
        self.k, self.stride = (k - 1) * dilation + 1, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pad = self.k - self.stride
        frames = (x.shape[-1] - self.k + pad) / self.stride + 1
        extra = (math.ceil(frames) - 1) * self.stride + self.k - pad - x.shape[-1]
        return self.conv(F.pad(x, (pad, extra), mode="reflect"))


class _SeanetBlock(nn.Module):
    def __init__(self, d: int, dilation: int) -> None:
        super().__init__()
        self.a, self.b = _CausalConv(d, d // 2, 3, dilation=dilation), _CausalConv(d // 2, d, 1)
        self.skip = _CausalConv(d, d, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.skip(x) + self.b(F.elu(self.a(F.elu(x))))


class _ResidualVQ(nn.Module):
    def __init__(self, d: int, books: int, size: int) -> None:
        super().__init__()
        self.books = nn.ParameterList(nn.Parameter(torch.randn(size, d)) for _ in range(books))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        residual, total, codes, loss = x.transpose(1, 2), 0.0, [], x.new_zeros(())
        for book in self.books:
            dist = (
                residual.pow(2).sum(-1, keepdim=True)
                - 2 * residual @ book.t()
                + book.pow(2).sum(-1)
            )
            code = dist.argmin(-1)
            q = F.embedding(code, book)
            loss = loss + F.mse_loss(residual, q.detach())
            q = residual + (q - residual).detach()
            residual = residual - q.detach()
            total = total + q
            codes.append(code)
        return total.transpose(1, 2), torch.stack(codes), loss


class _LstmSkip(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d, d, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x.permute(2, 0, 1))
        return y.permute(1, 2, 0) + x


class _Codec(nn.Module):
    def __init__(self, d: int, ratios: tuple[int, ...], books: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [_CausalConv(1, d, 7)]
        for r in ratios:
            layers += [_SeanetBlock(d, 1), nn.ELU(), _CausalConv(d, 2 * d, 2 * r, r)]
            d *= 2
        self.encoder = nn.Sequential(*layers, _LstmSkip(d), nn.ELU(), _CausalConv(d, 64, 7))
        self.vq = _ResidualVQ(64, books, 256)
        layers = [_CausalConv(64, d, 7), _LstmSkip(d)]
        for r in reversed(ratios):
            layers += [nn.ELU(), weight_norm(nn.ConvTranspose1d(d, d // 2, 2 * r, r, r // 2))]
            d //= 2
            layers += [_SeanetBlock(d, 1)]
        self.decoder = nn.Sequential(*layers, nn.ELU(), _CausalConv(d, 1, 7))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scale = x.mean(1, keepdim=True).pow(2).mean(2, keepdim=True).sqrt() + 1e-8
        q, codes, loss = self.vq(self.encoder(x / scale))
        return self.decoder(q)[..., : x.shape[-1]] * scale, codes, loss


@model("codec of residual codebooks", trained=True)
def codec(batch: int = 1) -> Case:
    return _Codec(16, (2, 4, 4), 8), (torch.randn(batch, 1, 6400),)


# ------------------------------------------------------------------- audio spectrogram transformer
def _mel(bins: int, mels: int, rate: int) -> torch.Tensor:
    top = 2595 * math.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (torch.linspace(0, top, mels + 2) / 2595) - 1)
    freq = torch.linspace(0, rate / 2, bins)
    up = (freq[:, None] - points[:-2]) / (points[1:-1] - points[:-2])
    down = (points[2:] - freq[:, None]) / (points[2:] - points[1:-1])
    return torch.minimum(up, down).clamp(min=0)


class _AST(nn.Module):
    window: torch.Tensor
    fb: torch.Tensor

    def __init__(self, d: int) -> None:
        super().__init__()
        self.register_buffer("window", torch.hamming_window(400, periodic=False))
        self.register_buffer("fb", _mel(257, 64, 16000))
        self.bn = nn.BatchNorm2d(64)
        self.patch = nn.Conv2d(1, d, 16, (10, 10))
        self.cls = nn.Parameter(torch.zeros(1, 2, d))
        self.pos = nn.Parameter(torch.randn(1, 2 + 5 * 18, d) * 0.02)
        layer = nn.TransformerEncoderLayer(
            d, 4, 4 * d, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 50))

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        frames = wave.unfold(-1, 400, 160)
        frames = frames - frames.mean(-1, keepdim=True)
        frames = frames - 0.97 * F.pad(frames, (1, 0), mode="replicate")[..., :-1]
        spec = torch.fft.rfft(frames * self.window, n=512).abs().pow(2)
        mel = torch.log(torch.clamp(spec @ self.fb, min=1.1921e-07))
        x = self.bn(mel.transpose(1, 2).unsqueeze(-1)).permute(0, 3, 1, 2)
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos[:, : x.shape[1] + 2]
        x = self.enc(x)
        return self.head((x[:, 0] + x[:, 1]) / 2)


@model("spectrogram transformer of waves", trained=True)
def ast(batch: int = 2) -> Case:
    return _AST(128), (torch.randn(batch, 31000),)


# -------------------------------------------------------------------------------------- CREPE pitch
class _Crepe(nn.Module):
    cents: torch.Tensor

    def __init__(self, m: int = 4) -> None:
        super().__init__()
        sizes = [(1, 32 * m, 512, 4), (32 * m, 4 * m, 64, 1), (4 * m, 4 * m, 64, 1),
                 (4 * m, 8 * m, 64, 1), (8 * m, 16 * m, 64, 1)]  # fmt: skip
        self.convs = nn.ModuleList(nn.Conv2d(a, b, (k, 1), (s, 1)) for a, b, k, s in sizes)
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(b, eps=0.001, momentum=0.0) for _, b, _, _ in sizes
        )
        self.out = nn.Linear(16 * m * 8, 360)
        self.register_buffer("cents", 20.0 * torch.arange(360) + 1997.38)

    def forward(self, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = (frames - frames.mean(1, keepdim=True)) / frames.std(1, keepdim=True).clamp(min=1e-10)
        x = x[:, None, :, None]
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = F.pad(x, (0, 0, 254, 254) if i == 0 else (0, 0, 31, 32))
            x = F.max_pool2d(norm(F.relu(conv(x))), (2, 1), (2, 1))
        x = torch.sigmoid(self.out(x.permute(0, 2, 1, 3).flatten(1)))
        best = x.argmax(1, keepdim=True)
        near = (torch.arange(360) - best).abs() < 5
        weight = torch.where(near, x, torch.zeros_like(x))
        pitch = (weight * self.cents).sum(1) / weight.sum(1)
        return 10 * 2 ** (pitch / 1200), x.max(1).values


@model("crepe's pitch")
def crepe(batch: int = 8) -> Case:
    return _Crepe(), (torch.randn(batch, 1024),)


# ---------------------------------------------------------------------------------------- DDSP
class _DDSP(nn.Module):
    """Oscillators whose phases are running sums, noise filtered in spectra, losses of spectra."""

    def __init__(self, d: int, harmonics: int, hop: int) -> None:
        super().__init__()
        self.harmonics, self.hop = harmonics, hop
        self.f0, self.loud = (nn.Sequential(nn.Linear(1, d), nn.LayerNorm(d), nn.LeakyReLU())
                              for _ in range(2))  # fmt: skip
        self.gru = nn.GRU(2 * d, d, batch_first=True)
        self.amps, self.bands = nn.Linear(d, harmonics + 1), nn.Linear(d, 65)

    @staticmethod
    def scale(x: torch.Tensor) -> torch.Tensor:
        return 2 * torch.sigmoid(x) ** math.log(10) + 1e-7

    def forward(
        self, pitch: torch.Tensor, loud: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        h, _ = self.gru(torch.cat([self.f0(pitch / 1000), self.loud(loud)], -1))
        p = self.scale(self.amps(h))
        total, amps = p[..., :1], p[..., 1:]
        n = torch.arange(1, self.harmonics + 1)
        amps = amps * (pitch * n < 8000).float() + 1e-4
        amps = amps / amps.sum(-1, keepdim=True) * total
        up = [F.interpolate(t.transpose(1, 2), scale_factor=float(self.hop)).transpose(1, 2)
              for t in (pitch, amps)]  # fmt: skip
        omega = torch.cumsum(2 * math.pi * up[0] / 16000, 1)
        tone = (torch.sin(omega * n) * up[1]).sum(-1)
        size = 2 * (65 - 1)
        bands = self.scale(self.bands(h) - 5)
        impulse = torch.fft.irfft(torch.complex(bands, torch.zeros_like(bands)))
        impulse = torch.roll(impulse, size // 2, -1) * torch.hann_window(size)
        impulse = torch.roll(F.pad(impulse, (0, self.hop - size)), -size // 2, -1)
        a = torch.fft.rfft(F.pad(noise, (0, self.hop)))
        b = torch.fft.rfft(F.pad(impulse, (self.hop, 0)))
        hiss = torch.fft.irfft(a * b)[..., self.hop :].reshape(tone.shape)
        sound = tone + hiss
        loss = sound.new_zeros(())
        for s in (512, 256, 128):
            spec = torch.stft(
                sound, s, s // 4, window=torch.hann_window(s), return_complex=True
            ).abs()
            loss = loss + spec.mean() + torch.log(spec + 1e-7).abs().mean()
        return sound, loss


@model("oscillators and filtered noise", trained=True)
def ddsp(batch: int = 1) -> Case:
    pitch = torch.rand(batch, 40, 1) * 300 + 100
    return _DDSP(64, 32, 160), (pitch, torch.rand(batch, 40, 1), torch.rand(batch, 40, 160) * 2 - 1)


# ----------------------------------------------------------------------------------- Griffin-Lim
class _GriffinLim(nn.Module):
    window: torch.Tensor

    def __init__(self, n: int, hop: int, steps: int) -> None:
        super().__init__()
        self.n, self.hop, self.steps = n, hop, steps
        self.register_buffer("window", torch.hann_window(n))

    def forward(self, spec: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        angle = torch.polar(torch.ones_like(angles), angles)
        before = torch.zeros_like(angle)
        for _ in range(self.steps):
            wave = torch.istft(spec * angle, self.n, self.hop, window=self.window)
            again = torch.stft(wave, self.n, self.hop, window=self.window, return_complex=True)
            angle = again - before * (0.99 / 1.99)
            angle = angle.div(angle.abs().add(1e-16))
            before = again
        return torch.istft(spec * angle, self.n, self.hop, window=self.window)


@model("griffin-lim")
def griffin_lim(batch: int = 1) -> Case:
    return _GriffinLim(512, 128, 6), (
        torch.rand(batch, 257, 80),
        torch.rand(batch, 257, 80) * 6.28,
    )


# -------------------------------------------------------------------------- dual-path separation
class _DualPath(nn.Module):
    def __init__(self, d: int, hidden: int, chunk: int, blocks: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.enc = nn.Conv1d(1, d, 16, 8, bias=False)
        self.norm = nn.GroupNorm(1, d, eps=1e-8)
        self.intra, self.inter = (
            nn.ModuleList(
                nn.LSTM(d, hidden, batch_first=True, bidirectional=True) for _ in range(blocks)
            )
            for _ in range(2)
        )
        self.lin = nn.ModuleList(nn.Linear(2 * hidden, d) for _ in range(2 * blocks))
        self.gn = nn.ModuleList(nn.GroupNorm(1, d) for _ in range(2 * blocks))
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(d, 2 * d, 1))
        self.dec = nn.ConvTranspose1d(d, 1, 16, 8, bias=False)

    def forward(self, mix: torch.Tensor) -> torch.Tensor:
        w = F.relu(self.enc(mix.unsqueeze(1)))
        b, d, n = w.shape
        k, p = self.chunk, self.chunk // 2
        gap = k - (p + n % k) % k
        x = F.pad(self.norm(w), (p, gap + p))
        x = torch.cat([x[..., :-p].reshape(b, d, -1, k), x[..., p:].reshape(b, d, -1, k)], 3)
        x = x.reshape(b, d, -1, k).transpose(2, 3)  # b d k s
        s = x.shape[-1]
        for i, (intra, inter) in enumerate(zip(self.intra, self.inter, strict=True)):
            y = intra(x.permute(0, 3, 2, 1).reshape(b * s, k, d))[0]
            y = self.lin[2 * i](y).view(b, s, k, d).permute(0, 3, 2, 1)
            x = x + self.gn[2 * i](y)
            y = inter(x.permute(0, 2, 3, 1).reshape(b * k, s, d))[0]
            y = self.lin[2 * i + 1](y).view(b, k, s, d).permute(0, 3, 1, 2)
            x = x + self.gn[2 * i + 1](y)
        x = x.transpose(2, 3).reshape(b, d, -1, 2 * k)
        one, two = x[..., :k].reshape(b, d, -1)[..., p:], x[..., k:].reshape(b, d, -1)[..., :-p]
        x = (one + two)[..., :n]
        masks = torch.sigmoid(self.mask(x)).view(b, 2, d, n)
        return self.dec((masks * w[:, None]).flatten(0, 1)).view(b, 2, -1)


class _Permuted(nn.Module):
    """The separator with a loss over permutations of its speakers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, mix: torch.Tensor, clean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        est = self.net(mix)
        est, clean = (t - t.mean(-1, keepdim=True) for t in (est, clean[..., : est.shape[-1]]))
        dot = torch.einsum("bit,bjt->bij", est, clean)
        proj = dot[..., None] * clean[:, None] / (clean.pow(2).sum(-1)[:, None, :, None] + 1e-8)
        noise = est[:, :, None] - proj
        snr = 10 * torch.log10(proj.pow(2).sum(-1) / (noise.pow(2).sum(-1) + 1e-8) + 1e-8)
        pit = torch.stack([snr[:, 0, 0] + snr[:, 1, 1], snr[:, 0, 1] + snr[:, 1, 0]], 1) / 2
        best, order = pit.max(1)
        return best, order


@model("dual-path separation of speakers", trained=True)
def dual_path(batch: int = 1) -> Case:
    return _Permuted(_DualPath(32, 32, 40, 2)), (
        torch.randn(batch, 6416),
        torch.randn(batch, 2, 6416),
    )


# ---------------------------------------------------------------------------------------- SincNet
class _SincConv(nn.Module):
    n_: torch.Tensor
    window_: torch.Tensor

    def __init__(self, out: int, k: int, rate: int = 16000) -> None:
        super().__init__()
        self.k, self.rate = k, rate
        hz = torch.linspace(30, rate / 2 - 150, out + 1)
        self.low_hz_, self.band_hz_ = (
            nn.Parameter(hz[:-1, None]),
            nn.Parameter(torch.diff(hz)[:, None]),
        )
        n = torch.linspace(0, k / 2 - 1, k // 2)
        self.register_buffer("window_", 0.54 - 0.46 * torch.cos(2 * math.pi * n / k))
        self.register_buffer("n_", 2 * math.pi * torch.arange(-(k - 1) / 2, 0).view(1, -1) / rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = 50 + torch.abs(self.low_hz_)
        high = torch.clamp(low + 50 + torch.abs(self.band_hz_), 50, self.rate / 2)
        band = (high - low)[:, 0]
        left = (
            (torch.sin(high @ self.n_) - torch.sin(low @ self.n_)) / (self.n_ / 2)
        ) * self.window_
        full = torch.cat([left, 2 * band.view(-1, 1), torch.flip(left, dims=[1])], 1)
        full = full / (2 * band[:, None])
        return F.conv1d(x, full.view(-1, 1, self.k))


@model("sincnet", trained=True)
def sincnet(batch: int = 4) -> Case:
    net = nn.Sequential(
        _SincConv(40, 251), nn.MaxPool1d(3), nn.InstanceNorm1d(40, affine=True), nn.LeakyReLU(),
        nn.Conv1d(40, 60, 5), nn.MaxPool1d(3), nn.InstanceNorm1d(60, affine=True), nn.LeakyReLU(),
        nn.Conv1d(60, 60, 5), nn.MaxPool1d(3), nn.LeakyReLU(), nn.AdaptiveAvgPool1d(16),
        nn.Flatten(), nn.Linear(960, 256), nn.BatchNorm1d(256), nn.LeakyReLU(), nn.Linear(256, 20),
    )  # fmt: skip
    return net, (torch.randn(batch, 1, 3200),)


# --------------------------------------------------------------------------- broadcasted residuals
class _SubSpectral(nn.Module):
    def __init__(self, c: int, s: int = 5) -> None:
        super().__init__()
        self.s, self.bn = s, nn.BatchNorm2d(c * s)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, f, t = x.shape
        return self.bn(x.view(b, c * self.s, f // self.s, t)).view(b, c, f, t)


class _Broadcasted(nn.Module):
    def __init__(self, c: int, dilation: int) -> None:
        super().__init__()
        self.f2 = nn.Conv2d(c, c, (3, 1), padding=(1, 0), groups=c, bias=False)
        self.ssn = _SubSpectral(c)
        self.f1 = nn.Conv2d(c, c, (1, 3), padding=(0, dilation), dilation=(1, dilation), groups=c)
        self.bn, self.pw = nn.BatchNorm2d(c), nn.Conv2d(c, c, 1, bias=False)
        self.drop = nn.Dropout2d(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aux = self.ssn(self.f2(x))
        y = aux.mean(2, keepdim=True)
        y = self.drop(self.pw(F.silu(self.bn(self.f1(y)))))
        return F.relu(x + y.expand_as(x) + aux)


@model("broadcasted residuals for keywords", trained=True)
def keywords(batch: int = 8) -> Case:
    net = nn.Sequential(
        nn.Conv2d(1, 24, 5, (2, 1), 2), *[_Broadcasted(24, d) for d in (1, 2, 4, 8)],
        nn.Conv2d(24, 24, (5, 5), padding=(0, 2), groups=24), nn.Conv2d(24, 40, 1),
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(40, 12, 1), nn.Flatten(),
    )  # fmt: skip
    return net, (torch.randn(batch, 1, 40, 100),)


# --------------------------------------------------------------------- speech from durations
@dataclass
class Speech:
    """What a synthesiser gives; returned as a dict below, since callers index it by name."""

    mel: torch.Tensor
    durations: torch.Tensor


class _Predictor(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(d, d, 3, padding=1), nn.Conv1d(d, d, 3, padding=1)
        self.n1, self.n2, self.out = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.n1(F.relu(self.c1(x.transpose(1, 2))).transpose(1, 2))
        x = self.n2(F.relu(self.c2(x.transpose(1, 2))).transpose(1, 2))
        return self.out(x).squeeze(-1)


class _FastSpeech(nn.Module):
    def __init__(self, d: int, frames: int) -> None:
        super().__init__()
        self.emb, self.frames = nn.Embedding(80, d, padding_idx=0), frames
        self.enc, self.dec = (
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(d, 2, 2 * d, batch_first=True, dropout=0.0),
                2,
                enable_nested_tensor=False,  # with it, eager gives zeros where export does not
            )
            for _ in range(2)
        )
        self.duration, self.pitch, self.energy = _Predictor(d), _Predictor(d), _Predictor(d)
        self.pe, self.ee = nn.Embedding(64, d), nn.Embedding(64, d)
        self.register_buffer("bins", torch.linspace(-2, 2, 63))
        self.mel = nn.Linear(d, 80)
        self.post = nn.Sequential(nn.Conv1d(80, 128, 5, padding=2), nn.BatchNorm1d(128), nn.Tanh(),
                                  nn.Conv1d(128, 80, 5, padding=2), nn.BatchNorm1d(80))  # fmt: skip

    def forward(self, text: torch.Tensor, speed: float = 1.0) -> dict[str, torch.Tensor]:
        pad = text == 0
        x = self.enc(self.emb(text), src_key_padding_mask=pad)
        log_d = self.duration(x).masked_fill(pad, 0)
        x = x + self.pe(torch.bucketize(self.pitch(x), self.bins))
        x = x + self.ee(torch.bucketize(self.energy(x), self.bins))
        d = torch.clamp(torch.round(torch.exp(log_d) * 4 * speed), min=1).masked_fill(pad, 0)
        end = torch.cumsum(d, 1)
        t = torch.arange(self.frames, device=x.device)
        path = (t[None, :, None] < end[:, None]) & (t[None, :, None] >= (end - d)[:, None])
        y = path.to(x.dtype) @ x
        mel_pad = t >= end[:, -1:]
        mel = self.mel(self.dec(y, src_key_padding_mask=mel_pad))
        mel = mel + self.post(mel.transpose(1, 2)).transpose(1, 2)
        found = Speech(mel.masked_fill(mel_pad[..., None], 0.0), d.long())
        return {"mel": found.mel, "durations": found.durations}


@model("speech from durations")
def fastspeech(batch: int = 2) -> Case:
    text = torch.randint(1, 80, (batch, 40))
    text[0, 30:] = 0
    return _FastSpeech(96, 200), (text,)
