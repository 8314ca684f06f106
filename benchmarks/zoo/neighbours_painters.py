"""Neighbours that draw: diffusion, decoders, segmentation, upscaling, rays through a scene."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm


class _DitBlock(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.n1, self.n2 = (nn.LayerNorm(d, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.h, self.qkv, self.proj = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        s1, g1, a1, s2, g2, a2 = self.ada(c).chunk(6, 1)
        b, n, d = x.shape
        y = self.n1(x) * (1 + g1.unsqueeze(1)) + s1.unsqueeze(1)
        q, k, v = self.qkv(y).reshape(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + a1.unsqueeze(1) * self.proj(y)
        return x + a2.unsqueeze(1) * self.mlp(self.n2(x) * (1 + g2.unsqueeze(1)) + s2.unsqueeze(1))


class _Dit(nn.Module):
    """A transformer over patches of a latent, told the time and the class."""

    def __init__(self, d: int, layers: int, side: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(4, d, 2, 2)
        self.register_buffer("place", torch.randn(1, (side // 2) ** 2, d))
        self.time = nn.Sequential(nn.Linear(128, d), nn.SiLU(), nn.Linear(d, d))
        self.label = nn.Embedding(11, d)
        self.blocks = nn.ModuleList(_DitBlock(d, 4) for _ in range(layers))
        self.last, self.out = nn.Linear(d, 2 * d), nn.Linear(d, 16)

    def forward(self, x: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.patch(x).flatten(2).transpose(1, 2) + self.place
        freq = torch.exp(-math.log(10000) * torch.arange(64, dtype=torch.float32) / 64)
        at = t[:, None].float() * freq[None]
        c = self.time(torch.cat([torch.cos(at), torch.sin(at)], -1)) + self.label(y)
        for block in self.blocks:
            h = block(h, c)
        shift, scale = self.last(F.silu(c)).chunk(2, 1)
        h = F.layer_norm(h, h.shape[-1:]) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        h = self.out(h)
        s = int(h.shape[1] ** 0.5)
        h = h.reshape(h.shape[0], s, s, 2, 2, 4)
        return torch.einsum("nhwpqc->nchpwq", h).reshape(h.shape[0], 4, 2 * s, 2 * s)


@model("dit")
def dit(batch: int = 2) -> Case:
    return _Dit(192, 4, 16), (
        torch.randn(batch, 4, 16, 16),
        torch.randint(0, 1000, (batch,)),
        torch.randint(0, 10, (batch,)),
    )


@model("dit, bfloat16")
def dit_bfloat16(batch: int = 2) -> Case:
    module, (x, t, y) = dit(batch)
    return _Cast(module), (x, t, y)


class _Cast(nn.Module):
    """A model run under autocast, as the scripts that sample from it do."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.module(*args, **kwargs)


