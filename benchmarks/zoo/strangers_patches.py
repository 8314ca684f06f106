"""Strangers that cut images into patches, grids and masks, and videos."""

from __future__ import annotations

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Masked(nn.Module):
    """A masked autoencoder: patches shuffled by a sort, some left out, put back by a gather."""

    def __init__(self, width: int, layers: int, keep: int) -> None:
        super().__init__()
        self.keep = keep
        self.embed = nn.Conv2d(3, width, 8, 8)
        self.place = nn.Parameter(torch.randn(1, 65, width) * 0.02)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.hidden = nn.Parameter(torch.zeros(1, 1, width))

        def blocks(n: int) -> nn.TransformerEncoder:
            layer = nn.TransformerEncoderLayer(
                width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            return nn.TransformerEncoder(layer, n, enable_nested_tensor=False)

        self.encoder, self.decoder = blocks(layers), blocks(1)
        self.out = nn.Linear(width, 8 * 8 * 3)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        b = x.shape[0]
        target = x.reshape(b, 3, 8, 8, 8, 8)
        target = torch.einsum("nchpwq->nhwpqc", target).reshape(b, 64, -1)
        h = self.embed(x).flatten(2).transpose(1, 2) + self.place[:, 1:]
        order = torch.argsort(noise, 1)
        back = torch.argsort(order, 1)
        kept = order[:, : self.keep]
        h = torch.gather(h, 1, kept.unsqueeze(-1).repeat(1, 1, h.shape[-1]))
        mask = torch.ones(b, 64)
        mask[:, : self.keep] = 0
        mask = torch.gather(mask, 1, back)
        h = self.encoder(torch.cat([(self.first + self.place[:, :1]).expand(b, -1, -1), h], 1))
        fill = self.hidden.repeat(b, 64 + 1 - h.shape[1], 1)
        rest = torch.cat([h[:, 1:], fill], 1)
        rest = torch.gather(rest, 1, back.unsqueeze(-1).repeat(1, 1, h.shape[2]))
        h = self.decoder(torch.cat([h[:, :1], rest], 1) + self.place)
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        target = (target - mean) / (var + 1e-6) ** 0.5
        loss = ((self.out(h[:, 1:]) - target) ** 2).mean(-1)
        return (loss * mask).sum() / mask.sum()


@model("masked autoencoder", trained=True)
def masked(batch: int = 4) -> Case:
    return _Masked(128, 3, 16), (torch.randn(batch, 3, 64, 64), torch.rand(batch, 64))


class _FramesAhead(nn.Module):
    """A recurrent network of images: convolved gates over frames (ConvLSTM)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.gates = nn.Conv2d(1 + width, 4 * width, 5, padding=2)
        self.peep = nn.ParameterList(torch.randn(width, 32, 32) * 0.1 for _ in range(3))
        self.out = nn.Conv3d(width, 1, (3, 3, 3), padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _, height, width = x.shape
        h = torch.zeros(b, self.width, height, width)
        c = torch.zeros(b, self.width, height, width)
        outs = []
        for i in range(t):
            z = self.gates(torch.cat((x[:, i], h), 1))
            a, f, o, g = torch.split(z, self.width, 1)
            a = torch.sigmoid(a + self.peep[0] * c)
            f = torch.sigmoid(f + self.peep[1] * c)
            c = f * c + a * torch.tanh(g)
            h = torch.sigmoid(o + self.peep[2] * c) * torch.tanh(c)
            outs.append(h)
        return torch.sigmoid(self.out(torch.stack(outs, 2)))


@model("convolutional lstm", trained=True)
def frames_ahead(batch: int = 1) -> Case:
    return _FramesAhead(16), (torch.rand(batch, 8, 1, 32, 32),)


class _Video(nn.Module):
    """Space and time convolved apart, with strides that do not divide the sizes."""

    def __init__(self) -> None:
        super().__init__()

        def part(a: int, m: int, b: int, stride: int) -> nn.Sequential:
            space, time = (1, stride, stride), (stride, 1, 1)
            return nn.Sequential(
                nn.Conv3d(a, m, (1, 3, 3), space, (0, 1, 1), bias=False), nn.BatchNorm3d(m),
                nn.ReLU(inplace=True),
                nn.Conv3d(m, b, (3, 1, 1), time, (1, 0, 0), bias=False), nn.BatchNorm3d(b),
                nn.ReLU(inplace=True),
            )  # fmt: skip

        self.body = nn.Sequential(
            nn.Conv3d(3, 24, (1, 7, 7), (1, 3, 3), (0, 3, 3)), nn.MaxPool3d((1, 3, 3), (1, 2, 2)),
            part(24, 40, 32, 1), part(32, 56, 48, 2), part(48, 72, 64, 2),
        )  # fmt: skip
        self.out = nn.Linear(64, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.body(x).mean((2, 3, 4)))


@model("video in space and time", trained=True)
def video(batch: int = 2) -> Case:
    return _Video(), (torch.randn(batch, 3, 8, 88, 88),)


class _DeformableAttention(nn.Module):
    """Each query looks at a few places of several maps, sampled between pixels."""

    def __init__(self, width: int, heads: int, points: int, sizes: list[int]) -> None:
        super().__init__()
        self.heads, self.points, self.sizes = heads, points, sizes
        n = heads * len(sizes) * points
        self.moves, self.weights = nn.Linear(width, 2 * n), nn.Linear(width, n)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, q: torch.Tensor, maps: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        b, n, c = q.shape
        levels, depth = len(self.sizes), c // self.heads
        value = self.value(maps).view(b, -1, self.heads, depth)
        moves = self.moves(q).view(b, n, self.heads, levels, self.points, 2)
        weights = self.weights(q).view(b, n, self.heads, -1).softmax(-1)
        size = torch.tensor(self.sizes, dtype=q.dtype)[None, None, None, :, None, None]
        grids = 2 * (at[:, :, None, None, None] + moves / size) - 1
        found = []
        for level, part in enumerate(value.split([s * s for s in self.sizes], 1)):
            s = self.sizes[level]
            image = part.flatten(2).transpose(1, 2).reshape(b * self.heads, depth, s, s)
            grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
            found.append(
                F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros",
                              align_corners=False)
            )  # fmt: skip
        weights = weights.transpose(1, 2).reshape(b * self.heads, 1, n, levels * self.points)
        y = (torch.stack(found, -2).flatten(-2) * weights).sum(-1).view(b, c, n)
        return self.norm(q + self.out(y.transpose(1, 2).contiguous()))


@model("deformable attention", trained=True)
def deformable(batch: int = 2) -> Case:
    sizes = [32, 16, 8]
    maps = torch.randn(batch, sum(s * s for s in sizes), 128)
    return (
        _DeformableAttention(128, 8, 4, sizes),
        (torch.randn(batch, 200, 128), maps, torch.rand(batch, 200, 2)),
    )


class _PixelCnn(nn.Module):
    """Pixels one after the other: filters masked in every call, gated, in two directions."""

    mask: torch.Tensor

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 7, padding=3)
        self.layers = nn.ModuleList(
            nn.Conv2d(width, 2 * width, 5, padding=2) for _ in range(layers)
        )
        self.joins = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.out = nn.Conv2d(width, 32, 1)

    @staticmethod
    def seen(layer: nn.Conv2d, itself: bool) -> torch.Tensor:
        mask = torch.ones_like(layer.weight)
        k = layer.kernel_size[0]
        mask[:, :, k // 2, k // 2 + int(itself) :] = 0
        mask[:, :, k // 2 + 1 :] = 0
        return layer.weight * mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, self.seen(self.first, False), self.first.bias, padding=3)
        for layer, join in zip(self.layers, self.joins, strict=True):
            assert isinstance(layer, nn.Conv2d)
            a, b = F.conv2d(x, self.seen(layer, True), layer.bias, padding=2).chunk(2, 1)
            x = x + join(torch.tanh(a) * torch.sigmoid(b))
        return self.out(F.relu(x)).view(x.shape[0], 32, 1, *x.shape[2:])


@model("masked filters (pixelcnn)", trained=True)
def pixel_cnn(batch: int = 4) -> Case:
    return _PixelCnn(32, 4), (torch.rand(batch, 1, 28, 28),)


class _Halo(nn.Module):
    """Blocks that attend to themselves and a border, cut by nn.Unfold."""

    def __init__(self, width: int, heads: int, block: int, halo: int) -> None:
        super().__init__()
        self.heads, self.block, self.halo = heads, block, halo
        self.q, self.kv = nn.Conv2d(width, width, 1), nn.Conv2d(width, 2 * width, 1)
        self.cut = nn.Unfold(block + 2 * halo, stride=block, padding=halo)
        self.bias = nn.Parameter(torch.randn(heads, block**2, (block + 2 * halo) ** 2) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        n, s = self.block, self.block + 2 * self.halo
        d = c // self.heads
        q = self.q(x).view(b, self.heads, d, h // n, n, w // n, n)
        q = q.permute(0, 1, 3, 5, 4, 6, 2).reshape(b, self.heads, -1, n * n, d)
        kv = self.cut(self.kv(x)).view(b, 2, self.heads, d, s * s, -1)
        k, v = kv.permute(1, 0, 2, 5, 4, 3)
        score = q @ k.transpose(-1, -2) * d**-0.5 + self.bias[:, None]
        y = score.softmax(-1) @ v
        y = y.view(b, self.heads, h // n, w // n, n, n, d).permute(0, 1, 6, 2, 4, 3, 5)
        return x + y.reshape(b, c, h, w)


@model("blocks with a halo", trained=True)
def halo(batch: int = 2) -> Case:
    return nn.Sequential(_Halo(64, 4, 8, 3), _Halo(64, 4, 8, 3)), (torch.randn(batch, 64, 48, 48),)


class _Splats(nn.Module):
    """Blobs drawn in order of depth: covariances, a running product of what shines through."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.place, self.size = (
            nn.Parameter(torch.rand(count, 2)),
            nn.Parameter(torch.rand(count, 2)),
        )
        self.turn, self.depth = nn.Parameter(torch.rand(count)), nn.Parameter(torch.rand(count))
        self.colour, self.alpha = (
            nn.Parameter(torch.rand(count, 3)),
            nn.Parameter(torch.rand(count)),
        )

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(self.depth)
        c, s = torch.cos(self.turn), torch.sin(self.turn)
        turn = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
        wide = turn @ torch.diag_embed(torch.exp(self.size - 3))
        inverse = torch.linalg.inv(wide @ wide.transpose(-1, -2) + 1e-4 * torch.eye(2))[order]
        d = at[:, None] - self.place[order]
        power = -0.5 * torch.einsum("pnd,nde,pne->pn", d, inverse, d)
        alpha = (torch.sigmoid(self.alpha)[order] * torch.exp(power)).clamp(max=0.99)
        through = torch.cumprod(1 - alpha + 1e-10, -1)
        through = torch.cat([torch.ones_like(through[:, :1]), through[:, :-1]], -1)
        return torch.einsum("pn,nc->pc", alpha * through, torch.sigmoid(self.colour[order]))


