"""Neighbours that are no networks, over images: filters, edges, similarity, coding, flow, boxes."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Canny(nn.Module):
    """Smoothing, gradients, thinning by direction, two thresholds, grown by dilation."""

    def __init__(self) -> None:
        super().__init__()
        g = torch.exp(-(torch.arange(-2, 3).float() ** 2) / 2)
        g = g / g.sum()
        self.register_buffer("gauss", (g[:, None] * g[None])[None, None])
        s = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("sobel", torch.stack([s, s.T])[:, None])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        grey = 0.299 * x[:, 0:1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:3]
        smooth = F.conv2d(F.pad(grey, (2, 2, 2, 2), mode="reflect"), self.gauss)
        gx, gy = F.conv2d(F.pad(smooth, (1, 1, 1, 1), mode="replicate"), self.sobel).unbind(1)
        mag = torch.sqrt(gx * gx + gy * gy + 1e-8)
        way = torch.round(torch.atan2(gy, gx) * (4 / math.pi)).long() % 4
        p = F.pad(mag, (1, 1, 1, 1))
        h, w = mag.shape[-2:]
        shifts = [(0, 1), (1, 1), (1, 0), (1, -1)]
        one = torch.stack([p[:, 1 + a : 1 + a + h, 1 + b : 1 + b + w] for a, b in shifts], 1)
        two = torch.stack([p[:, 1 - a : 1 - a + h, 1 - b : 1 - b + w] for a, b in shifts], 1)
        at = way.unsqueeze(1)
        keep = (mag > one.gather(1, at).squeeze(1)) & (mag > two.gather(1, at).squeeze(1))
        thin = mag * keep
        strong, weak = thin > 0.6, thin > 0.2
        for _ in range(4):
            grown = F.max_pool2d(strong.float().unsqueeze(1), 3, 1, 1).squeeze(1) > 0
            strong = strong | (grown & weak)
        return thin, strong


@model("canny edges")
def canny(batch: int = 2) -> Case:
    return _Canny(), (torch.rand(batch, 3, 160, 160),)


class _Filters(nn.Module):
    """A bilateral filter and a median, both over unfolded neighbourhoods."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, c, h, w = x.shape
        p = F.unfold(F.pad(x, (2, 2, 2, 2), mode="reflect"), 5).view(b, c, 25, h, w)
        ax = torch.arange(-2, 3).float()
        space = torch.exp(-(ax[:, None] ** 2 + ax[None] ** 2) / 4.5).view(1, 1, 25, 1, 1)
        weight = space * torch.exp(-((p - x.unsqueeze(2)) ** 2).sum(1, keepdim=True) / 0.08)
        smooth = (weight * p).sum(2) / weight.sum(2)
        near = F.pad(x, (1, 1, 1, 1), mode="reflect").unfold(2, 3, 1).unfold(3, 3, 1)
        return smooth, near.reshape(b, c, h, w, 9).median(-1).values


@model("bilateral and median filters")
def filters(batch: int = 1) -> Case:
    return _Filters(), (torch.rand(batch, 3, 96, 96),)


