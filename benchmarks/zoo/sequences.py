"""Networks over sequences, sets, graphs and coordinates, without a library of models."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Gpt(nn.Module):
    """A block as in teaching code: one projection, a triangle of minus infinity, no fused call."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.register_buffer("triangle", torch.tril(torch.ones(length, length))[None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).split(c, 2)
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        weight = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(k.size(-1)))
        weight = weight.masked_fill(self.triangle[:, :, :t, :t] == 0, float("-inf"))
        y = (F.softmax(weight, -1) @ v).transpose(1, 2).contiguous().view(n, t, c)
        x = x + self.out(y)
        return x + self.inner(self.second(x))


class _Language(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 192), nn.Embedding(128, 192)
        self.blocks = nn.Sequential(*[_Gpt(192, 6, 128) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(192), nn.Linear(192, 1000, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.out(self.norm(self.blocks(self.words(x) + self.places(places))))


@model("small gpt", trained=True)
def small_gpt(batch: int = 4) -> Case:
    return _Language(3), (torch.randint(0, 1000, (batch, 96)),)


@model("nn.TransformerEncoder", trained=True)
def encoder(batch: int = 8) -> Case:
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (
        torch.randn(batch, 50, 128),
    )


@model("nn.Transformer")
def transformer(batch: int = 4) -> Case:
    made = nn.Transformer(128, 4, 2, 2, 512, 0.0, norm_first=True, batch_first=True)
    return made, (torch.randn(batch, 40, 128), torch.randn(batch, 30, 128))


@model("nn.MultiheadAttention")
def multihead(batch: int = 4) -> Case:
    class Attended(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(256, 8, batch_first=True)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.inner(x, y, y, need_weights=False)[0]

    return Attended(), (torch.randn(batch, 64, 256), torch.randn(batch, 96, 256))


class _Spoken(nn.Module):
    """Convolutions over a spectrogram, recurrent layers, letters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, (11, 5), (2, 2), (5, 2)), nn.BatchNorm2d(16), nn.Hardtanh(0, 20)
        )
        self.gru = nn.GRU(16 * 32, 128, 2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(256, 29)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x[:, None])
        n, c, t, f = y.shape
        y = y.permute(0, 2, 1, 3).reshape(n, t, c * f)
        return self.out(self.gru(y)[0]).log_softmax(-1)


@model("deep speech", trained=True)
def spoken(batch: int = 2) -> Case:
    return _Spoken(), (torch.randn(batch, 100, 64),)


class _Temporal(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2**i) for i in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = x + F.relu(layer(F.pad(x, (2 * 2**i, 0))))
        return x


@model("temporal convolutions", trained=True)
def temporal(batch: int = 4) -> Case:
    return _Temporal(64), (torch.randn(batch, 64, 300),)


class _Cell(nn.Module):
    """A recurrence over cells, with attention to what was read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTMCell(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(x.shape[0], x.shape[2])
        out = []
        for t in range(x.shape[1]):
            weight = torch.softmax(torch.bmm(read, h[:, :, None]), 1)
            seen = (weight * read).sum(1)
            h, c = self.cell(torch.cat([x[:, t], seen], 1), (h, c))
            out.append(self.out(torch.cat([h, seen], 1)))
        return torch.stack(out, 1)


@model("decoder over cells", trained=True)
def cells(batch: int = 8) -> Case:
    return _Cell(128), (torch.randn(batch, 12, 128), torch.randn(batch, 30, 128))


class _Points(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(), nn.Conv1d(128, 512, 1),
        )  # fmt: skip
        self.whole = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.whole(self.each(x).max(2)[0])


@model("point cloud", trained=True)
def points(batch: int = 4) -> Case:
    return _Points(), (torch.randn(batch, 3, 512),)


class _Neighbours(nn.Module):
    """Edges to the nearest points, found in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.edge = nn.Linear(6, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(x, x).topk(8, largest=False)[1]
        n, t, k = near.shape
        found = x.gather(1, near.reshape(n, t * k, 1).expand(-1, -1, 3)).view(n, t, k, 3)
        here = x[:, :, None].expand_as(found)
        return F.relu(self.edge(torch.cat([here, found - here], -1))).amax(2)


@model("nearest neighbours")
def neighbours(batch: int = 2) -> Case:
    return _Neighbours(), (torch.randn(batch, 256, 3),)


class _Attended(nn.Module):
    """Attention along the edges of a graph: a softmax over those that arrive at a node."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.inner = heads, nn.Linear(width, width)
        self.give = nn.Parameter(torch.randn(heads, width // heads))
        self.take = nn.Parameter(torch.randn(heads, width // heads))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, sink = edges[0], edges[1]
        y = self.inner(x).view(x.shape[0], self.heads, -1)
        score = F.leaky_relu((y * self.give).sum(-1)[source] + (y * self.take).sum(-1)[sink], 0.2)
        most = torch.full_like(y[..., 0], -1e30).scatter_reduce(
            0, sink[:, None].expand_as(score), score, "amax"
        )
        score = torch.exp(score - most[sink])
        total = torch.zeros_like(most).index_add(0, sink, score)
        weight = (score / (total[sink] + 1e-9))[..., None]
        return torch.zeros_like(y).index_add(0, sink, y[source] * weight).flatten(1)


@model("graph attention", trained=True)
def graph_attention(batch: int = 1) -> Case:
    return _Attended(64, 4), (torch.randn(1000, 64), torch.randint(0, 1000, (2, 8000)))


class _Rays(nn.Module):
    """Colours along rays, from positions lifted by sines."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Linear(39, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.two = nn.Sequential(nn.Linear(167, 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = [f(x * 2.0**i) for i in range(6) for f in (torch.sin, torch.cos)]
        lifted = torch.cat([x, *waves], -1)
        y = self.two(torch.cat([self.one(lifted), lifted], -1))
        alpha = 1 - torch.exp(-F.relu(y[..., 3]) * 0.1)
        kept = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha], 1), 1)[:, :-1]
        return ((alpha * kept)[..., None] * torch.sigmoid(y[..., :3])).sum(1)


@model("radiance field", trained=True)
def rays(batch: int = 64) -> Case:
    return _Rays(), (torch.randn(batch, 32, 3),)


class _Siren(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, 128) for a in (2, 128, 128))
        self.out = nn.Linear(128, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sin(30 * layer(x))
        return self.out(x)


@model("sine network", trained=True)
def siren(batch: int = 4096) -> Case:
    return _Siren(), (torch.rand(batch, 2) * 2 - 1,)


class _Ode(nn.Module):
    """A step of Runge and Kutta, ten times."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = 0.1
        for _ in range(10):
            a = self.rate(x)
            b = self.rate(x + h / 2 * a)
            c = self.rate(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + self.rate(x + h * c))
        return x


@model("ode solver", trained=True)
def ode(batch: int = 64) -> Case:
    return _Ode(), (torch.randn(batch, 32),)


class _Flow(nn.Module):
    """Couplings of a normalizing flow, with the logarithm of the density."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 32)) for _ in range(6)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x[:, 0])
        for net in self.nets:
            a, b = x.chunk(2, 1)
            scale, shift = net(a).chunk(2, 1)
            b = b * torch.tanh(scale).exp() + shift
            x, total = torch.cat([b, a], 1), total + torch.tanh(scale).sum(1)
        return total - 0.5 * x.pow(2).sum(1)


@model("normalizing flow", trained=True)
def flow(batch: int = 256) -> Case:
    return _Flow(), (torch.randn(batch, 32),)


class _Routed(nn.Module):
    """Experts that are chosen for each token, by a weighted sum over all or by rows."""

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            weight = (score * (chosen == i)).sum(-1, keepdim=True)
            out = out + weight * expert(x)
        return out


@model("experts by weight", trained=True)
def routed(batch: int = 128) -> Case:
    return _Routed(4, 128), (torch.randn(batch, 128),)


class _Beam(nn.Module):
    """A step of decoding: scores, the best of each, what they continue."""

    def forward(self, score: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = (score.log_softmax(-1) + before[..., None]).flatten(1)
        best, place = total.topk(5, 1)
        return best, place // score.shape[-1], place % score.shape[-1]


@model("beam search step")
def beam(batch: int = 8) -> Case:
    return _Beam(), (torch.randn(batch, 5, 8000), torch.randn(batch, 5))


class _Sampler(nn.Module):
    """Choice by nucleus: sort, running sum, cut, sort back."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        values, order = logits.sort(-1, descending=True)
        kept = values.softmax(-1).cumsum(-1) <= 0.9
        return logits.masked_fill(~kept.gather(-1, order.argsort(-1)), float("-inf")).softmax(-1)


@model("nucleus of tokens")
def sampler(batch: int = 4) -> Case:
    return _Sampler(), (torch.randn(batch, 8000),)


class _Gaussian(nn.Module):
    """A Gaussian process with linear algebra inside."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.exp(-0.5 * (a[:, None] - b[None]).pow(2).sum(-1))

        lower = torch.linalg.cholesky(kernel(x, x) + 0.1 * torch.eye(x.shape[0], dtype=x.dtype))
        return kernel(at, x) @ torch.cholesky_solve(y[:, None], lower)


@model("gaussian process")
def gaussian(batch: int = 1) -> Case:
    return _Gaussian(), (torch.randn(200, 4), torch.randn(200), torch.randn(100, 4))
