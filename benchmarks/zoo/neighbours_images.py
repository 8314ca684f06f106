"""Neighbours that look at images: backbones as libraries of vision models write them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


def _conv(a: int, b: int, k: int, s: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(a, b, k, s, k // 2, groups=groups, bias=False),
        nn.BatchNorm2d(b, eps=1e-3),
    ]
    return nn.Sequential(*layers, *([nn.SiLU(inplace=True)] if act else []))


class _Excite(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(s))))


class _Inverted(nn.Module):
    """An inverted bottleneck: fused (one filter of 3 x 3) or with filters a channel."""

    def __init__(self, a: int, b: int, grow: int, s: int, fused: bool) -> None:
        super().__init__()
        inner = a * grow
        self.residual = s == 1 and a == b
        if fused:
            self.layers = nn.Sequential(_conv(a, inner, 3, s), _conv(inner, b, 1, act=False))
        else:
            self.layers = nn.Sequential(
                _conv(a, inner, 1), _conv(inner, inner, 3, s, inner), _Excite(inner, a // 4),
                _conv(inner, b, 1, act=False),
            )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


@model("efficientnet v2")
def efficientnet_v2(batch: int = 1) -> Case:
    plan = [(24, 24, 1, 1, 2, True), (24, 48, 4, 2, 2, True), (48, 64, 4, 2, 2, True),
            (64, 128, 4, 2, 3, False), (128, 160, 6, 1, 2, False)]  # fmt: skip
    layers: list[nn.Module] = [_conv(3, 24, 3, 2)]
    for a, b, grow, s, count, fused in plan:
        layers += [_Inverted(b if i else a, b, grow, 1 if i else s, fused) for i in range(count)]
    head = [_conv(160, 640, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, 1000)]
    return nn.Sequential(*layers, *head), (torch.randn(batch, 3, 160, 160),)


class _Standardised(nn.Conv2d):
    """Filters of mean zero and variance one at every call, as NFNets scale them."""

    def __init__(self, *args: int, **kwargs: int) -> None:
        super().__init__(*args, **kwargs)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fan = self.weight[0].numel()
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True)
        scale = torch.rsqrt(torch.clamp(var * fan, min=1e-4)) * self.gain
        weight = self.weight * scale - mean * scale
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _NfBlock(nn.Module):
    def __init__(self, width: int, beta: float) -> None:
        super().__init__()
        self.beta, half = beta, width // 2
        self.conv1, self.conv4 = _Standardised(width, half, 1), _Standardised(half, width, 1)
        self.conv2 = _Standardised(half, half, 3, padding=1, groups=half // 32)
        self.conv3 = _Standardised(half, half, 3, padding=1, groups=half // 32)
        self.excite = _Excite(width, width // 8)
        self.gain = nn.Parameter(torch.tensor(0.2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(x) * 1.7015043497085571 * self.beta
        y = F.gelu(self.conv1(y)) * 1.7015043497085571
        y = F.gelu(self.conv2(y)) * 1.7015043497085571
        y = F.gelu(self.conv3(y)) * 1.7015043497085571
        y = 2.0 * self.excite(self.conv4(y))
        return y.mul_(self.gain) * 0.2 + x


@model("nfnet")
def nfnet(batch: int = 2) -> Case:
    blocks = [_NfBlock(128, 1 / (1 + 0.04 * i) ** 0.5) for i in range(4)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)]
    return nn.Sequential(_Standardised(3, 128, 4, stride=4), *blocks, *head), (
        torch.randn(batch, 3, 128, 128),
    )


class _RelativeAttention(nn.Module):
    def __init__(self, width: int, size: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.02)
        grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"))
        flat = grid.flatten(1)
        apart = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0) + size - 1
        self.register_buffer("index", apart[..., 0] * (2 * size - 1) + apart[..., 1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + bias
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


class _MaxVit(nn.Module):
    """Filters a channel, attention within windows, attention over a grid."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.local = nn.Sequential(nn.BatchNorm2d(width), _Inverted(width, width, 4, 1, False))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.window, self.grid = (_RelativeAttention(width, size, 4) for _ in range(2))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.local(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        p = self.size
        y = x.view(b, h // p, p, w // p, p, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, p * p, c)
        y = y + self.window(self.norms[0](y))
        y = y + self.mlps[0](self.norms[1](y))
        y = y.view(b, h // p, w // p, p, p, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        y = y.view(b, p, h // p, p, w // p, c).permute(0, 2, 4, 1, 3, 5).reshape(-1, p * p, c)
        y = y + self.grid(self.norms[2](y))
        y = y + self.mlps[1](self.norms[3](y))
        y = y.view(b, h // p, w // p, p, p, c).permute(0, 3, 1, 4, 2, 5).reshape(b, h, w, c)
        return y.permute(0, 3, 1, 2)


@model("maxvit")
def maxvit(batch: int = 2) -> Case:
    stem = [_conv(3, 64, 3, 2), nn.Conv2d(64, 64, 3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100)]
    return nn.Sequential(*stem, _MaxVit(64, 7), _MaxVit(64, 7), *head), (
        torch.randn(batch, 3, 112, 112),
    )


class _Focal(nn.Module):
    """Contexts of growing filters, gated a level, modulate a query."""

    def __init__(self, width: int, levels: int = 3) -> None:
        super().__init__()
        self.levels, self.width = levels, width
        self.f, self.h = nn.Linear(width, 2 * width + levels + 1), nn.Conv2d(width, width, 1)
        self.proj = nn.Linear(width, width)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3 + 2 * i, padding=1 + i, groups=width, bias=False),
                nn.GELU(),
            )
            for i in range(levels)
        )
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.g1 = nn.Parameter(1e-1 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.f(self.norm1(x)).permute(0, 3, 1, 2).contiguous()
        q, ctx, gates = torch.split(y, (self.width, self.width, self.levels + 1), 1)
        total = 0
        for i, layer in enumerate(self.layers):
            ctx = layer(ctx)
            total = total + ctx * gates[:, i : i + 1]
        whole = F.gelu(ctx.mean(2, keepdim=True).mean(3, keepdim=True))
        total = total + whole * gates[:, self.levels :]
        out = (q * self.h(total)).permute(0, 2, 3, 1).contiguous()
        x = x + self.g1 * self.proj(out)
        return x + self.mlp(self.norm2(x))


class _Channels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1)


