"""Models of matter: proteins, molecules, forces as gradients of energies, graphs of atoms."""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


# ------------------------------------------------------------------------ pairs of residues
class _TriangleMultiplication(nn.Module):
    def __init__(self, c: int, outgoing: bool) -> None:
        super().__init__()
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"
        self.norm, self.norm_out = nn.LayerNorm(c), nn.LayerNorm(c)
        self.ab, self.ab_gate = nn.Linear(c, 2 * c), nn.Linear(c, 2 * c)
        self.gate, self.out = nn.Linear(c, c), nn.Linear(c, c)

    def forward(self, z: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(z)
        a, b = ((self.ab_gate(x).sigmoid() * self.ab(x)) * mask[..., None]).chunk(2, -1)
        y = torch.einsum(self.equation, a, b)
        return z + self.out(self.norm_out(y)) * self.gate(x).sigmoid()


class _TriangleAttention(nn.Module):
    def __init__(self, c: int, h: int, starting: bool) -> None:
        super().__init__()
        self.h, self.starting = h, starting
        self.norm, self.bias = nn.LayerNorm(c), nn.Linear(c, h, bias=False)
        self.qkv, self.gate, self.out = (
            nn.Linear(c, 3 * c, bias=False),
            nn.Linear(c, c),
            nn.Linear(c, c),
        )

    def forward(self, z: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = z if self.starting else z.transpose(1, 2)
        m = mask if self.starting else mask.transpose(1, 2)
        x = self.norm(x)
        b, i, j, c = x.shape
        q, k, v = self.qkv(x).view(b, i, j, 3, self.h, c // self.h).permute(3, 0, 1, 4, 2, 5)
        bias = self.bias(x).permute(0, 3, 1, 2)[:, None]
        a = torch.matmul(q * (c // self.h) ** -0.5, k.transpose(-1, -2))
        a = a + bias + (1e9 * (m - 1))[:, :, None, None, :]
        y = torch.matmul(a.softmax(-1), v).transpose(2, 3).reshape(b, i, j, c)
        y = self.out(y * self.gate(x).sigmoid())
        return z + (y if self.starting else y.transpose(1, 2))


class _Evoformer(nn.Module):
    def __init__(self, cm: int, cz: int) -> None:
        super().__init__()
        self.row_norm, self.row = nn.LayerNorm(cm), nn.Linear(cm, 3 * cm)
        self.pair_bias = nn.Linear(cz, 4, bias=False)
        self.opm_norm, self.opm = nn.LayerNorm(cm), nn.Linear(cm, 2 * 16)
        self.opm_out = nn.Linear(16 * 16, cz)
        self.tri = nn.ModuleList([
            _TriangleMultiplication(cz, True), _TriangleMultiplication(cz, False),
            _TriangleAttention(cz, 4, True), _TriangleAttention(cz, 4, False),
        ])  # fmt: skip
        self.trans = nn.Sequential(
            nn.LayerNorm(cz), nn.Linear(cz, 2 * cz), nn.ReLU(), nn.Linear(2 * cz, cz)
        )

    def forward(
        self, m: torch.Tensor, z: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        b, s, r, c = m.shape
        q, k, v = self.row(self.row_norm(m)).view(b, s, r, 3, 4, c // 4).permute(3, 0, 1, 4, 2, 5)
        bias = self.pair_bias(z).permute(0, 3, 1, 2)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(b, s, -1, -1, -1))
        m = m + y.transpose(2, 3).reshape(b, s, r, c)
        left, right = self.opm(self.opm_norm(m)).chunk(2, -1)
        outer = torch.einsum("bsic,bsjd->bijcd", left, right).flatten(3)
        z = z + self.opm_out(outer) / s
        for block in self.tri:
            z = block(z, mask)
        return z + self.trans(z), m


@model("evoformer with triangles", trained=True)
def evoformer(batch: int = 1) -> Case:
    mask = torch.ones(batch, 32, 32)
    mask[:, :, 28:] = 0
    return _Evoformer(64, 48), (
        torch.randn(batch, 12, 32, 64),
        torch.randn(batch, 32, 32, 48),
        mask,
    )


# --------------------------------------------------------------------- invariant point attention
class _PointAttention(nn.Module):
    def __init__(self, c: int, cz: int, h: int, pq: int, pv: int) -> None:
        super().__init__()
        self.h, self.c, self.pq, self.pv = h, c // h, pq, pv
        self.q, self.kv = nn.Linear(c, c), nn.Linear(c, 2 * c)
        self.qp, self.kvp = nn.Linear(c, h * pq * 3), nn.Linear(c, h * (pq + pv) * 3)
        self.b, self.head = nn.Linear(cz, h), nn.Parameter(torch.zeros(h))
        self.out = nn.Linear(h * (cz + c // h + pv * 4), c)
        self.move = nn.Linear(c, 6)

    def forward(
        self, s: torch.Tensor, z: torch.Tensor, rot: torch.Tensor, trans: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        n, h = s.shape[0], self.h
        for _ in range(2):
            q = self.q(s).view(n, h, -1)
            k, v = self.kv(s).view(n, h, -1).split(self.c, -1)

            def points(t: torch.Tensor, r: torch.Tensor = rot, d: torch.Tensor = trans) -> Any:
                t = torch.stack(torch.split(t, t.shape[-1] // 3, -1), -1)
                return torch.einsum("nij,npj->npi", r, t) + d[:, None]

            qp = points(self.qp(s)).view(n, h, self.pq, 3)
            kp, vp = points(self.kvp(s)).view(n, h, -1, 3).split([self.pq, self.pv], 2)
            a = torch.einsum("ihc,jhc->hij", q, k) * math.sqrt(1 / (3 * self.c))
            a = a + math.sqrt(1 / 3) * self.b(z).permute(2, 0, 1)
            d2 = (qp[:, None] - kp[None]).pow(2).sum(-1)
            weight = F.softplus(self.head) * math.sqrt(1 / (3 * (self.pq * 9 / 2)))
            a = a - 0.5 * (d2 * weight[:, None]).sum(-1).permute(2, 0, 1)
            a = a.softmax(-1)
            o = torch.einsum("hij,jhc->ihc", a, v).flatten(1)
            op = torch.einsum("hij,jhpx->ihpx", a, vp) - trans[:, None, None]
            op = torch.einsum("nji,nhpj->nhpi", rot, op)
            norm = torch.sqrt(op.pow(2).sum(-1) + 1e-8).flatten(1)
            oz = torch.einsum("hij,ijc->ihc", a, z).flatten(1)
            s = s + self.out(torch.cat([o, *op.flatten(1, 2).unbind(-1), norm, oz], -1))
            quat, t = self.move(s).split(3, -1)
            quat = F.normalize(F.pad(quat, (1, 0), value=1.0), dim=-1)
            w, x, y, zz = quat.unbind(-1)
            r = torch.stack([
                1 - 2 * (y * y + zz * zz), 2 * (x * y - w * zz), 2 * (x * zz + w * y),
                2 * (x * y + w * zz), 1 - 2 * (x * x + zz * zz), 2 * (y * zz - w * x),
                2 * (x * zz - w * y), 2 * (y * zz + w * x), 1 - 2 * (x * x + y * y),
            ], -1).view(n, 3, 3)  # fmt: skip
            trans = trans + torch.einsum("nij,nj->ni", rot, t)
            rot = rot @ r
        return s, rot, trans


@model("invariant points of a backbone", trained=True)
def points(batch: int = 64) -> Case:
    return _PointAttention(96, 32, 6, 4, 8), (
        torch.randn(batch, 96), torch.randn(batch, batch, 32),
        torch.eye(3).repeat(batch, 1, 1), torch.randn(batch, 3),
    )  # fmt: skip


# ----------------------------------------------------------------- directed messages of bonds
class _Directed(nn.Module):
    """Chemprop's: messages live on directed bonds, less what came the other way."""

    def __init__(self, atom: int, bond: int, d: int, depth: int) -> None:
        super().__init__()
        self.wi, self.wh = nn.Linear(atom + bond, d, bias=False), nn.Linear(d, d, bias=False)
        self.wo, self.depth = nn.Linear(atom + d, d), depth
        self.ffn = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 12))

    def forward(
        self, atoms: torch.Tensor, bonds: torch.Tensor, edges: torch.Tensor, which: torch.Tensor,
        molecules: int,
    ) -> torch.Tensor:  # fmt: skip
        src, dst = edges
        back = torch.arange(src.shape[0]).view(-1, 2).flip(1).flatten()
        h0 = self.wi(torch.cat([atoms[src], bonds], 1))
        h = F.relu(h0)
        for _ in range(self.depth):
            total = torch.zeros(atoms.shape[0], h.shape[1]).index_add_(0, dst, h)
            h = F.relu(h0 + self.wh(total[src] - h[back]))
        seen = torch.zeros(atoms.shape[0], h.shape[1]).index_add_(0, dst, h)
        hv = F.relu(self.wo(torch.cat([atoms, seen], 1)))
        index = which[:, None].expand_as(hv)
        out = torch.zeros(molecules, hv.shape[1]).scatter_reduce(
            0, index, hv, "mean", include_self=False
        )
        return self.ffn(out)


@model("directed messages of bonds", trained=True)
def directed(batch: int = 40) -> Case:
    atoms, bonds = batch * 20, batch * 22
    pair = torch.stack([torch.randint(0, atoms, (bonds,)), torch.randint(0, atoms, (bonds,))])
    edges = torch.stack([pair, pair.flip(0)], -1).flatten(1)
    which = torch.arange(batch).repeat_interleave(20)
    return _Directed(72, 14, 128, 3), (
        torch.randn(atoms, 72), torch.randn(2 * bonds, 14), edges, which, batch
    )  # fmt: skip


# --------------------------------------------------------------- forces as gradients of energies
class _Painn(nn.Module):
    def __init__(self, d: int, cutoff: float, layers: int) -> None:
        super().__init__()
        self.d, self.cutoff = d, cutoff
        self.emb = nn.Embedding(20, d)
        self.msg = nn.ModuleList(
            nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 3 * d)) for _ in range(layers)
        )
        self.filt = nn.ModuleList(nn.Linear(20, 3 * d) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(d, 2 * d, bias=False) for _ in range(layers))
        self.upd = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, 3 * d))
            for _ in range(layers)
        )
        self.out = nn.Sequential(nn.Linear(d, d // 2), nn.SiLU(), nn.Linear(d // 2, 1))

    def energy(self, pos: torch.Tensor, z: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
        i, j = edge
        s = self.emb(z)
        v = torch.zeros(s.shape[0], 3, self.d)
        vec = pos[i] - pos[j]
        dist = vec.norm(dim=1, keepdim=True)
        rbf = torch.sin(dist * torch.arange(1, 21) * math.pi / self.cutoff) / dist
        cut = 0.5 * (torch.cos(dist * math.pi / self.cutoff) + 1) * (dist < self.cutoff)
        for msg, filt, mix, upd in zip(self.msg, self.filt, self.mix, self.upd, strict=True):
            w = (msg(s)[j] * filt(rbf) * cut).split(self.d, 1)
            dv = v[j] * w[0][:, None] + w[2][:, None] * (vec / dist)[..., None]
            s = s + torch.zeros_like(s).index_add(0, i, w[1])
            v = v + torch.zeros_like(v).index_add(0, i, dv)
            vu, vv = mix(v).chunk(2, -1)
            a, b, c = upd(torch.cat([s, vv.norm(dim=1)], 1)).split(self.d, 1)
            s = s + a + b * (vu * vv).sum(1)
            v = v + vu * c[:, None]
        return self.out(s).sum()

    def forward(self, pos: torch.Tensor, z: torch.Tensor, edge: torch.Tensor) -> Any:
        force, energy = torch.func.grad_and_value(self.energy)(pos, z, edge)
        return -force, energy


@model("painn with forces")
def painn(batch: int = 60) -> Case:
    i = torch.arange(batch).repeat_interleave(12)
    j = (i + torch.arange(1, 13).repeat(batch)) % batch
    return _Painn(64, 5.0, 2), (
        torch.randn(batch, 3) * 2, torch.randint(0, 20, (batch,)), torch.stack([i, j])
    )  # fmt: skip


# ----------------------------------------------------------------------------------- graphormer
class _Graphormer(nn.Module):
    def __init__(self, d: int, h: int, layers: int) -> None:
        super().__init__()
        self.h = h
        self.atom, self.deg = nn.Embedding(64, d, padding_idx=0), nn.Embedding(10, d, padding_idx=0)
        self.spd, self.edge = nn.Embedding(20, h), nn.Embedding(16, h)
        self.hop = nn.Parameter(torch.randn(5, h, h) / h)
        self.token, self.virtual = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.randn(h))
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "n1": nn.LayerNorm(d), "attn": nn.MultiheadAttention(d, h, batch_first=True),
                "n2": nn.LayerNorm(d),
                "ff": nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)),
            })
            for _ in range(layers)
        )  # fmt: skip
        self.out = nn.Linear(d, 1)

    def forward(self, data: dict[str, torch.Tensor]) -> torch.Tensor:
        x, spd, path = data["x"], data["spatial_pos"], data["edge_input"]
        b, n = x.shape
        feats = self.atom(x) + self.deg(data["degree"])
        feats = torch.cat([self.token.expand(b, -1, -1), feats], 1)
        bias = torch.zeros(b, self.h, n + 1, n + 1)
        bias[:, :, 1:, 1:] = bias[:, :, 1:, 1:] + self.spd(spd).permute(0, 3, 1, 2)
        e = self.edge(path).mean(-2)  # b n n hops h
        hops = torch.einsum("bijkh,khg->bijg", e, self.hop) / spd.clamp(1, 5)[..., None]
        bias[:, :, 1:, 1:] = bias[:, :, 1:, 1:] + hops.permute(0, 3, 1, 2)
        bias[:, :, 1:, 0] += self.virtual.view(1, -1, 1)
        bias[:, :, 0, :] += self.virtual.view(1, -1, 1)
        pad = F.pad(x == 0, (1, 0), value=False)
        bias = bias.masked_fill(pad[:, None, None], float("-inf")).flatten(0, 1)
        for layer in self.layers:
            y = layer["n1"](feats)
            feats = feats + layer["attn"](y, y, y, attn_mask=bias, need_weights=False)[0]
            feats = feats + layer["ff"](layer["n2"](feats))
        return self.out(feats[:, 0])


@model("graphormer of a dict", trained=True)
def graphormer(batch: int = 8) -> Case:
    x = torch.randint(1, 64, (batch, 30))
    x[0, 22:] = 0
    return _Graphormer(96, 8, 3), ({
        "x": x, "degree": torch.randint(1, 10, (batch, 30)),
        "spatial_pos": torch.randint(0, 20, (batch, 30, 30)),
        "edge_input": torch.randint(0, 16, (batch, 30, 30, 5, 2)),
    },)  # fmt: skip
