"""Models trained by likelihoods and contrasts: a spline flow by masks, scores, rotations."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F

BINS, TAIL, LEAST = 8, 3.0, 1e-3


# ------------------------------------------------------ rational quadratic splines, nflows' way
def _knots(heights: torch.Tensor) -> torch.Tensor:
    shares = LEAST + (1 - LEAST * BINS) * F.softmax(heights, -1)
    knots = 2 * TAIL * F.pad(torch.cumsum(shares, -1), (1, 0)) - TAIL
    knots[..., 0], knots[..., -1] = -TAIL, TAIL
    return knots


def _spline(
    x: torch.Tensor, w: torch.Tensor, h: torch.Tensor, d: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    left, low, slope = _knots(w), _knots(h), LEAST + F.softplus(d)
    edges = left.clone()
    edges[..., -1] += 1e-6
    place = ((x[..., None] >= edges).sum(-1) - 1)[..., None]

    def at(t: torch.Tensor) -> torch.Tensor:
        return t.gather(-1, place)[..., 0]

    width, height = at(left.diff(dim=-1)), at(low.diff(dim=-1))
    mean, d0, d1 = height / width, at(slope), at(slope[..., 1:])
    t = (x - at(left)) / width
    both = t * (1 - t)
    below = mean + (d0 + d1 - 2 * mean) * both
    rise = mean**2 * (d1 * t**2 + 2 * mean * both + d0 * (1 - t) ** 2)
    out = at(low) + height * (mean * t**2 + d0 * both) / below
    return out, torch.log(rise) - 2 * torch.log(below)


class _SplineFlow(nn.Module):
    def __init__(self, d: int, layers: int) -> None:
        super().__init__()
        wide = d // 2 * (3 * BINS - 1)
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(d // 2, 64), nn.ReLU(), nn.Linear(64, wide))
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x.new_zeros(x.shape[0])
        for net in self.nets:
            a, b = x.chunk(2, -1)
            w, h, d = net(a).view(*b.shape, -1).split([BINS, BINS, BINS - 1], -1)
            d = F.pad(d, (1, 1), value=math.log(math.exp(1 - LEAST) - 1))
            inside = (b >= -TAIL) & (b <= TAIL)
            out, log_slope = torch.zeros_like(b), torch.zeros_like(b)
            out[~inside] = b[~inside]
            out[inside], log_slope[inside] = _spline(
                b[inside], w[inside, :] / 8, h[inside, :] / 8, d[inside, :]
            )
            total = total + log_slope.sum(-1)
            x = torch.cat([out, a], -1)
        return x, total


@model("spline flow by masks", trained=True)
def spline_flow(batch: int = 256) -> Case:
    return _SplineFlow(16, 3), (torch.randn(batch, 16) * 2,)


# ------------------------------------------------------------------------ sliced score matching
class _Score(nn.Module):
    """Its gradient is taken with `enable_grad`, whatever the caller has set."""

    def __init__(self, d: int) -> None:
        super().__init__()
        layers = [nn.Linear(d, 256), nn.Softplus(), nn.Linear(256, 256), nn.Softplus()]
        self.net = nn.Sequential(*layers, nn.Linear(256, d))

    def forward(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.clone().requires_grad_(True)
            along = (self.net(x) * v).sum(-1)
            (slope,) = torch.autograd.grad(along.sum(), x, create_graph=True)
        return (0.5 * along**2 + (v * slope).sum(-1)).mean()


@model("sliced score matching", trained=True)
def score(batch: int = 256) -> Case:
    return _Score(32), (torch.randn(batch, 32), torch.randn(batch, 32))


# ---------------------------------------------------------------------------- RotatE's rotations
class _Rotations(nn.Module):
    def __init__(self, entities: int, relations: int, d: int) -> None:
        super().__init__()
        self.entities, self.phases = nn.Embedding(entities, 2 * d), nn.Embedding(relations, d)

    def _complex(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(self.entities(ids).unflatten(-1, (-1, 2)).contiguous())

    def forward(
        self, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor, others: torch.Tensor
    ) -> torch.Tensor:
        phases = self.phases.weight
        turned = self._complex(head) * torch.polar(torch.ones_like(phases), phases)[relation]
        right = 12 - (turned - self._complex(tail)).abs().sum(-1)
        wrong = 12 - (turned[:, None] - self._complex(others)).abs().sum(-1)
        weight = F.softmax(wrong, 1).detach()
        return -(F.logsigmoid(right) + (weight * F.logsigmoid(-wrong)).sum(1)).mean() / 2


@model("rotations of a knowledge graph", trained=True)
def rotations(batch: int = 256) -> Case:
    ids = [torch.randint(0, n, (batch,)) for n in (5000, 50, 5000)]
    return _Rotations(5000, 50, 64), (*ids, torch.randint(0, 5000, (batch, 64)))
