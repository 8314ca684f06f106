"""Motion: fields from gradients, flows, arms, cloth, fixed points, particles, fluids, prices; with
`torch.func` mapped over samples."""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.func import grad, jacfwd, jvp, vmap
from torch.nn import functional as F


# ---------------------------------------------------------- hamiltonian networks by torch.func
class _Hamiltonian(nn.Module):
    """A field from the gradient of a scalar network, each sample by vmap, leapfrog steps."""

    def __init__(self, d: int, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.net = nn.Sequential(
            nn.Linear(2 * d, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def h(self, z: torch.Tensor) -> torch.Tensor:
        return self.net(z).squeeze(-1) + 0.5 * z.pow(2).sum()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        field = vmap(grad(self.h))
        q, p = z.chunk(2, -1)
        for _ in range(self.steps):
            dq, _ = field(torch.cat([q, p], -1)).chunk(2, -1)
            p = p - 0.05 * dq
            _, dp = field(torch.cat([q, p], -1)).chunk(2, -1)
            q = q + 0.1 * dp
            dq, _ = field(torch.cat([q, p], -1)).chunk(2, -1)
            p = p - 0.05 * dq
        return torch.cat([q, p], -1)


@model("hamiltonian network by vmap of grad", trained=True)
def hamiltonian(batch: int = 128) -> Case:
    return _Hamiltonian(4, 128, 3), (torch.randn(batch, 8),)


# ------------------------------------------------------------------------ continuous flow by jvp
class _Continuous(nn.Module):
    """FFJORD: midpoint steps of a field and of its trace, estimated by a jvp with given noise."""

    def __init__(self, d: int, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.a, self.b, self.c = (
            nn.Linear(d + 1, width),
            nn.Linear(width, width),
            nn.Linear(width, d),
        )

    def field(self, x: torch.Tensor, t: float) -> torch.Tensor:
        x = torch.cat([x, torch.full_like(x[:, :1], t)], 1)
        return self.c(F.softplus(self.b(F.softplus(self.a(x)))))

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        dt, logp = 1 / self.steps, torch.zeros(x.shape[0])
        for i in range(self.steps):
            half = x + 0.5 * dt * self.field(x, i * dt)
            dx, jv = jvp(lambda y, t=(i + 0.5) * dt: self.field(y, t), (half,), (noise,))
            x = x + dt * dx
            logp = logp - dt * (jv * noise).sum(-1)
        return -0.5 * (x**2).sum(-1) - logp


@model("continuous flow with traces by jvp", trained=True)
def continuous(batch: int = 256) -> Case:
    return _Continuous(16, 96, 6), (torch.randn(batch, 16), torch.randn(batch, 16).sign())


# ------------------------------------------------------------------ arm: kinematics and its inverse
class _InverseKinematics(nn.Module):
    """Levenberg-Marquardt on the joint angles of an arm; Jacobians by forward mode, mapped."""

    links: torch.Tensor

    def __init__(self, joints: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.register_buffer("links", torch.rand(joints, 3) * 0.3 + 0.1)
        axes = F.normalize(torch.randn(joints, 3), dim=-1)
        zero = torch.zeros(joints)
        x, y, z = axes.unbind(-1)
        skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).view(-1, 3, 3)
        self.register_buffer("skew", skew)

    def reach(self, q: torch.Tensor) -> torch.Tensor:
        rot, at = torch.eye(3), torch.zeros(3)
        for k, link, angle in zip(self.skew, self.links, q, strict=True):
            rot = rot @ (torch.eye(3) + torch.sin(angle) * k + (1 - torch.cos(angle)) * k @ k)
            at = at + rot @ link
        return at

    def forward(self, q: torch.Tensor, goal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        damp = 1e-2 * torch.eye(q.shape[1])
        for _ in range(self.steps):
            e = goal - vmap(self.reach)(q)
            j = vmap(jacfwd(self.reach))(q)
            q = q + torch.linalg.solve(j.mT @ j + damp, j.mT @ e[..., None]).squeeze(-1)
        return q, (goal - vmap(self.reach)(q)).norm(dim=-1)


@model("inverse kinematics by jacfwd")
def kinematics(batch: int = 64) -> Case:
    return _InverseKinematics(6, 3), (torch.randn(batch, 6) * 0.3, torch.rand(batch, 3))


# ---------------------------------------------------------------------------------------- cloth
class _Cloth(nn.Module):
    def __init__(self, n: int, steps: int) -> None:
        super().__init__()
        self.n, self.steps = n, steps
        self.stiff = nn.Parameter(torch.tensor([800.0, 400.0, 200.0]))
        self.damp = nn.Parameter(torch.tensor(0.98))

    def forward(self, x: torch.Tensor, wind: torch.Tensor) -> torch.Tensor:
        v, dt = torch.zeros_like(x), 0.004
        ways = (((0, 1), 0), ((1, 0), 0), ((1, 1), 1), ((0, 2), 2), ((2, 0), 2))
        for t in range(self.steps):
            f = torch.zeros_like(x)
            f[..., 1] -= 9.81
            f = f + wind[:, t, None, None]
            for (dy, dx), kind in ways:
                a, b = x[:, dy:, dx:], x[:, : self.n - dy, : self.n - dx]
                d = a - b
                length = d.norm(dim=-1, keepdim=True).clamp(min=1e-6)
                pull = self.stiff[kind] * (length - math.hypot(dy, dx) / self.n) * d / length
                f[:, dy:, dx:] -= pull
                f[:, : self.n - dy, : self.n - dx] += pull
            v = (v + dt * f) * self.damp
            v[:, 0, 0] = 0
            v[:, 0, -1] = 0
            x = x + dt * v
        return x


@model("cloth of springs", trained=True)
def cloth(batch: int = 4) -> Case:
    y, x = torch.meshgrid(torch.linspace(0, 1, 20), torch.linspace(0, 1, 20), indexing="ij")
    grid = torch.stack([x, -y, torch.zeros_like(x)], -1).repeat(batch, 1, 1, 1)
    return _Cloth(20, 8), (grid + 0.01 * torch.randn_like(grid), torch.randn(batch, 8, 3))


# ------------------------------------------------------------------- deep equilibrium with Anderson
class _Equilibrium(nn.Module):
    def __init__(self, c: int, steps: int, m: int = 4) -> None:
        super().__init__()
        self.steps, self.m = steps, m
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n1, self.n2, self.n3 = (nn.GroupNorm(4, c) for _ in range(3))

    def f(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = self.n1(F.relu(self.c1(z)))
        return self.n3(F.relu(z + self.n2(x + self.c2(y))))

    def forward(self, x0: torch.Tensor) -> torch.Tensor:
        b, d, h, w = x0.shape
        m = self.m
        X, Fx = (torch.zeros(b, m, d * h * w, dtype=x0.dtype) for _ in range(2))
        X[:, 0], Fx[:, 0] = 0.0, self.f(torch.zeros_like(x0), x0).reshape(b, -1)
        X[:, 1], Fx[:, 1] = Fx[:, 0], self.f(Fx[:, 0].reshape_as(x0), x0).reshape(b, -1)
        H = torch.zeros(b, m + 1, m + 1)
        H[:, 0, 1:] = H[:, 1:, 0] = 1
        y = torch.zeros(b, m + 1, 1)
        y[:, 0] = 1
        for k in range(2, self.steps):
            n = min(k, m)
            G = Fx[:, :n] - X[:, :n]
            H[:, 1 : n + 1, 1 : n + 1] = torch.bmm(G, G.transpose(1, 2)) + 1e-4 * torch.eye(n)[None]
            alpha = torch.linalg.solve(H[:, : n + 1, : n + 1], y[:, : n + 1])[:, 1 : n + 1, 0]
            X[:, k % m] = (alpha[:, None] @ Fx[:, :n])[:, 0]
            Fx[:, k % m] = self.f(X[:, k % m].reshape_as(x0), x0).reshape(b, -1)
        return X[:, (self.steps - 1) % m].view_as(x0)


@model("deep equilibrium by anderson")
def equilibrium(batch: int = 2) -> Case:
    return _Equilibrium(24, 8), (torch.randn(batch, 24, 16, 16),)


# ------------------------------------------------------------------- particles in a box, float64
class _LennardJones(nn.Module):
    def __init__(self, box: float, steps: int) -> None:
        super().__init__()
        self.box, self.steps = box, steps

    def forces(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        d = x[:, None] - x[None]
        d = d - self.box * torch.round(d / self.box)
        r2 = d.pow(2).sum(-1)
        r2 = r2 + torch.eye(x.shape[0], dtype=x.dtype) * 1e6
        near = r2 < 6.25
        inv6 = torch.where(near, r2, torch.inf).pow(-3)
        f = (48 * inv6 * (inv6 - 0.5) / r2)[..., None] * d
        return f.sum(1), (4 * inv6 * (inv6 - 1)).sum() / 2

    def forward(self, x: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        f, u = self.forces(x)
        energies = [u]
        for _ in range(self.steps):
            v = v + 0.001 * f
            x = torch.remainder(x + 0.002 * v, self.box)
            f, u = self.forces(x)
            v = v + 0.001 * f
            scale = torch.sqrt(1.0 / (v.pow(2).sum() / (3 * x.shape[0])))
            v = v * (1 + 0.1 * (scale - 1))
            energies.append(u)
        return {"x": x, "v": v, "energy": torch.stack(energies)}


@model("lennard-jones particles, float64")
def lennard_jones(batch: int = 216) -> Case:
    g = torch.arange(6, dtype=torch.float64) * 1.2
    x = torch.cartesian_prod(g, g, g)[:batch]
    return _LennardJones(7.2, 5), (
        x + 0.05 * torch.randn_like(x),
        torch.randn(batch, 3, dtype=torch.float64),
    )


# ----------------------------------------------------------------- vorticity by spectra, float64
class _NavierStokes(nn.Module):
    lap: torch.Tensor
    kx: torch.Tensor
    ky: torch.Tensor
    keep: torch.Tensor

    def __init__(self, n: int, steps: int) -> None:
        super().__init__()
        self.n, self.steps = n, steps
        k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        ky, kx = torch.meshgrid(k, k[: n // 2 + 1].abs(), indexing="ij")
        lap = 4 * math.pi**2 * (kx**2 + ky**2)
        lap[0, 0] = 1.0
        self.register_buffer("kx", kx)
        self.register_buffer("ky", ky)
        self.register_buffer("lap", lap)
        self.register_buffer("keep", ((kx.abs() < n / 3) & (ky.abs() < n / 3)).double())

    def forward(self, w: torch.Tensor, force: torch.Tensor) -> torch.Tensor:
        wh, fh = torch.fft.rfft2(w), torch.fft.rfft2(force)
        dt, nu, size = 1e-3, 1e-3, (self.n, self.n)
        for _ in range(self.steps):
            psi = wh / self.lap
            u = torch.fft.irfft2(2j * math.pi * self.ky * psi, s=size)
            v = torch.fft.irfft2(-2j * math.pi * self.kx * psi, s=size)
            wx = torch.fft.irfft2(2j * math.pi * self.kx * wh, s=size)
            wy = torch.fft.irfft2(2j * math.pi * self.ky * wh, s=size)
            adv = torch.fft.rfft2(u * wx + v * wy) * self.keep
            wh = (-dt * adv + dt * fh + (1 - 0.5 * dt * nu * self.lap) * wh) / (
                1 + 0.5 * dt * nu * self.lap
            )
        return torch.fft.irfft2(wh, s=size)


@model("navier-stokes by spectra, float64")
def navier_stokes(batch: int = 2) -> Case:
    return _NavierStokes(64, 6), (
        torch.randn(batch, 64, 64, dtype=torch.float64),
        torch.randn(64, 64, dtype=torch.float64),
    )


# --------------------------------------------------------------------- options and their greeks
class _Greeks(nn.Module):
    """Heston paths with given draws; delta and vega of each contract by vmap of grad."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def price(
        self, spot: torch.Tensor, vol: torch.Tensor, strike: torch.Tensor, z: torch.Tensor
    ) -> torch.Tensor:
        dt = 1 / self.steps
        s, v = torch.log(spot) + torch.zeros(z.shape[2]), vol**2 + torch.zeros(z.shape[2])
        for i in range(self.steps):
            z1, z2 = z[0, i], -0.7 * z[0, i] + math.sqrt(1 - 0.49) * z[1, i]
            pos = v.clamp(min=1e-6)
            s = s + (0.02 - 0.5 * pos) * dt + torch.sqrt(pos * dt) * z1
            v = v + 1.5 * (0.04 - pos) * dt + 0.3 * torch.sqrt(pos * dt) * z2
        return math.exp(-0.02) * F.softplus((torch.exp(s) - strike) * 20).mean() / 20

    def forward(
        self, spot: torch.Tensor, vol: torch.Tensor, strike: torch.Tensor, z: torch.Tensor
    ) -> Any:
        fn = torch.func.grad_and_value(self.price, argnums=(0, 1))
        (delta, vega), value = vmap(fn, in_dims=(0, 0, 0, None))(spot, vol, strike, z)
        return value, delta, vega


@model("greeks of options by vmap of grad")
def greeks(batch: int = 16) -> Case:
    return _Greeks(12), (
        torch.rand(batch) + 0.5, torch.rand(batch) * 0.2 + 0.1, torch.rand(batch) + 0.5,
        torch.randn(2, 12, 1000),
    )  # fmt: skip
