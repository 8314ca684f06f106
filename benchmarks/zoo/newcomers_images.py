"""Newcomers of images, sounds and sets: written first, measured afterwards."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Timed(nn.Module):
    """A residual block that hears of the time by scale and shift."""

    def __init__(self, given: int, width: int, time: int) -> None:
        super().__init__()
        self.before, self.after = nn.GroupNorm(8, given), nn.GroupNorm(8, width)
        self.first = nn.Conv2d(given, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(time, 2 * width)
        self.skip = nn.Conv2d(given, width, 1) if given != width else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        y = self.first(F.silu(self.before(x)))
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
        y = self.after(y) * (1 + scale) + shift
        return self.skip(x) + self.second(F.silu(y))


class _Denoiser(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        time = 4 * width
        self.width, self.first = width, nn.Conv2d(3, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.one, self.two = _Timed(width, width, time), _Timed(width, 2 * width, time)
        self.middle = _Timed(2 * width, 2 * width, time)
        self.norm, self.qkv = nn.GroupNorm(8, 2 * width), nn.Conv2d(2 * width, 6 * width, 1)
        self.join = nn.Conv2d(2 * width, 2 * width, 1)
        self.three, self.four = _Timed(4 * width, width, time), _Timed(2 * width, width, time)
        self.down = nn.ModuleList(nn.Conv2d(c, c, 3, 2, 1) for c in (width, 2 * width))
        self.out = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, 1, 1))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, c, h * w).unbind(1)
        score = torch.softmax(torch.einsum("bci,bcj->bij", q, k) / math.sqrt(c), -1)
        return x + self.join(torch.einsum("bij,bcj->bci", score, v).view(b, c, h, w))

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(torch.arange(self.width // 2) * (-math.log(1e4) / (self.width // 2)))
        waves = steps[:, None].float() * rates
        t = self.time(torch.cat([waves.sin(), waves.cos()], -1))
        one = self.one(self.first(x), t)
        two = self.two(self.down[0](one), t)
        y = self.attend(self.middle(self.down[1](two), t))
        y = self.three(torch.cat([F.interpolate(y, scale_factor=2), two], 1), t)
        y = self.four(torch.cat([F.interpolate(y, scale_factor=2), one], 1), t)
        return self.out(y)


@model("diffusion u-net of images", trained=True)
def denoiser(batch: int = 2) -> Case:
    return _Denoiser(32), (torch.randn(batch, 3, 32, 32), torch.randint(0, 1000, (batch,)))


class _Detected(nn.Module):
    """A head without anchors: boxes from distances, and of those that overlap the best one."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(),
        )  # fmt: skip
        self.score, self.sides = (nn.Conv2d(width, c, 3, padding=1) for c in (classes, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.tower(x)
        h, w = x.shape[-2:]
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centre = torch.stack([columns, rows], -1).reshape(-1, 2).float() * 8 + 4
        sides = self.sides(y).flatten(2).transpose(1, 2).exp() * 8
        boxes = torch.cat([centre - sides[..., :2], centre + sides[..., 2:]], -1)
        score, label = torch.sigmoid(self.score(y)).flatten(2).max(1)
        score, best = score.topk(50, -1)
        boxes = boxes.gather(1, best.unsqueeze(-1).expand(-1, -1, 4))
        apart = boxes + label.gather(1, best).unsqueeze(-1) * 4096
        low = torch.maximum(apart[:, :, None, :2], apart[:, None, :, :2])
        high = torch.minimum(apart[:, :, None, 2:], apart[:, None, :, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        area = (apart[..., 2:] - apart[..., :2]).prod(-1)
        alike = shared / (area[:, :, None] + area[:, None] - shared) > 0.5
        kept = torch.ones_like(score, dtype=torch.bool)
        later = torch.arange(50)
        for i in range(50):
            kept = kept & ~(alike[:, i] & (later > i) & kept[:, i : i + 1])
        return boxes, score * kept


@model("detector that suppresses")
def detected(batch: int = 2) -> Case:
    return _Detected(64, 20), (torch.randn(batch, 64, 32, 32),)


class _Listener(nn.Module):
    """Sounds: a windowed transform, mel bands, their logarithm, a small network over images."""

    window: torch.Tensor
    bands: torch.Tensor

    def __init__(self, size: int, bands: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size))
        edges = 700 * (10 ** (torch.linspace(0, 2840, bands + 2) / 2595) - 1)
        at, low = torch.linspace(0, 8000, size // 2 + 1)[:, None], edges[:-2]
        up, down = (at - low) / (edges[1:-1] - low), (edges[2:] - at) / (edges[2:] - edges[1:-1])
        self.register_buffer("bands", torch.minimum(up, down).clamp(min=0))
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1),
            nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        )  # fmt: skip
        self.out = nn.Linear(64, 35)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        seen = torch.stft(sound, self.size, 160, window=self.window, return_complex=True)
        power = seen.real.square() + seen.imag.square()
        image = torch.log(power.transpose(1, 2) @ self.bands + 1e-6).unsqueeze(1)
        image = (image - image.mean((2, 3), keepdim=True)) / (
            image.std((2, 3), keepdim=True) + 1e-5
        )
        return self.out(self.net(image).mean((2, 3)))


@model("sounds by mel bands", trained=True)
def listener(batch: int = 4) -> Case:
    return _Listener(400, 64), (torch.randn(batch, 16000),)


class _Slots(nn.Module):
    """Slots that compete for pixels, in three rounds of a recurrent cell."""

    def __init__(self, slots: int, width: int) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 5, 2, 2),
            nn.ReLU(),
        )
        self.places, self.start = nn.Linear(4, width), nn.Parameter(torch.randn(slots, width))
        self.k, self.v, self.q = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.cell = nn.GRUCell(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.encode(x).permute(0, 2, 3, 1)
        b, h, w, c = y.shape
        line = [torch.linspace(0, 1, n) for n in (h, w)]
        grid = torch.stack(torch.meshgrid(*line, indexing="ij"), -1)
        y = self.norms[0]((y + self.places(torch.cat([grid, 1 - grid], -1))).reshape(b, h * w, c))
        k, v = self.k(y) * c**-0.5, self.v(y)
        slots = self.start.expand(b, -1, -1)
        for _ in range(3):
            q = self.q(self.norms[1](slots))
            shares = torch.softmax(torch.einsum("bnc,bsc->bns", k, q), -1) + 1e-8
            shares = shares / shares.sum(1, keepdim=True)
            seen = torch.einsum("bns,bnc->bsc", shares, v)
            slots = self.cell(seen.reshape(-1, c), slots.reshape(-1, c)).view(b, -1, c)
            slots = slots + self.feed(self.norms[2](slots))
        return slots


@model("slots", trained=True)
def slots(batch: int = 4) -> Case:
    return _Slots(7, 64), (torch.randn(batch, 3, 32, 32),)


class _Automaton(nn.Module):
    """Cells that see their neighbours' slopes and change by a small network, again and again."""

    slopes: torch.Tensor

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.width, self.steps = width, steps
        across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
        here = torch.zeros(3, 3)
        here[1, 1] = 1
        slopes = torch.stack([here, across, across.T])[:, None].repeat(width, 1, 1, 1)
        self.register_buffer("slopes", slopes)
        self.first, self.second = nn.Conv2d(3 * width, 64, 1), nn.Conv2d(64, width, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            alive = F.max_pool2d(x[:, 3:4], 3, 1, 1) > 0.1
            seen = F.conv2d(F.pad(x, (1, 1, 1, 1), "circular"), self.slopes, groups=self.width)
            x = x + self.second(F.relu(self.first(seen)))
            x = x * (alive & (F.max_pool2d(x[:, 3:4], 3, 1, 1) > 0.1)).float()
        return x


@model("cellular automaton", trained=True)
def automaton(batch: int = 2) -> Case:
    return _Automaton(16, 8), (torch.rand(batch, 16, 40, 40),)


class _Flow(nn.Module):
    """Motion between images: all pairs correlated, looked up around a flow that a cell refines."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.steps, self.reach = steps, 3
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3), nn.InstanceNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, width, 3, 2, 1), nn.InstanceNorm2d(width), nn.ReLU(),
        )  # fmt: skip
        seen = 2 * (2 * self.reach + 1) ** 2 + 2
        self.motion = nn.Conv2d(seen, width, 3, padding=1)
        self.gates = nn.Conv2d(3 * width, 2 * width, 3, padding=1)
        self.new, self.out = nn.Conv2d(3 * width, width, 3, padding=1), nn.Conv2d(width, 2, 3, 1, 1)

    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        a, b = self.net(one), self.net(two)
        n, c, h, w = a.shape
        pairs = torch.einsum("nci,ncj->nij", a.flatten(2), b.flatten(2)) / math.sqrt(c)
        levels = [pairs.view(n * h * w, 1, h, w)]
        levels.append(F.avg_pool2d(levels[0], 2, 2))
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        here = torch.stack([columns, rows]).float()[None].repeat(n, 1, 1, 1)
        line = torch.arange(-self.reach, self.reach + 1.0)
        around = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)[None]
        at, state = here, torch.tanh(a)
        for _ in range(self.steps):
            at = at.detach()
            found = []
            for i, level in enumerate(levels):
                size = torch.tensor([level.shape[-1] - 1.0, level.shape[-2] - 1.0])
                place = at.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) / 2**i + around
                seen = F.grid_sample(level, 2 * place / size - 1, align_corners=True)
                found.append(seen.view(n, h, w, -1).permute(0, 3, 1, 2))
            moved = F.relu(self.motion(torch.cat([*found, at - here], 1)))
            both = torch.cat([state, moved, F.relu(a)], 1)
            keep, reset = torch.sigmoid(self.gates(both)).chunk(2, 1)
            new = torch.tanh(self.new(torch.cat([reset * state, moved, F.relu(a)], 1)))
            state = (1 - keep) * state + keep * new
            at = at + self.out(state)
        return F.interpolate(at - here, scale_factor=4, mode="bilinear", align_corners=True) * 4


@model("optical flow", trained=True)
def flow(batch: int = 1) -> Case:
    return _Flow(32, 3), (torch.randn(batch, 3, 48, 64), torch.randn(batch, 3, 48, 64))


class _Cardinal(nn.Module):
    """Bottlenecks whose middle convolution has many narrow groups (ResNeXt)."""

    def __init__(self, width: int, groups: int, blocks: int) -> None:
        super().__init__()

        def layer(a: int, b: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
            conv = nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(b), nn.ReLU())

        self.first = layer(3, width, 3, 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                layer(width, width, 1), layer(width, width, 3, groups=groups),
                layer(width, width, 1),
            )
            for _ in range(blocks)
        )  # fmt: skip
        self.shrink, self.out = layer(width, width, 3, 2, groups), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(self.shrink(x).mean((2, 3)))


@model("resnext", trained=True)
def cardinal(batch: int = 4) -> Case:
    return _Cardinal(128, 32, 3), (torch.randn(batch, 3, 32, 32),)
