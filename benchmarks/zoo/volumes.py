"""Volumes and rays: scans of patients laid upon each other, cut into slabs or read from spectra,
hashed grids and surfaces along rays."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


# ------------------------------ registration of volumes
class _Registration(nn.Module):
    """A velocity field by a 3D U-Net, squared into a displacement, the moving volume warped."""

    def __init__(self, c: int, squarings: int) -> None:
        super().__init__()
        self.k = squarings

        def conv(a: int, b: int, s: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.Conv3d(a, b, 3, s, 1), nn.LeakyReLU(0.2))

        self.d1, self.d2, self.d3 = conv(2, c, 2), conv(c, 2 * c, 2), conv(2 * c, 2 * c, 2)
        self.u2, self.u1 = conv(4 * c, 2 * c), conv(3 * c, c)
        self.flow = nn.Conv3d(c + 2, 3, 3, padding=1)

    def warp(self, x: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        size = flow.shape[2:]
        grid = torch.stack(torch.meshgrid([torch.arange(0, s) for s in size], indexing="ij"))
        at = grid.unsqueeze(0).float() + flow
        for i in range(3):
            at[:, i] = 2 * (at[:, i] / (size[i] - 1) - 0.5)
        at = at.permute(0, 2, 3, 4, 1)[..., [2, 1, 0]]
        return F.grid_sample(x, at, align_corners=True, mode="bilinear")

    def forward(
        self, moving: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.cat([moving, fixed], 1)
        a = self.d1(x)
        b = self.d2(a)
        y = F.interpolate(self.d3(b), scale_factor=2, mode="trilinear", align_corners=False)
        y = F.interpolate(self.u2(torch.cat([y, b], 1)), scale_factor=2)
        y = F.interpolate(self.u1(torch.cat([y, a], 1)), scale_factor=2)
        flow = self.flow(torch.cat([y, x], 1)) * 0.1 / 2**self.k
        for _ in range(self.k):
            flow = flow + self.warp(flow, flow)
        return self.warp(moving, flow), flow


@model("registration of volumes", trained=True)
def registration(batch: int = 1) -> Case:
    return _Registration(8, 3), (torch.rand(batch, 1, 32, 32, 24), torch.rand(batch, 1, 32, 32, 24))


# ------------------------------ slabs of a volume with gaussian weights
class _SlidingWindow(nn.Module):
    importance: torch.Tensor

    def __init__(self, c: int, patch: int) -> None:
        super().__init__()
        self.p = patch

        def block(a: int, b: int, s: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv3d(a, b, 3, s, 1),
                nn.InstanceNorm3d(b, affine=True),
                nn.LeakyReLU(0.01, True),
                nn.Conv3d(b, b, 3, 1, 1),
                nn.InstanceNorm3d(b, affine=True),
                nn.LeakyReLU(0.01, True),
            )

        self.e1, self.e2, self.e3 = block(1, c, 1), block(c, 2 * c, 2), block(2 * c, 4 * c, 2)
        self.t2, self.t1 = (
            nn.ConvTranspose3d(4 * c, 2 * c, 2, 2),
            nn.ConvTranspose3d(2 * c, c, 2, 2),
        )
        self.d2, self.d1, self.head = block(4 * c, 2 * c, 1), block(2 * c, c, 1), nn.Conv3d(c, 3, 1)
        g = torch.exp(-0.5 * ((torch.arange(patch) - (patch - 1) / 2) / (patch / 8)) ** 2)
        self.register_buffer("importance", (g[:, None, None] * g[:, None] * g).clamp(min=1e-3))

    def net(self, x: torch.Tensor) -> torch.Tensor:
        a = self.e1(x)
        b = self.e2(a)
        y = self.d2(torch.cat([self.t2(self.e3(b)), b], 1))
        return self.head(self.d1(torch.cat([self.t1(y), a], 1)))

    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        p, (z, y, x) = self.p, volume.shape[2:]
        total = torch.zeros(volume.shape[0], 3, z, y, x)
        count = torch.zeros(z, y, x)
        for i in range(0, z - p + 1, p // 2):
            for j in range(0, y - p + 1, p // 2):
                for k in range(0, x - p + 1, p // 2):
                    at = (slice(i, i + p), slice(j, j + p), slice(k, k + p))
                    total[(..., *at)] += self.net(volume[(..., *at)]) * self.importance
                    count[at] += self.importance
        return (total / count).argmax(1)


@model("slabs of a volume, weighted")
def sliding_window(batch: int = 1) -> Case:
    return _SlidingWindow(8, 16), (torch.randn(batch, 1, 24, 24, 24),)


# ------------------------------ unrolled magnetic resonance
class _Unrolled(nn.Module):
    def __init__(self, c: int, cascades: int) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(2, c, 3, 1, 1),
                nn.InstanceNorm2d(c),
                nn.LeakyReLU(0.2),
                nn.Conv2d(c, c, 3, 1, 1),
                nn.InstanceNorm2d(c),
                nn.LeakyReLU(0.2),
                nn.Conv2d(c, 2, 1),
            )
            for _ in range(cascades)
        )
        self.weight = nn.Parameter(torch.ones(cascades))

    @staticmethod
    def fft(x: torch.Tensor, inverse: bool) -> torch.Tensor:
        x = torch.fft.ifftshift(x, dim=(-2, -1))
        x = torch.fft.ifft2(x, norm="ortho") if inverse else torch.fft.fft2(x, norm="ortho")
        return torch.fft.fftshift(x, dim=(-2, -1))

    def forward(self, kspace: torch.Tensor, mask: torch.Tensor, maps: torch.Tensor) -> torch.Tensor:
        ref = torch.view_as_complex(kspace)
        sens = torch.view_as_complex(maps)
        k = ref.clone()
        for i, net in enumerate(self.nets):
            soft = torch.where(mask, k - ref, torch.zeros(1, dtype=k.dtype)) * self.weight[i]
            image = (self.fft(k, True) * sens.conj()).sum(1)
            y = torch.view_as_real(image).permute(0, 3, 1, 2)
            mean, std = y.mean((1, 2, 3), keepdim=True), y.std((1, 2, 3), keepdim=True)
            y = net((y - mean) / std) * std + mean
            y = torch.view_as_complex(y.permute(0, 2, 3, 1).contiguous())
            k = k - soft - self.fft(y[:, None] * sens, False)
        return self.fft(k, True).abs().pow(2).sum(1).sqrt()


@model("unrolled magnetic resonance", trained=True)
def unrolled(batch: int = 1) -> Case:
    mask = torch.rand(1, 1, 1, 64) < 0.4
    return _Unrolled(24, 2), (
        torch.randn(batch, 4, 64, 64, 2) * mask[..., None],
        mask,
        torch.randn(batch, 4, 64, 64, 2) / 4,
    )


# ------------------------------ hashed grids along rays
class _HashGrid(nn.Module):
    def __init__(self, levels: int, size: int, features: int, samples: int) -> None:
        super().__init__()
        self.size, self.samples = size, samples
        self.table = nn.Parameter(torch.randn(levels, size, features) * 1e-2)
        self.res = [int(16 * 1.4**i) for i in range(levels)]
        self.register_buffer(
            "corner", torch.tensor([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        )
        self.sigma = nn.Sequential(nn.Linear(levels * features, 64), nn.ReLU(), nn.Linear(64, 16))
        self.rgb = nn.Sequential(nn.Linear(16 + 9, 64), nn.ReLU(), nn.Linear(64, 3))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for level, r in enumerate(self.res):
            at = x * r
            low = at.floor().long()
            frac = (at - low)[:, None]
            c = low[:, None] + self.corner
            h = (c[..., 0] ^ (c[..., 1] * 2654435761) ^ (c[..., 2] * 805459861)) % self.size
            w = torch.where(self.corner.bool(), frac, 1 - frac).prod(-1, keepdim=True)
            found.append((self.table[level][h] * w).sum(1))
        return torch.cat(found, -1)

    def forward(self, origin: torch.Tensor, ray: torch.Tensor) -> torch.Tensor:
        n = ray.shape[0]
        t = torch.linspace(0.1, 1.0, self.samples)
        x = (origin[:, None] + ray[:, None] * t[:, None]).clamp(0, 1).view(-1, 3)
        h = self.sigma(self.encode(x))
        a, b, c = ray.unbind(-1)
        sh = torch.stack(
            [torch.ones_like(a), a, b, c, a * b, b * c, a * c, a * a - b * b, 3 * c * c - 1], -1
        )
        rgb = self.rgb(torch.cat([h, sh.repeat_interleave(self.samples, 0)], -1)).sigmoid()
        alpha = 1 - torch.exp(-F.softplus(h[:, 0].view(n, -1)) * 0.9 / self.samples)
        through = torch.cumprod(torch.cat([torch.ones(n, 1), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weight = alpha * through
        out = (weight[..., None] * rgb.view(n, -1, 3)).sum(1)
        return torch.cat(
            [out + 1 - weight.sum(-1, keepdim=True), (weight * t).sum(-1, keepdim=True)], -1
        )


@model("hashed grids along rays", trained=True)
def hash_grid(batch: int = 256) -> Case:
    return _HashGrid(8, 2**14, 2, 24), (
        torch.rand(batch, 3),
        F.normalize(torch.rand(batch, 3), dim=-1),
    )


# ------------------------------ surfaces traced by spheres, normals by grad
class _SphereTracer(nn.Module):
    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.layers = nn.ModuleList(
            [
                nn.Linear(39, width),
                nn.Linear(width, width),
                nn.Linear(width + 39, width),
                nn.Linear(width, 1),
            ]
        )

    def sdf(self, x: torch.Tensor) -> torch.Tensor:
        waves = x[..., None] * 2.0 ** torch.arange(6)
        e = torch.cat([x, torch.sin(waves).flatten(-2), torch.cos(waves).flatten(-2)], -1)
        h = F.softplus(self.layers[0](e), beta=100)
        h = F.softplus(self.layers[1](h), beta=100)
        h = F.softplus(self.layers[2](torch.cat([h, e], -1) / math.sqrt(2)), beta=100)
        return x.norm(dim=-1) - 0.6 + 0.05 * self.layers[3](h).squeeze(-1)

    def forward(self, origin: torch.Tensor, ray: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        t = torch.zeros(ray.shape[0])
        alive = torch.ones_like(t, dtype=torch.bool)
        for _ in range(self.steps):
            d = self.sdf(origin + t[:, None] * ray)
            t = torch.where(alive, t + d, t)
            alive = alive & (d.abs() > 1e-4) & (t < 4.0)
        hit = origin + t[:, None] * ray
        normal = torch.func.grad(lambda p: self.sdf(p).sum())(hit)
        normal = F.normalize(normal, dim=-1)
        shade = (normal @ F.normalize(torch.tensor([1.0, 1.0, -1.0]), dim=0)).clamp(min=0)
        return shade * (t < 4.0), t


@model("spheres traced to a surface")
def sphere_tracer(batch: int = 512) -> Case:
    origin = torch.tensor([0.0, 0.0, -2.0]).expand(batch, 3)
    xy = torch.rand(batch, 2) - 0.5
    ray = F.normalize(torch.cat([xy, torch.ones(batch, 1)], 1), dim=-1)
    return _SphereTracer(96, 6), (origin, ray)