class _Res(nn.Module):
    def __init__(self, a: int, b: int, t: int) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, 1, 1)
        self.n2, self.c2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, 1, 1)
        self.time, self.skip = nn.Linear(t, b), nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.c1(F.silu(self.n1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class _Cross(nn.Module):
    """A spatial transformer: itself, the text, gated layers."""

    def __init__(self, d: int, text: int) -> None:
        super().__init__()
        self.norm, self.into, self.out = nn.GroupNorm(8, d), nn.Conv2d(d, d, 1), nn.Conv2d(d, d, 1)
        self.own = nn.MultiheadAttention(d, 4, batch_first=True)
        self.other = nn.MultiheadAttention(d, 4, kdim=text, vdim=text, batch_first=True)
        self.ns = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.ff, self.down = nn.Linear(d, 8 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        y = self.into(self.norm(x)).permute(0, 2, 3, 1).reshape(b, h * w, c)
        n = self.ns[0](y)
        y = y + self.own(n, n, n, need_weights=False)[0]
        y = y + self.other(self.ns[1](y), text, text, need_weights=False)[0]
        a, g = self.ff(self.ns[2](y)).chunk(2, -1)
        y = y + self.down(a * F.gelu(g))
        return x + self.out(y.reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous())


class _TextUnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.time = nn.Conv2d(4, 32, 3, 1, 1), nn.Linear(64, 128)
        self.r1, self.t1, self.d1 = _Res(32, 32, 128), _Cross(32, 96), nn.Conv2d(32, 32, 3, 2, 1)
        self.r2, self.t2, self.d2 = _Res(32, 64, 128), _Cross(64, 96), nn.Conv2d(64, 64, 3, 2, 1)
        self.m1, self.mt, self.m2 = _Res(64, 64, 128), _Cross(64, 96), _Res(64, 64, 128)
        self.u2, self.ut2, self.up2 = _Res(128, 64, 128), _Cross(64, 96), nn.Conv2d(64, 64, 3, 1, 1)
        self.u1, self.ut1 = _Res(96, 32, 128), _Cross(32, 96)
        self.norm, self.last, self.up3 = (
            nn.GroupNorm(8, 32),
            nn.Conv2d(32, 4, 3, 1, 1),
            nn.Conv2d(64, 64, 3, 1, 1),
        )

    def forward(self, x: torch.Tensor, t: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        f = torch.exp(torch.arange(32) * -(math.log(10000) / 31))
        e = t[:, None] * f
        t = self.time(torch.cat((e.sin(), e.cos()), 1))
        a = self.t1(self.r1(self.first(x), t), text)
        b = self.t2(self.r2(self.d1(a), t), text)
        m = self.m2(self.mt(self.m1(self.d2(b), t), text), t)
        m = self.up2(F.interpolate(m, scale_factor=2.0, mode="nearest"))
        m = self.ut2(self.u2(torch.cat([m, b], 1), t), text)
        m = self.up3(F.interpolate(m, scale_factor=2.0, mode="nearest"))
        m = self.ut1(self.u1(torch.cat([m, a], 1), t), text)
        return self.last(F.silu(self.norm(m)))


@model("text to image u-net")
def text_unet(batch: int = 2) -> Case:
    return _TextUnet(), (
        torch.randn(batch, 4, 32, 32),
        torch.rand(batch) * 1000,
        torch.randn(batch, 20, 96),
    )


class _Ddim(nn.Module):
    """Guided steps of a sampler in one forward, coefficients looked up in a table."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.net, self.steps = _Dit(96, 2, 16), steps
        beta = torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
        self.register_buffer("bar", torch.cumprod(1 - beta, 0))

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        ts = torch.linspace(999, 0, self.steps + 1).long()
        for i in range(self.steps):
            t, s = ts[i], ts[i + 1]
            both = torch.cat([x, x])
            labels = torch.cat([label, torch.full_like(label, 10)])
            e, e0 = self.net(both, t.expand(both.shape[0]), labels).chunk(2)
            e = e0 + 4.0 * (e - e0)
            at, as_ = self.bar[t], self.bar[s]
            x0 = ((x - (1 - at).sqrt() * e) / at.sqrt()).clamp(-3, 3)
            x = as_.sqrt() * x0 + (1 - as_).sqrt() * e
        return x


@model("ddim of four guided steps")
def ddim(batch: int = 1) -> Case:
    return _Ddim(4), (torch.randn(batch, 4, 16, 16), torch.randint(0, 10, (batch,)))


class _VaeDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.mid = (
            nn.Conv2d(4, 64, 3, 1, 1),
            nn.ModuleList([_Plain(64, 64), _Plain(64, 64)]),
        )
        self.norm, self.q, self.k, self.v, self.o = (
            nn.GroupNorm(32, 64, 1e-6),
            *(nn.Conv2d(64, 64, 1) for _ in range(4)),
        )
        self.ups = nn.ModuleList(
            [_Plain(64, 64), nn.Conv2d(64, 64, 3, 1, 1), _Plain(64, 32), nn.Conv2d(32, 32, 3, 1, 1)]
        )
        self.last_norm, self.last = nn.GroupNorm(32, 32), nn.Conv2d(32, 3, 3, 1, 1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        h = self.mid[0](self.first(z / 0.18215))
        n = self.norm(h)
        b, c, y, x = h.shape
        q, k, v = (f(n).reshape(b, c, -1) for f in (self.q, self.k, self.v))
        w = torch.softmax(torch.bmm(q.transpose(1, 2), k) * c**-0.5, 2)
        h = h + self.o(torch.bmm(v, w.transpose(1, 2)).reshape(b, c, y, x))
        h = self.mid[1](h)
        for i in (0, 2):
            h = F.interpolate(self.ups[i](h), scale_factor=2, mode="nearest")
            h = self.ups[i + 1](h)
        return (self.last(F.silu(self.last_norm(h))) / 2 + 0.5).clamp(0, 1)


class _Plain(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, a, 1e-6), nn.Conv2d(a, b, 3, 1, 1)
        self.n2, self.c2 = nn.GroupNorm(32, b, 1e-6), nn.Conv2d(b, b, 3, 1, 1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.c1(F.silu(self.n1(x)))
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


@model("decoder of a latent")
def vae_decoder(batch: int = 1) -> Case:
    return _VaeDecoder(), (torch.randn(batch, 4, 24, 24),)


class _DeepLab(nn.Module):
    """Dilated filters beside each other and the image's mean, joined with early detail."""

    def __init__(self) -> None:
        super().__init__()

        def block(a: int, b: int, k: int, d: int = 1, s: int = 1) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(a, b, k, s, d * (k // 2), d, bias=False), nn.BatchNorm2d(b), nn.ReLU()
            )

        self.early = nn.Sequential(block(3, 32, 3, s=2), block(32, 48, 3, s=2))
        self.late = nn.Sequential(block(48, 96, 3, s=2), block(96, 96, 3, 2))
        self.aspp = nn.ModuleList([block(96, 64, 1), *(block(96, 64, 3, d) for d in (6, 12, 18))])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), block(96, 64, 1))
        self.project, self.low = block(320, 64, 1), block(48, 24, 1)
        self.last = nn.Sequential(block(88, 64, 3), nn.Conv2d(64, 21, 1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        low = self.early(x)
        high = self.late(low)
        size = high.shape[-2:]
        parts = [f(high) for f in self.aspp]
        parts.append(
            F.interpolate(self.pool(high), size=size, mode="bilinear", align_corners=False)
        )
        y = self.project(torch.cat(parts, 1))
        y = F.interpolate(y, size=low.shape[-2:], mode="bilinear", align_corners=False)
        y = self.last(torch.cat([y, self.low(low)], 1))
        y = F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return {"out": y, "mask": y.argmax(1)}


@model("deeplab v3+")
def deeplab(batch: int = 1) -> Case:
    return _DeepLab(), (torch.randn(batch, 3, 160, 160),)


class _Deform(nn.Module):
    """Deformable filters without the extension: nine shifted samplings and a product."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.offset, self.mask = nn.Conv2d(a, 18, 3, 1, 1), nn.Conv2d(a, 9, 3, 1, 1)
        self.weight = nn.Parameter(torch.randn(b, a, 9) * 0.05)
        nn.init.normal_(self.offset.weight, std=0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, _, h, w = x.shape
        off, mask = self.offset(x).view(b, 9, 2, h, w), torch.sigmoid(self.mask(x))
        ys, xs = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
        parts = []
        for i in range(9):
            dy, dx = i // 3 - 1, i % 3 - 1
            gy = 2 * (ys + dy + off[:, i, 0]) / (h - 1) - 1
            gx = 2 * (xs + dx + off[:, i, 1]) / (w - 1) - 1
            s = F.grid_sample(x, torch.stack([gx, gy], -1), align_corners=True)
            parts.append(s * mask[:, i : i + 1])
        return F.relu(torch.einsum("bckhw,ock->bohw", torch.stack(parts, 2), self.weight))


@model("deformable filters by grid_sample")
def deform(batch: int = 1) -> Case:
    return nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), _Deform(32, 32), _Deform(32, 48)), (
        torch.randn(batch, 3, 96, 96),
    )


class _Rcab(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(d, d, 3, 1, 1), nn.ReLU(True), nn.Conv2d(d, d, 3, 1, 1))
        self.att = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(d, d // 8, 1), nn.ReLU(True),
                                 nn.Conv2d(d // 8, d, 1), nn.Sigmoid())  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return x + y * self.att(y)


class _Rcan(nn.Module):
    """Channel attention and pixel shuffles, over what a bicubic resize gives."""

    def __init__(self, d: int, blocks: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, d, 3, 1, 1)
        self.blocks = nn.Sequential(*[_Rcab(d) for _ in range(blocks)], nn.Conv2d(d, d, 3, 1, 1))
        self.up = nn.Sequential(
            nn.Conv2d(d, 4 * d, 3, 1, 1),
            nn.PixelShuffle(2),
            nn.Conv2d(d, 4 * d, 3, 1, 1),
            nn.PixelShuffle(2),
            nn.Conv2d(d, 3, 3, 1, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        base = F.interpolate(x, scale_factor=4, mode="bicubic", align_corners=False)
        h = self.first(x)
        return (base + self.up(h + self.blocks(h))).clamp(0, 1)


@model("rcan upscaling")
def rcan(batch: int = 1) -> Case:
    return _Rcan(32, 4), (torch.rand(batch, 3, 40, 40),)


class _Critic(nn.Module):
    """A projection discriminator under spectral norms, minibatch deviation."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            spectral_norm(nn.Conv2d(a, b, 4, 2, 1)) for a, b in ((3, d), (d, 2 * d), (2 * d, 4 * d))
        )
        self.last, self.embed = (
            spectral_norm(nn.Linear(4 * d + 1, 1)),
            spectral_norm(nn.Embedding(10, 4 * d)),
        )

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.2)
        std = torch.sqrt(x.var(0, unbiased=False) + 1e-8).mean().view(1, 1).expand(x.shape[0], 1)
        h = x.sum((2, 3))
        return self.last(torch.cat([h, std], 1)) + (self.embed(y) * h).sum(1, keepdim=True)


@model("critic with spectral norms")
def critic(batch: int = 8) -> Case:
    return _Critic(48), (torch.randn(batch, 3, 64, 64), torch.randint(0, 10, (batch,)))


class _Nerf(nn.Module):
    """Rays: coarse samples, fine ones where the first saw something, composed to colours."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.a = nn.ModuleList(
            [nn.Linear(39, d), *[nn.Linear(d, d) for _ in range(2)], nn.Linear(d + 39, d)]
        )
        self.sigma, self.feature = nn.Linear(d, 1), nn.Linear(d, d)
        self.view, self.rgb = nn.Linear(d + 27, d // 2), nn.Linear(d // 2, 3)

    def embed(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.cat(
            [x, *(f(x * 2.0**i) for i in range(n) for f in (torch.sin, torch.cos))], -1
        )

    def query(self, o: torch.Tensor, d: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pts = self.embed(o[:, None] + d[:, None] * z[..., None], 6)
        h = pts
        for i, layer in enumerate(self.a):
            h = F.relu(layer(torch.cat([pts, h], -1) if i == 3 else h))
        view = self.embed(F.normalize(d, dim=-1), 4)[:, None].expand(-1, z.shape[1], -1)
        rgb = torch.sigmoid(self.rgb(F.relu(self.view(torch.cat([self.feature(h), view], -1)))))
        return rgb, F.relu(self.sigma(h).squeeze(-1))

    def weigh(self, sigma: torch.Tensor, z: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        gap = torch.cat([z[..., 1:] - z[..., :-1], torch.full_like(z[..., :1], 1e10)], -1)
        alpha = 1 - torch.exp(-sigma * gap * d.norm(dim=-1, keepdim=True))
        t = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)
        return alpha * t[:, :-1]

    def forward(self, o: torch.Tensor, d: torch.Tensor) -> dict[str, torch.Tensor]:
        z = torch.linspace(2, 6, 32).expand(o.shape[0], 32)
        _, sigma = self.query(o, d, z)
        w = self.weigh(sigma, z, d)
        mid, pdf = 0.5 * (z[:, 1:] + z[:, :-1]), w[:, 1:-1] + 1e-5
        cdf = torch.cumsum(pdf / pdf.sum(-1, keepdim=True), -1)
        cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
        u = torch.linspace(0.0, 1.0, 32).expand(o.shape[0], 32).contiguous()
        at = torch.searchsorted(cdf, u, right=True)
        below, above = (at - 1).clamp(min=0), at.clamp(max=cdf.shape[-1] - 1)
        both = torch.stack([below, above], -1)
        shape = [*both.shape[:2], cdf.shape[-1]]
        cg = torch.gather(cdf.unsqueeze(1).expand(shape), 2, both)
        bg = torch.gather(mid.unsqueeze(1).expand(shape), 2, both)
        den = cg[..., 1] - cg[..., 0]
        den = torch.where(den < 1e-5, torch.ones_like(den), den)
        fine = bg[..., 0] + (u - cg[..., 0]) / den * (bg[..., 1] - bg[..., 0])
        z, _ = torch.sort(torch.cat([z, fine], -1), -1)
        rgb, sigma = self.query(o, d, z)
        w = self.weigh(sigma, z, d)
        return {"rgb": (w[..., None] * rgb).sum(1), "depth": (w * z).sum(-1), "acc": w.sum(-1)}


@model("nerf with fine samples")
def nerf(batch: int = 96) -> Case:
    return _Nerf(96), (torch.randn(batch, 3), torch.randn(batch, 3))


class _Splats(nn.Module):
    """Gaussians projected, sorted by depth, blended over all pixels of a tile."""

    def forward(
        self, mean: torch.Tensor, scale: torch.Tensor, quat: torch.Tensor, colour: torch.Tensor,
        opacity: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        r, x, y, z = F.normalize(quat, dim=-1).unbind(-1)
        rot = torch.stack([
            1 - 2 * (y * y + z * z), 2 * (x * y - r * z), 2 * (x * z + r * y),
            2 * (x * y + r * z), 1 - 2 * (x * x + z * z), 2 * (y * z - r * x),
            2 * (x * z - r * y), 2 * (y * z + r * x), 1 - 2 * (x * x + y * y),
        ], -1).view(-1, 3, 3)  # fmt: skip
        m = rot * scale.exp()[:, None]
        cov = m @ m.mT
        depth = mean[:, 2] + 4
        f = 40.0
        j = torch.zeros(mean.shape[0], 2, 3)
        j[:, 0, 0] = j[:, 1, 1] = f / depth
        j[:, :, 2] = -f * mean[:, :2] / depth[:, None] ** 2
        cov2 = j @ cov @ j.mT + 0.3 * torch.eye(2)
        centre = f * mean[:, :2] / depth[:, None] + 24
        inv = torch.linalg.inv(cov2)
        order = depth.argsort()
        centre, inv, colour, opacity = (t[order] for t in (centre, inv, colour, opacity))
        g = torch.stack(torch.meshgrid(torch.arange(48.0), torch.arange(48.0), indexing="xy"), -1)
        d = g.view(-1, 1, 2) - centre
        power = -0.5 * torch.einsum("pni,nij,pnj->pn", d, inv, d)
        alpha = (torch.sigmoid(opacity) * torch.exp(power)).clamp(max=0.99)
        t = torch.cumprod(torch.cat([torch.ones(alpha.shape[0], 1), 1 - alpha[:, :-1]], 1), 1)
        return ((alpha * t) @ torch.sigmoid(colour)).view(48, 48, 3)


@model("splats sorted by depth")
def splats(batch: int = 200) -> Case:
    return _Splats(), (torch.randn(batch, 3), torch.randn(batch, 3) * 0.3 - 2,
                       torch.randn(batch, 4),
                       torch.randn(batch, 3), torch.randn(batch))  # fmt: skip
