"""Models that look: heads that decode boxes, masks and depth, flow of all pairs, restoration."""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


def _cbr(a: int, b: int, k: int = 3, s: int = 1, g: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(a, b, k, s, k // 2, groups=g, bias=False),
        nn.BatchNorm2d(b),
        nn.ReLU(inplace=True),
    )


# ------------------------------ oriented boxes
class _Oriented(nn.Module):
    """Angles by distributions, rotated boxes as Gaussians, suppression by their distances."""

    def __init__(self, classes: int, keep: int) -> None:
        super().__init__()
        self.classes, self.keep = classes, keep
        self.stem = nn.Sequential(_cbr(3, 24, 3, 2), _cbr(24, 48, 3, 2), _cbr(48, 64, 3, 2))
        self.down = _cbr(64, 96, 3, 2)
        self.heads = nn.ModuleList(nn.Conv2d(c, 4 * 16 + 1 + classes, 1) for c in (64, 96))

    def covariance(self, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        wh, r = boxes[..., 2:4].pow(2) / 12, boxes[..., 4]
        a, b = wh.unbind(-1)
        cos, sin = r.cos(), r.sin()
        return a * cos**2 + b * sin**2, a * sin**2 + b * cos**2, (a - b) * cos * sin

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        one = self.stem(x)
        maps, boxes, scores = (one, self.down(one)), [], []
        for level, (head, m) in enumerate(zip(self.heads, maps, strict=True)):
            stride, (h, w) = 8 * 2**level, m.shape[-2:]
            y = head(m).flatten(2).transpose(1, 2)
            dist, angle, logits = y.split([64, 1, self.classes], -1)
            dist = dist.unflatten(-1, (4, 16)).softmax(-1) @ torch.arange(16.0)
            theta = (angle.sigmoid() - 0.25) * math.pi
            lt, rb = dist.split(2, -1)
            cos, sin = theta.cos(), theta.sin()
            xf, yf = ((rb - lt) / 2).split(1, -1)
            gy, gx = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            at = torch.stack([gx, gy], -1).view(-1, 2)
            xy = torch.cat([xf * cos - yf * sin, xf * sin + yf * cos], -1) + at
            boxes.append(torch.cat([xy * stride, (lt + rb) * stride, theta], -1))
            scores.append(logits.sigmoid())
        found, score = torch.cat(boxes, 1), torch.cat(scores, 1)
        best, label = score.max(-1)
        best, order = best.topk(self.keep)
        found = found.gather(1, order[..., None].expand(-1, -1, 5))
        label = label.gather(1, order)
        a, b, c = self.covariance(found)
        (x1, y1), off = found[..., :2].unbind(-1), label * 4096.0
        x1 = x1 + off
        dx, dy = x1[:, :, None] - x1[:, None], y1[:, :, None] - y1[:, None]
        sa, sb, sc = (t[:, :, None] + t[:, None] for t in (a, b, c))
        det = (sa * sb - sc**2).clamp(min=1e-7)
        t1 = (sa * dy**2 + sb * dx**2) / det * 0.25 - sc * dx * dy / det * 0.5
        own = (a * b - c**2).clamp(min=0)
        t3 = 0.5 * (det / (4 * (own[:, :, None] * own[:, None]).sqrt() + 1e-7)).log()
        iou = 1 - (1 - (-(t1 + t3).clamp(1e-7, 100)).exp() + 1e-7).sqrt()
        dropped = (iou.triu(1) > 0.6).any(1)
        return found, best.masked_fill(dropped, 0.0), label


@model("oriented boxes as gaussians")
def oriented(batch: int = 1) -> Case:
    return _Oriented(15, 200).eval(), (torch.randn(batch, 3, 128, 128),)


# ------------------------------ masks that mask attention
class _MaskDecoder(nn.Module):
    def __init__(self, d: int, queries: int, layers: int) -> None:
        super().__init__()
        self.h, self.layers = 8, layers
        self.pixel = nn.Sequential(_cbr(3, 32, 3, 2), _cbr(32, d, 3, 2), nn.Conv2d(d, d, 1))
        self.low = _cbr(d, d, 3, 2)
        self.q, self.qp = nn.Embedding(queries, d), nn.Embedding(queries, d)
        self.cross, self.own = (
            nn.ModuleList(nn.MultiheadAttention(d, 8, batch_first=True) for _ in range(layers))
            for _ in range(2)
        )
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
            for _ in range(layers)
        )
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(3 * layers + 1))
        self.cls = nn.Linear(d, 21)
        self.mask = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def predict(self, q: torch.Tensor, fine: torch.Tensor, size: Any) -> Any:
        q = self.norm[-1](q)
        masks = torch.einsum("bqc,bchw->bqhw", self.mask(q), fine)
        small = F.interpolate(masks, size=size, mode="bilinear", align_corners=False)
        hide = (small.sigmoid().flatten(2) < 0.5).detach()
        hide = hide & ~hide.all(-1, keepdim=True)
        return masks, self.cls(q), hide[:, None].expand(-1, self.h, -1, -1).flatten(0, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.pixel(x)
        low = self.low(fine)
        size, memory = low.shape[-2:], low.flatten(2).transpose(1, 2)
        q = self.q.weight.unsqueeze(0).repeat(x.shape[0], 1, 1)
        p = self.qp.weight
        masks, logits, hide = self.predict(q, fine, size)
        for i in range(self.layers):
            y = self.cross[i](q + p, memory, memory, attn_mask=hide, need_weights=False)[0]
            q = self.norm[3 * i](q + y)
            q = self.norm[3 * i + 1](q + self.own[i](q + p, q + p, q)[0])
            q = self.norm[3 * i + 2](q + self.ff[i](q))
            masks, logits, hide = self.predict(q, fine, size)
        return masks, logits


@model("masks that mask attention", trained=True)
def mask_decoder(batch: int = 2) -> Case:
    return _MaskDecoder(64, 40, 3), (torch.randn(batch, 3, 96, 96),)


# ------------------------------ flow of all pairs (RAFT)
class _AllPairs(nn.Module):
    def __init__(self, d: int, levels: int, radius: int, steps: int) -> None:
        super().__init__()
        self.levels, self.radius, self.steps, self.d = levels, radius, steps, d
        self.enc = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3),
            nn.InstanceNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1),
            nn.InstanceNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, d, 3, 2, 1),
        )
        self.ctx = nn.Sequential(
            _cbr(3, 32, 7, 2), _cbr(32, 64, 3, 2), nn.Conv2d(64, 2 * d, 3, 2, 1)
        )
        self.cor = nn.Conv2d(levels * (2 * radius + 1) ** 2, d - 2, 1)
        self.z, self.r, self.h = (nn.Conv2d(3 * d, d, 3, padding=1) for _ in range(3))
        self.head = nn.Conv2d(d, 2, 3, padding=1)
        self.up = nn.Conv2d(d, 64 * 9, 1)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        fa, fb = self.enc(torch.cat([a, b])).chunk(2)
        n, d, h, w = fa.shape
        corr = torch.matmul(fa.view(n, d, h * w).transpose(1, 2), fb.view(n, d, h * w)) / math.sqrt(
            d
        )
        corr = corr.reshape(n * h * w, 1, h, w)
        pyramid = [corr]
        for _ in range(self.levels - 1):
            corr = F.avg_pool2d(corr, 2, stride=2)
            pyramid.append(corr)
        net, inp = self.ctx(a).chunk(2, 1)
        net, inp = torch.tanh(net), torch.relu(inp)
        gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        start = torch.stack([gx, gy]).float()[None].repeat(n, 1, 1, 1)
        coords, r = start, self.radius
        dx = torch.linspace(-r, r, 2 * r + 1)
        delta = torch.stack(torch.meshgrid(dx, dx, indexing="ij"), -1).view(1, 2 * r + 1, -1, 2)
        for _ in range(self.steps):
            coords = coords.detach()
            seen = []
            for i, level in enumerate(pyramid):
                at = coords.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) / 2**i + delta
                hh, ww = level.shape[-2:]
                x, y = at.split(1, -1)
                grid = torch.cat([2 * x / (ww - 1) - 1, 2 * y / (hh - 1) - 1], -1)
                seen.append(F.grid_sample(level, grid, align_corners=True).view(n, h, w, -1))
            c = torch.cat(seen, -1).permute(0, 3, 1, 2).contiguous()
            m = torch.cat([F.relu(self.cor(c)), coords - start], 1)
            hx = torch.cat([net, inp, m], 1)
            z, q = torch.sigmoid(self.z(hx)), torch.sigmoid(self.r(hx))
            net = (1 - z) * net + z * torch.tanh(self.h(torch.cat([q * net, inp, m], 1)))
            coords = coords + self.head(net)
        mask = 0.25 * self.up(net).view(n, 1, 9, 8, 8, h, w).softmax(2)
        flow = F.unfold(8 * (coords - start), [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
        return (mask * flow).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 8 * h, 8 * w)


@model("flow of all pairs")
def all_pairs(batch: int = 1) -> Case:
    return _AllPairs(64, 3, 3, 3), (
        torch.randn(batch, 3, 128, 160),
        torch.randn(batch, 3, 128, 160),
    )


# ------------------------------ stereo cost volume
class _Stereo(nn.Module):
    def __init__(self, c: int, disparities: int) -> None:
        super().__init__()
        self.n = disparities
        self.feat = nn.Sequential(_cbr(3, c, 3, 2), _cbr(c, c, 3, 2), nn.Conv2d(c, c, 3, 1, 1))
        self.agg = nn.Sequential(
            nn.Conv3d(2 * c, c, 3, 1, 1),
            nn.BatchNorm3d(c),
            nn.ReLU(inplace=True),
            nn.Conv3d(c, 2 * c, 3, 2, 1),
            nn.BatchNorm3d(2 * c),
            nn.ReLU(inplace=True),
            nn.ConvTranspose3d(2 * c, c, 3, 2, 1, output_padding=1),
            nn.ReLU(inplace=True),
            nn.Conv3d(c, 1, 3, 1, 1),
        )

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        a, b = self.feat(left), self.feat(right)
        n, c, h, w = a.shape
        cost = a.new_zeros(n, 2 * c, self.n, h, w)
        for i in range(self.n):
            if i > 0:
                cost[:, :c, i, :, i:] = a[..., i:]
                cost[:, c:, i, :, i:] = b[..., :-i]
            else:
                cost[:, :c, i], cost[:, c:, i] = a, b
        y = self.agg(cost.contiguous())
        y = F.interpolate(y, [4 * self.n, 4 * h, 4 * w], mode="trilinear", align_corners=False)
        prob = F.softmax(-y.squeeze(1), 1)
        return (prob * torch.arange(4 * self.n).view(1, -1, 1, 1)).sum(1)


@model("stereo by a cost volume", trained=True)
def stereo(batch: int = 1) -> Case:
    return _Stereo(16, 8), (torch.randn(batch, 3, 64, 96), torch.randn(batch, 3, 64, 96))


# ------------------------------ restoration without activations
class LayerNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> Any:
        ctx.eps = eps
        _, c, _, _ = x.size()
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        y = (x - mu) / (var + eps).sqrt()
        ctx.save_for_backward(y, var, weight)
        return weight.view(1, c, 1, 1) * y + bias.view(1, c, 1, 1)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
        _, c, _, _ = grad_output.size()
        y, var, weight = ctx.saved_tensors
        g = grad_output * weight.view(1, c, 1, 1)
        mean_g, mean_gy = g.mean(1, keepdim=True), (g * y).mean(1, keepdim=True)
        gx = 1.0 / torch.sqrt(var + ctx.eps) * (g - y * mean_gy - mean_g)
        return gx, (grad_output * y).sum((3, 2, 0)), grad_output.sum((3, 2, 0)), None


class LayerNorm2d(nn.Module):
    def __init__(self, c: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = (
            nn.Parameter(torch.ones(c)),
            nn.Parameter(torch.zeros(c)),
            eps,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return LayerNormFunction.apply(x, self.weight, self.bias, self.eps)


class _NAFBlock(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, 1, 1, groups=2 * c)
        self.c3, self.c4, self.c5 = nn.Conv2d(c, c, 1), nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.sca = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.n1, self.n2 = LayerNorm2d(c), LayerNorm2d(c)
        self.beta, self.gamma = (nn.Parameter(torch.full((1, c, 1, 1), 0.1)) for _ in range(2))

    def forward(self, inp: torch.Tensor) -> torch.Tensor:
        a, b = self.c2(self.c1(self.n1(inp))).chunk(2, dim=1)
        x = a * b
        y = inp + self.c3(x * self.sca(x)) * self.beta
        a, b = self.c4(self.n2(y)).chunk(2, dim=1)
        return y + self.c5(a * b) * self.gamma


class _NAFNet(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, c, 3, 1, 1), nn.Conv2d(c, 3, 3, 1, 1)
        self.enc = nn.ModuleList([_NAFBlock(c), _NAFBlock(2 * c)])
        self.downs = nn.ModuleList([nn.Conv2d(c, 2 * c, 2, 2), nn.Conv2d(2 * c, 4 * c, 2, 2)])
        self.mid = nn.Sequential(_NAFBlock(4 * c), _NAFBlock(4 * c))
        self.ups = nn.ModuleList(
            nn.Sequential(nn.Conv2d(k * c, 2 * k * c, 1, bias=False), nn.PixelShuffle(2))
            for k in (4, 2)
        )
        self.dec = nn.ModuleList([_NAFBlock(2 * c), _NAFBlock(c)])

    def forward(self, inp: torch.Tensor) -> torch.Tensor:
        _, _, h, w = inp.shape
        x = F.pad(inp, (0, -w % 4, 0, -h % 4))
        padded, x = x, self.intro(x)
        skips = []
        for enc, down in zip(self.enc, self.downs, strict=True):
            x = enc(x)
            skips.append(x)
            x = down(x)
        x = self.mid(x)
        for up, dec, skip in zip(self.ups, self.dec, skips[::-1], strict=True):
            x = dec(up(x) + skip)
        return (self.ending(x) + padded)[:, :, :h, :w]


@model("restoration without activations", trained=True)
def nafnet(batch: int = 1) -> Case:
    return _NAFNet(24), (torch.randn(batch, 3, 62, 62),)


# ------------------------------ attention of channels
class _ChannelAttention(nn.Module):
    def __init__(self, c: int, h: int) -> None:
        super().__init__()
        self.h, self.t = h, nn.Parameter(torch.ones(h, 1, 1))
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv = nn.Conv2d(c, 3 * c, 1, bias=False)
        self.dw = nn.Conv2d(3 * c, 3 * c, 3, 1, 1, groups=3 * c, bias=False)
        self.out, self.ff = nn.Conv2d(c, c, 1), nn.Conv2d(c, 4 * c, 1)
        self.fdw, self.fout = nn.Conv2d(4 * c, 4 * c, 3, 1, 1, groups=4 * c), nn.Conv2d(2 * c, c, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape

        def norm(n: nn.Module, t: torch.Tensor) -> torch.Tensor:
            return n(t.flatten(2).transpose(1, 2)).transpose(1, 2).view(b, c, h, w)

        q, k, v = self.dw(self.qkv(norm(self.n1, x))).chunk(3, 1)
        q, k, v = (t.reshape(b, self.h, c // self.h, h * w) for t in (q, k, v))
        a = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * self.t
        x = x + self.out((a.softmax(-1) @ v).view(b, c, h, w))
        g, y = self.fdw(self.ff(norm(self.n2, x))).chunk(2, 1)
        return x + self.fout(F.gelu(g) * y)


@model("attention of channels", trained=True)
def restormer(batch: int = 1) -> Case:
    net = nn.Sequential(
        nn.Conv2d(3, 48, 3, 1, 1),
        _ChannelAttention(48, 4),
        _ChannelAttention(48, 4),
        nn.PixelUnshuffle(2),
        nn.Conv2d(192, 96, 1),
        _ChannelAttention(96, 4),
    )
    return net, (torch.randn(batch, 3, 48, 48),)


# ------------------------------ large filters a channel
class _LargeKernel(nn.Module):
    def __init__(self, c: int, k: int) -> None:
        super().__init__()
        self.big, self.small = (
            nn.Conv2d(c, c, n, padding=n // 2, groups=c, bias=False) for n in (k, 5)
        )
        self.bn1, self.bn2, self.bn3 = (nn.BatchNorm2d(c) for _ in range(3))
        self.pw1, self.pw2 = _cbr(c, c, 1), nn.Conv2d(c, c, 1)
        self.ff = nn.Sequential(nn.Conv2d(c, 4 * c, 1), nn.GELU(), nn.Conv2d(4 * c, c, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pw1(x)
        y = self.pw2(F.relu(self.bn1(self.big(y)) + self.bn2(self.small(y))))
        x = x + y
        return x + self.ff(self.bn3(x))


@model("filters of 31 by 31")
def large_kernels(batch: int = 1) -> Case:
    net = nn.Sequential(
        _cbr(3, 64, 3, 4),
        _LargeKernel(64, 31),
        _LargeKernel(64, 29),
        _cbr(64, 128, 3, 2),
        _LargeKernel(128, 27),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 100),
    )
    return net, (torch.randn(batch, 3, 160, 160),)


# ------------------------------ weighted pyramids, decoded centres
class _BiFPN(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3, 3))
        self.convs = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(c, c, 3, 1, 1, groups=c, bias=False),
                nn.Conv2d(c, c, 1),
                nn.BatchNorm2d(c, momentum=0.01, eps=1e-3),
            )
            for _ in range(6)
        )

    def forward(self, maps: list[torch.Tensor]) -> list[torch.Tensor]:
        a, b = F.relu(self.w1), F.relu(self.w2)
        a, b = a / (a.sum(0) + 1e-4), b / (b.sum(0) + 1e-4)
        p3, p4, p5, p6 = maps
        t5 = self.convs[0](F.silu(a[0, 0] * p5 + a[1, 0] * F.interpolate(p6, scale_factor=2.0)))
        t4 = self.convs[1](F.silu(a[0, 1] * p4 + a[1, 1] * F.interpolate(t5, scale_factor=2.0)))
        o3 = self.convs[2](F.silu(a[0, 2] * p3 + a[1, 2] * F.interpolate(t4, scale_factor=2.0)))
        pool = nn.functional.max_pool2d
        o4 = self.convs[3](F.silu(b[0, 0] * p4 + b[1, 0] * t4 + b[2, 0] * pool(o3, 3, 2, 1)))
        o5 = self.convs[4](F.silu(b[0, 1] * p5 + b[1, 1] * t5 + b[2, 1] * pool(o4, 3, 2, 1)))
        o6 = self.convs[5](F.silu(b[0, 2] * p6 + b[1, 2] * pool(o5, 3, 2, 1)))
        return [o3, o4, o5, o6]


class _Centres(nn.Module):
    def __init__(self, c: int, classes: int, keep: int) -> None:
        super().__init__()
        self.keep = keep
        self.stem = nn.ModuleList(
            [
                nn.Sequential(_cbr(3, 32, 3, 2), _cbr(32, c, 3, 2)),
                _cbr(c, c, 3, 2),
                _cbr(c, c, 3, 2),
                _cbr(c, c, 3, 2),
            ]
        )
        self.fpn = nn.ModuleList(_BiFPN(c) for _ in range(2))
        self.heat, self.wh, self.off = (nn.Conv2d(c, n, 1) for n in (classes, 2, 2))
        nn.init.normal_(self.heat.weight, std=0.2)  # apart: the order of equal heats is undefined

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        maps = []
        for stage in self.stem:
            x = stage(x)
            maps.append(x)
        for fpn in self.fpn:
            maps = fpn(maps)
        heat = torch.sigmoid(self.heat(maps[0]))
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        b, c, h, w = heat.shape
        score, at = heat.view(b, c, -1).topk(self.keep)
        ys, xs = torch.div(at % (h * w), w, rounding_mode="floor").float(), (at % w).float()
        score, which = score.view(b, -1).topk(self.keep)
        label = torch.div(which, self.keep, rounding_mode="trunc")
        at, ys, xs = (t.view(b, -1).gather(1, which) for t in (at, ys, xs))

        def pick(m: torch.Tensor) -> torch.Tensor:
            m = m.permute(0, 2, 3, 1).contiguous().view(b, -1, m.shape[1])
            return m.gather(1, at.unsqueeze(2).expand(-1, -1, m.size(2)))

        off, wh = pick(self.off(maps[0])), pick(self.wh(maps[0]))
        xs, ys = xs[..., None] + off[..., :1], ys[..., None] + off[..., 1:]
        half = wh / 2
        boxes = torch.cat(
            [xs - half[..., :1], ys - half[..., 1:], xs + half[..., :1], ys + half[..., 1:]], 2
        )
        return {"boxes": boxes, "scores": score, "labels": label}


@model("centres of a weighted pyramid")
def centres(batch: int = 1) -> Case:
    return _Centres(48, 20, 50), (torch.randn(batch, 3, 128, 128),)