def _gauss(n: int, sigma: float) -> torch.Tensor:
    g = torch.exp(-((torch.arange(n) - n // 2).float() ** 2) / (2 * sigma**2))
    return g / g.sum()


class _Ssim(nn.Module):
    """Structural similarity of several scales."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("win", _gauss(11, 1.5)[None, None, None].repeat(3, 1, 1, 1))
        self.register_buffer("weights", torch.tensor([0.0448, 0.2856, 0.3001]))

    def blur(self, x: torch.Tensor) -> torch.Tensor:
        c = x.shape[1]
        return F.conv2d(F.conv2d(x, self.win, groups=c), self.win.transpose(2, 3), groups=c)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        c1, c2 = 0.01**2, 0.03**2
        found = []
        for i in range(3):
            mx, my = self.blur(x), self.blur(y)
            sx, sy, sxy = (
                self.blur(x * x) - mx**2,
                self.blur(y * y) - my**2,
                self.blur(x * y) - mx * my,
            )
            cs = (2 * sxy + c2) / (sx + sy + c2)
            ssim = ((2 * mx * my + c1) / (mx**2 + my**2 + c1)) * cs
            if i < 2:
                found.append(torch.relu(cs.flatten(2).mean(-1)))
                pad = [s % 2 for s in x.shape[2:]]
                x, y = (F.avg_pool2d(m, 2, padding=pad) for m in (x, y))
        found.append(torch.relu(ssim.flatten(2).mean(-1)))
        return torch.prod(torch.stack(found, 0) ** self.weights.view(-1, 1, 1), 0).mean(1)


@model("multi-scale ssim")
def ssim(batch: int = 2) -> Case:
    return _Ssim(), (torch.rand(batch, 3, 128, 128), torch.rand(batch, 3, 128, 128))


class _Jpeg(nn.Module):
    """Blocks of 8 x 8 through a cosine transform, quantised, and back."""

    def __init__(self) -> None:
        super().__init__()
        k = torch.arange(8).float()
        basis = (
            torch.cos((2 * k[:, None] + 1) * k[None] * math.pi / 16)
            * torch.where(k == 0, 0.5**0.5, 1.0)
            * 0.5
        )
        self.register_buffer("dct", basis.T.contiguous())
        self.register_buffer("table", torch.randint(8, 80, (8, 8)).float())
        self.register_buffer(
            "ycc",
            torch.tensor([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]]),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("bchw,dc->bdhw", x * 255, self.ycc) - 128 * torch.tensor([1.0, 0, 0]).view(
            1, 3, 1, 1
        )
        b, c, h, w = y.shape
        blocks = y.view(b, c, h // 8, 8, w // 8, 8).permute(0, 1, 2, 4, 3, 5)
        f = self.dct @ blocks @ self.dct.T
        q = f / self.table
        q = torch.round(q) + (q - torch.round(q)) ** 3
        back = self.dct.T @ (q * self.table) @ self.dct
        y = back.permute(0, 1, 2, 4, 3, 5).reshape(b, c, h, w)
        y = y + 128 * torch.tensor([1.0, 0, 0]).view(1, 3, 1, 1)
        rgb = torch.einsum("bchw,dc->bdhw", y, torch.linalg.inv(self.ycc))
        return (rgb / 255).clamp(0, 1)


@model("jpeg's cosines")
def jpeg(batch: int = 4) -> Case:
    return _Jpeg(), (torch.rand(batch, 3, 128, 128),)


class _Flow(nn.Module):
    """Lucas and Kanade over a pyramid: warped images, windows of products, 2 x 2 solves."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pyramid = [(a, b)]
        for _ in range(2):
            pyramid.append(tuple(F.avg_pool2d(m, 2) for m in pyramid[-1]))
        flow = torch.zeros(a.shape[0], 2, *pyramid[-1][0].shape[-2:])
        for level, (x, y) in enumerate(reversed(pyramid)):
            if level:
                flow = 2 * F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=True)
            h, w = x.shape[-2:]
            gy, gx = torch.meshgrid(
                torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij"
            )
            for _ in range(2):
                grid = torch.stack(
                    [gx + flow[:, 0] * 2 / (w - 1), gy + flow[:, 1] * 2 / (h - 1)], -1
                )
                warped = F.grid_sample(y, grid, padding_mode="border", align_corners=True)
                dx = F.pad(warped[..., 2:] - warped[..., :-2], (1, 1)) / 2
                dy = F.pad(warped[..., 2:, :] - warped[..., :-2, :], (0, 0, 1, 1)) / 2
                dt = warped - x
                xx, xy, yy, xt, yt = (
                    F.avg_pool2d(m, 7, 1, 3) for m in (dx * dx, dx * dy, dy * dy, dx * dt, dy * dt)
                )
                det = xx * yy - xy * xy + 1e-4
                flow = flow - torch.cat([yy * xt - xy * yt, xx * yt - xy * xt], 1) / det
        return flow


@model("optical flow of a pyramid")
def flow(batch: int = 2) -> Case:
    return _Flow(), (torch.rand(batch, 1, 96, 96), torch.rand(batch, 1, 96, 96))


class _Nms(nn.Module):
    """Suppression in plain PyTorch: a matrix of overlaps, then row after row."""

    def __init__(self, anchors: int, keep: int) -> None:
        super().__init__()
        self.keep = keep
        self.register_buffer("anchors", torch.rand(anchors, 4) * 100 + 10)

    def forward(self, deltas: torch.Tensor, logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = self.anchors
        xy = deltas[..., :2] * a[:, 2:] + a[:, :2]
        wh = torch.exp(deltas[..., 2:].clamp(max=math.log(1000 / 16))) * a[:, 2:]
        boxes = torch.cat([xy - wh / 2, xy + wh / 2], -1).clamp(0, 640)
        scores, labels = logits.sigmoid().max(-1)
        scores, order = scores.topk(self.keep)
        boxes = boxes.gather(1, order.unsqueeze(-1).expand(-1, -1, 4))
        labels = labels.gather(1, order)
        shifted = boxes + labels.unsqueeze(-1) * 1000.0
        area = (shifted[..., 2] - shifted[..., 0]) * (shifted[..., 3] - shifted[..., 1])
        lt = torch.max(shifted[:, :, None, :2], shifted[:, None, :, :2])
        rb = torch.min(shifted[:, :, None, 2:], shifted[:, None, :, 2:])
        inter = (rb - lt).clamp(min=0).prod(-1)
        iou = inter / (area[:, :, None] + area[:, None] - inter + 1e-6)
        alive = scores > 0.05
        later = torch.triu(iou > 0.5, diagonal=1)
        for i in range(self.keep):
            alive = alive & ~(later[:, i] & alive[:, i : i + 1])
        return boxes, torch.where(alive, scores, 0.0), labels


@model("boxes decoded and suppressed by a loop")
def nms(batch: int = 2) -> Case:
    return _Nms(3000, 100), (torch.randn(batch, 3000, 4) * 0.2, torch.randn(batch, 3000, 20))