@model("focalnet")
def focalnet(batch: int = 1) -> Case:
    return nn.Sequential(
        nn.Conv2d(3, 96, 4, 4), _Channels(), *[_Focal(96) for _ in range(3)], nn.LayerNorm(96)
    ), (torch.randn(batch, 3, 160, 160),)


class _Exchange(nn.Module):
    """Branches of three resolutions that send each other what they have (HRNet)."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(*[nn.Sequential(nn.Conv2d(w, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w),
                                          nn.ReLU(inplace=True)) for _ in range(2)])
            for w in widths
        )  # fmt: skip
        fuse = []
        for i, to in enumerate(widths):
            row = nn.ModuleList()
            for j, of in enumerate(widths):
                if j > i:
                    row.append(nn.Sequential(nn.Conv2d(of, to, 1, bias=False), nn.BatchNorm2d(to),
                                             nn.Upsample(scale_factor=2 ** (j - i))))  # fmt: skip
                elif j == i:
                    row.append(nn.Identity())
                else:
                    steps: list[nn.Module] = []
                    for k in range(i - j):
                        last = k == i - j - 1
                        steps += [nn.Conv2d(of, to if last else of, 3, 2, 1, bias=False),
                                  nn.BatchNorm2d(to if last else of)]  # fmt: skip
                        steps += [] if last else [nn.ReLU(inplace=True)]
                    row.append(nn.Sequential(*steps))
            fuse.append(row)
        self.fuse = nn.ModuleList(fuse)

    def forward(self, xs: list[torch.Tensor]) -> list[torch.Tensor]:
        xs = [x + branch(x) for branch, x in zip(self.branches, xs, strict=True)]
        out = []
        for row in self.fuse:
            y = row[0](xs[0])
            for j in range(1, len(xs)):
                y = y + row[j](xs[j])
            out.append(F.relu(y))
        return out


class _HrNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [18, 36, 72]
        self.stem = nn.Sequential(nn.Conv2d(3, 18, 3, 2, 1, bias=False), nn.BatchNorm2d(18),
                                  nn.ReLU(), nn.Conv2d(18, 18, 3, 2, 1))  # fmt: skip
        self.down = nn.ModuleList([nn.Conv2d(18, 36, 3, 2, 1), nn.Conv2d(36, 72, 3, 2, 1)])
        self.stages = nn.ModuleList(_Exchange(widths) for _ in range(2))
        self.last = nn.Conv2d(sum(widths), 17, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        xs = [self.stem(x)]
        for down in self.down:
            xs.append(down(xs[-1]))
        for stage in self.stages:
            xs = stage(xs)
        h, w = xs[0].shape[2:]
        ups = [F.interpolate(x, size=(h, w), mode="bilinear", align_corners=False) for x in xs]
        return self.last(torch.cat(ups, 1))


@model("hrnet keypoints")
def hrnet(batch: int = 1) -> Case:
    return _HrNet(), (torch.randn(batch, 3, 192, 160),)


class _RepVgg(nn.Module):
    """Three branches that were trained apart and not fused before they were shipped."""

    def __init__(self, a: int, b: int, s: int) -> None:
        super().__init__()
        self.same = nn.BatchNorm2d(a) if a == b and s == 1 else None
        self.dense = nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b))
        self.point = nn.Sequential(nn.Conv2d(a, b, 1, s, bias=False), nn.BatchNorm2d(b))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        same = 0 if self.same is None else self.same(x)
        return F.relu(self.dense(x) + self.point(x) + same)


@model("repvgg unfused")
def repvgg(batch: int = 2) -> Case:
    plan = [(3, 48, 2), (48, 48, 2), (48, 48, 1), (48, 96, 2), (96, 96, 1), (96, 96, 1)]
    blocks = [_RepVgg(a, b, s) for a, b, s in plan]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 100)), (
        torch.randn(batch, 3, 160, 160),
    )


class _Ghost(nn.Module):
    def __init__(self, a: int, b: int, relu: bool = True) -> None:
        super().__init__()
        self.keep, half = b, (b + 1) // 2
        act: list[nn.Module] = [nn.ReLU(inplace=True)] if relu else []
        self.primary = nn.Sequential(nn.Conv2d(a, half, 1, bias=False), nn.BatchNorm2d(half), *act)
        self.cheap = nn.Sequential(
            nn.Conv2d(half, half, 3, 1, 1, groups=half, bias=False), nn.BatchNorm2d(half), *act
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = self.primary(x)
        return torch.cat([one, self.cheap(one)], 1)[:, : self.keep, :, :]


class _GhostBlock(nn.Module):
    def __init__(self, a: int, mid: int, b: int, s: int) -> None:
        super().__init__()
        self.one, self.two = _Ghost(a, mid), _Ghost(mid, b, False)
        self.down = nn.Sequential(nn.Conv2d(mid, mid, 3, s, 1, groups=mid, bias=False),
                                  nn.BatchNorm2d(mid)) if s > 1 else nn.Identity()  # fmt: skip
        self.excite = _Excite(mid, mid // 4)
        self.short = nn.Sequential() if a == b and s == 1 else nn.Sequential(
            nn.Conv2d(a, a, 3, s, 1, groups=a, bias=False), nn.BatchNorm2d(a),
            nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.two(self.excite(self.down(self.one(x))))
        y += self.short(x)
        return y


@model("ghostnet")
def ghostnet(batch: int = 4) -> Case:
    plan = [(16, 48, 24, 2), (24, 72, 24, 1), (24, 72, 40, 2), (40, 120, 40, 1), (40, 240, 80, 2)]
    blocks = [_GhostBlock(*p) for p in plan]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(80, 200),
    ), (torch.randn(batch, 3, 128, 128),)


class _CoAt(nn.Module):
    """A transformer's block over a pooled map, its bias by where pixels are."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _RelativeAttention(width, side, 8)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.proj = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, _, _ = x.shape
        x = F.max_pool2d(x, 3, 2, 1)
        h, w = x.shape[-2:]
        y = x.flatten(2).transpose(1, 2)
        y = self.proj(x).flatten(2).transpose(1, 2) + self.attention(self.norm(y))
        y = y + self.ff(self.norm2(y))
        return y.transpose(1, 2).reshape(b, c, h, w)


@model("coatnet")
def coatnet(batch: int = 2) -> Case:
    stem = [_conv(3, 64, 3, 2), _conv(64, 64, 3), _Inverted(64, 128, 4, 2, False)]
    return nn.Sequential(*stem, _CoAt(128, 16), _CoAt(128, 8)), (torch.randn(batch, 3, 128, 128),)


class _Metaformer(nn.Module):
    """Means of neighbours less the pixel itself, and scales of layers (PoolFormer v2)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.up, self.down = nn.Conv2d(width, 4 * width, 1), nn.Conv2d(4 * width, width, 1)
        self.s = nn.Parameter(torch.full((1,), 0.9))
        self.b = nn.Parameter(torch.full((1,), -0.4))
        self.r = nn.Parameter(torch.ones(width, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.n1(x)
        x = x * self.r + (self.pool(y) - y)
        h = self.up(self.n2(x))
        return x + self.down(self.s * F.relu(h) ** 2 + self.b)


@model("metaformer with star relu")
def metaformer(batch: int = 2) -> Case:
    return nn.Sequential(nn.Conv2d(3, 64, 7, 4, 2), *[_Metaformer(64) for _ in range(4)]), (
        torch.randn(batch, 3, 160, 160),
    )