@model("gaussian splats", trained=True)
def splats(batch: int = 32) -> Case:
    y, x = torch.meshgrid(torch.linspace(0, 1, batch), torch.linspace(0, 1, batch), indexing="ij")
    return _Splats(200), (torch.stack([x, y], -1).view(-1, 2),)


class _FakeQuant(nn.Module):
    """Training that knows of int8: weights and activations rounded, gradients passed on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, 3, s, 1) for a, b, s in ((3, 32, 1), (32, 64, 2), (64, 64, 1))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for c in (32, 64, 64))
        self.register_buffer("ranges", torch.ones(3))
        self.out = nn.Linear(64, 10)

    @staticmethod
    def rounded(x: torch.Tensor, scale: torch.Tensor, low: int, high: int) -> torch.Tensor:
        q = torch.clamp(torch.round(x / scale), low, high) * scale
        return x + (q - x).detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, (conv, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            assert isinstance(conv, nn.Conv2d)
            w = conv.weight
            scale = w.detach().abs().amax((1, 2, 3), keepdim=True) / 127
            x = F.conv2d(x, self.rounded(w, scale, -128, 127), conv.bias, conv.stride, 1)
            x = F.relu6(norm(x))
            top = x.detach().max()
            if self.training:
                with torch.no_grad():
                    self.ranges[i].mul_(0.99).add_(0.01 * top)  # type: ignore[operator,index]  # a buffer
            x = self.rounded(x, top / 255, 0, 255)
        return self.out(x.mean((2, 3)))


@model("fake quantisation", trained=True)
def fake_quant(batch: int = 8) -> Case:
    return _FakeQuant(), (torch.randn(batch, 3, 32, 32),)
