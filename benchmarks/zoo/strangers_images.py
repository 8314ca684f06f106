"""Strangers that work on images: anchors, modulated filters, patches, pools with indices."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


def _block(a: int, b: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.1)
    )


class _Yolo(nn.Module):
    """Three heads with anchors: boxes decoded on a grid, in place, then all in one table."""

    anchors: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_block(3, 16), _block(16, 32, 2), _block(32, 64, 2))
        self.downs = nn.ModuleList([_block(64, 96, 2), _block(96, 128, 2), _block(128, 192, 2)])
        self.heads = nn.ModuleList(nn.Conv2d(c, 3 * (5 + classes), 1) for c in (96, 128, 192))
        self.register_buffer("anchors", torch.rand(3, 3, 2) * 60 + 8)
        self.classes = classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        found = []
        for i, (down, head) in enumerate(zip(self.downs, self.heads, strict=True)):
            x = down(x)
            y = head(x)
            b, _, ny, nx = y.shape
            y = y.view(b, 3, 5 + self.classes, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            gy, gx = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
            grid = torch.stack((gx, gy), 2).view(1, 1, ny, nx, 2).float()
            y = y.sigmoid()
            y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + grid) * (8 * 2**i)
            y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors[i].view(1, 3, 1, 1, 2)
            found.append(y.view(b, -1, 5 + self.classes))
        return torch.cat(found, 1)


@model("yolo heads")
def yolo(batch: int = 1) -> Case:
    return _Yolo(20), (torch.randn(batch, 3, 160, 160),)


def _iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    low, high = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = (a[:, 2:] - a[:, :2]).prod(-1)[:, None] + (b[:, 2:] - b[:, :2]).prod(-1)
    return both / (area - both)


class _Retina(nn.Module):
    """Anchors matched with boxes by overlap; a focal loss and a smooth one by masks."""

    anchors: torch.Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(3, 32, 2), _block(32, 64, 2), _block(64, 64, 2))
        self.tower = nn.Sequential(
            *(m for _ in range(2) for m in (nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU()))
        )
        self.label = nn.Conv2d(64, 9 * classes, 3, 1, 1)
        self.box = nn.Conv2d(64, 9 * 4, 3, 1, 1)
        y, x = torch.meshgrid(torch.arange(16) * 8.0, torch.arange(16) * 8.0, indexing="ij")
        centre = torch.stack([x, y, x, y], -1).view(-1, 1, 4)
        sizes = torch.rand(9, 2) * 30 + 8
        self.register_buffer("anchors", (centre + torch.cat([-sizes, sizes], 1)).view(-1, 4))
        self.classes = classes

    def forward(self, x: torch.Tensor, boxes: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        h = self.tower(self.body(x))
        labels = self.label(h).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes)
        places = self.box(h).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)
        losses = []
        sizes = self.anchors[:, 2:] - self.anchors[:, :2]
        middle = self.anchors[:, :2] + 0.5 * sizes
        for j in range(x.shape[0]):
            overlap, which = _iou(self.anchors, boxes[j]).max(1)
            target = torch.zeros_like(labels[j])
            positive = overlap >= 0.5
            target.scatter_(1, kinds[j][which][:, None], positive.float()[:, None])
            p = torch.sigmoid(labels[j]).clamp(1e-4, 1 - 1e-4)
            alpha = torch.where(target == 1, 0.25, 0.75)
            weight = alpha * torch.where(target == 1, 1 - p, p) ** 2
            focal = weight * -(target * p.log() + (1 - target) * (1 - p).log())
            focal = torch.where((overlap < 0.4)[:, None] | positive[:, None], focal, 0.0)
            count = positive.sum().clamp(min=1)
            own = boxes[j][which]
            wh = (own[:, 2:] - own[:, :2]).clamp(min=1)
            ctr = own[:, :2] + 0.5 * wh
            wanted = torch.cat([(ctr - middle) / sizes, (wh / sizes).log()], 1)
            apart = F.smooth_l1_loss(places[j], wanted, reduction="none", beta=1 / 9)
            losses.append((focal.sum() + (apart * positive[:, None]).sum()) / count)
        return torch.stack(losses).mean()


@model("anchors and focal loss", trained=True)
def retina(batch: int = 2) -> Case:
    low = torch.rand(batch, 12, 2) * 90
    boxes = torch.cat([low, low + torch.rand(batch, 12, 2) * 40 + 4], -1)
    return _Retina(20), (torch.randn(batch, 3, 128, 128), boxes, torch.randint(0, 20, (batch, 12)))


class _Modulated(nn.Module):
    """A filter for each sample (groups are samples), scaled and normalised by its style."""

    def __init__(self, a: int, b: int, style: int, up: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, b, a, 3, 3) / math.sqrt(9 * a))
        self.style, self.up = nn.Linear(style, a), up
        self.bias, self.noise = nn.Parameter(torch.zeros(b)), nn.Parameter(torch.zeros(1))
        line = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("blur", (line[:, None] * line / 64).view(1, 1, 4, 4) * 4)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        b, c, h, _ = x.shape
        weight = self.weight * (self.style(w) + 1).view(b, 1, c, 1, 1)
        weight = weight * torch.rsqrt(weight.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
        if self.up:
            turned = weight.transpose(1, 2).reshape(b * c, -1, 3, 3)
            y = F.conv_transpose2d(x.reshape(1, b * c, h, h), turned, stride=2, groups=b)
            y = y.view(b, -1, 2 * h + 1, 2 * h + 1)
            blur = self.blur.expand(y.shape[1], 1, 4, 4)  # type: ignore[operator]  # a buffer
            y = F.conv2d(F.pad(y, (1, 1, 1, 1)), blur, groups=y.shape[1])
        else:
            y = F.conv2d(x.reshape(1, b * c, h, h), weight.flatten(0, 1), padding=1, groups=b)
            y = y.view(b, -1, h, h)
        y = y + self.bias.view(1, -1, 1, 1)
        return F.leaky_relu(y, 0.2) * math.sqrt(2)


class _Style(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(128, 128), nn.ReLU())))
        self.start = nn.Parameter(torch.randn(1, width, 8, 8))
        self.layers = nn.ModuleList(_Modulated(width, width, 128, bool(i % 2)) for i in range(5))
        self.colour = nn.Conv2d(width, 3, 1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        w = self.map(z / z.pow(2).mean(1, keepdim=True).add(1e-8).sqrt())
        x = self.start.repeat(z.shape[0], 1, 1, 1)
        for layer in self.layers:
            x = layer(x, w)
        return self.colour(x)


@model("modulated filters (stylegan)", trained=True)
def style(batch: int = 4) -> Case:
    return _Style(48), (torch.randn(batch, 128),)


class _Glow(nn.Module):
    """Flows of images: squeezed pixels, mixed channels with a determinant, affine couplings."""

    def __init__(self, channels: int, width: int, steps: int) -> None:
        super().__init__()
        c = 4 * channels
        self.mixes = nn.ParameterList(torch.linalg.qr(torch.randn(c, c))[0] for _ in range(steps))
        self.scales = nn.ParameterList(torch.zeros(1, c, 1, 1) for _ in range(steps))
        self.shifts = nn.ParameterList(torch.zeros(1, c, 1, 1) for _ in range(steps))
        self.nets = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(c // 2, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 1),
                nn.ReLU(), nn.Conv2d(width, c, 3, 1, 1),
            )
            for _ in range(steps)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
        x = x.reshape(b, c * 4, h // 2, w // 2)
        log = x.new_zeros(b)
        pixels = h * w // 4
        for mix, scale, shift, net in zip(
            self.mixes, self.scales, self.shifts, self.nets, strict=True
        ):
            x = (x + shift) * torch.exp(scale)
            log = log + scale.sum() * pixels
            x = F.conv2d(x, mix.view(*mix.shape, 1, 1))
            log = log + torch.slogdet(mix)[1] * pixels
            keep, change = x.chunk(2, 1)
            s, t = net(keep).chunk(2, 1)
            s = torch.sigmoid(s + 2)
            x = torch.cat([keep, (change + t) * s], 1)
            log = log + torch.log(s).flatten(1).sum(1)
        prior = -0.5 * (x**2 + math.log(2 * math.pi)).flatten(1).sum(1)
        return -(prior + log) / (math.log(2) * c * h * w)


@model("glow", trained=True)
def glow(batch: int = 4) -> Case:
    return _Glow(3, 64, 4), (torch.rand(batch, 3, 32, 32),)


class _SegNet(nn.Module):
    """Pools that keep their indices, and unpools that put values back there."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.ModuleList([_block(3, width), _block(width, 2 * width)])
        self.up = nn.ModuleList([_block(2 * width, width), _block(width, width)])
        self.pool, self.unpool = nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2)
        self.out = nn.Conv2d(width, 12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for layer in self.down:
            x = layer(x)
            x, at = self.pool(x)
            kept.append(at)
        for layer in self.up:
            x = layer(self.unpool(x, kept.pop()))
        return self.out(x)


@model("pools with indices (segnet)", trained=True)
def segnet(batch: int = 2) -> Case:
    return _SegNet(32), (torch.randn(batch, 3, 96, 96),)
