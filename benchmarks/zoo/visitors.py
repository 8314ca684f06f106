"""Models that nobody tuned to, of sequences and tables: written first, measured afterwards."""

from __future__ import annotations

import math

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F


class _Perceiver(nn.Module):
    """Few latents that look at many inputs, then at themselves."""

    def __init__(self, width: int, latents: int) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, width) * 0.02)
        self.look = nn.MultiheadAttention(width, 1, kdim=64, vdim=64, batch_first=True)
        self.think = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, F.gelu, batch_first=True)
            for _ in range(2)
        )
        self.out = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        here = self.latents.expand(x.shape[0], -1, -1)
        here = here + self.look(here, x, x, need_weights=False)[0]
        for layer in self.think:
            here = layer(here)
        return self.out(here.mean(1))


@model("perceiver", trained=True)
def perceiver(batch: int = 2) -> Case:
    return _Perceiver(128, 32), (torch.randn(batch, 1024, 64),)


class _Conformer(nn.Module):
    """Half a feed-forward, attention, a gated convolution, half a feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def half() -> nn.Sequential:
            return nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(),
                nn.Linear(4 * width, width),
            )  # fmt: skip

        self.first, self.second, self.norm = half(), half(), nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.convolve = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
            nn.Conv1d(width, width, 15, padding=7, groups=width), nn.BatchNorm1d(width), nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.first(x)
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        x = x + self.convolve(self.before(x).transpose(1, 2)).transpose(1, 2)
        return self.after(x + 0.5 * self.second(x))


@model("conformer block", trained=True)
def conformer(batch: int = 4) -> Case:
    return _Conformer(144), (torch.randn(batch, 120, 144),)


class _Spiking(nn.Module):
    """Leaky neurons that fire past a threshold, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(256, 200), nn.Linear(200, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = x.new_zeros(x.shape[1], 200)
        b = x.new_zeros(x.shape[1], 10)
        fired = []
        for now in x:
            a = 0.9 * a + self.one(now)
            spikes = (a > 1.0).float()
            a = a - spikes
            b = 0.9 * b + self.two(spikes)
            out = (b > 1.0).float()
            b = b - out
            fired.append(out)
        return torch.stack(fired).sum(0)


@model("spiking network")
def spiking(batch: int = 32) -> Case:
    return _Spiking(), (torch.rand(20, batch, 256),)


class _Selective(nn.Module):
    """A state space whose steps depend on its input, in a Python loop over time."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.states = states
        self.inner = nn.Linear(width, 2 * width)
        self.mix = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.choose = nn.Linear(width, 2 * states + 1)
        self.step = nn.Linear(1, width)
        self.decay = nn.Parameter(torch.log(torch.arange(1.0, states + 1).repeat(width, 1)))
        self.skip, self.out = nn.Parameter(torch.ones(width)), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = x.shape[1]
        u, gate = self.inner(x).chunk(2, -1)
        u = F.silu(self.mix(u.transpose(1, 2))[..., :t].transpose(1, 2))
        step, b, c = self.choose(u).split([1, self.states, self.states], -1)
        step = F.softplus(self.step(step))
        kept = torch.exp(-step[..., None] * torch.exp(self.decay))
        given = (step * u)[..., None] * b[:, :, None]
        state, out = torch.zeros_like(given[:, 0]), []
        for i in range(t):
            state = kept[:, i] * state + given[:, i]
            out.append((state * c[:, i, None]).sum(-1))
        y = torch.stack(out, 1) + u * self.skip
        return self.out(y * F.silu(gate))


@model("selective scan", trained=True)
def selective(batch: int = 2) -> Case:
    return _Selective(128, 16), (torch.randn(batch, 48, 128),)


class _Decoder(nn.Module):
    """A cell that looks back at its encoder (additive attention) and feeds its own choice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(500, width), nn.GRUCell(2 * width, width)
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, width)
        self.score, self.out = nn.Linear(width, 1), nn.Linear(width, 500)

    def forward(self, memory: torch.Tensor) -> torch.Tensor:
        state, keys = memory.mean(1), self.key(memory)
        word = torch.zeros(memory.shape[0], dtype=torch.long)
        out = []
        for _ in range(12):
            score = self.score(torch.tanh(keys + self.query(state)[:, None])).softmax(1)
            seen = (score * memory).sum(1)
            state = self.cell(torch.cat([self.words(word), seen], 1), state)
            logits = self.out(state)
            word = logits.argmax(-1)
            out.append(logits)
        return torch.stack(out, 1)


@model("decoder that looks back")
def decoder(batch: int = 16) -> Case:
    return _Decoder(128), (torch.randn(batch, 30, 128),)


class _Tab(nn.Module):
    """Columns of categories as tokens of a transformer, numbers beside them."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20 + i, width) for i in range(columns))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Sequential(nn.Linear(columns * width + 8, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, kinds: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        x = torch.stack([table(kinds[:, i]) for i, table in enumerate(self.tables)], 1)
        return self.out(torch.cat([self.inner(x).flatten(1), self.norm(numbers)], 1))


@model("table transformer", trained=True)
def tab(batch: int = 64) -> Case:
    return _Tab(10, 32), (torch.randint(0, 20, (batch, 10)), torch.randn(batch, 8))


class _Capsules(nn.Module):
    """Votes of capsules, agreed on by three rounds of routing."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.votes = nn.Parameter(torch.randn(count, 10, 16, 8) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        votes = torch.einsum("iodc,bic->biod", self.votes, x)
        logits = torch.zeros(votes.shape[:3], dtype=x.dtype)
        for i in range(3):
            weight = logits.softmax(2)
            s = (weight[..., None] * votes).sum(1)
            norm = s.pow(2).sum(-1, keepdim=True)
            v = norm / (1 + norm) * s / torch.sqrt(norm + 1e-8)
            if i < 2:
                logits = logits + (votes * v[:, None]).sum(-1)
        return v.norm(dim=-1)


@model("capsule routing", trained=True)
def capsules(batch: int = 8) -> Case:
    return _Capsules(288), (torch.randn(batch, 288, 8),)


class _Splines(nn.Module):
    """A layer of learned splines (Kolmogorov and Arnold): bases by the Cox and de Boor rule."""

    def __init__(self, inputs: int, outputs: int, cells: int = 5, order: int = 3) -> None:
        super().__init__()
        self.order = order
        grid = torch.arange(-order, cells + order + 1) * (2 / cells) - 1
        self.register_buffer("grid", grid.expand(inputs, -1).contiguous())
        self.base = nn.Linear(inputs, outputs, bias=False)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, cells + order) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, g = x.unsqueeze(-1), self.grid
        bases = ((y >= g[:, :-1]) & (y < g[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (y - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)])
            right = (g[:, k + 1 :] - y) / (g[:, k + 1 :] - g[:, 1:-k])
            bases = left * bases[..., :-1] + right * bases[..., 1:]
        return F.linear(F.silu(x), self.base.weight) + F.linear(
            bases.flatten(1), self.weight.flatten(1)
        )


@model("spline network", trained=True)
def splines(batch: int = 128) -> Case:
    return nn.Sequential(_Splines(32, 64), _Splines(64, 64), _Splines(64, 8)), (
        torch.randn(batch, 32),
    )


class _Radial(nn.Module):
    """Distances to centres, and what their bells say together."""

    def __init__(self, inputs: int, centres: int) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(centres, inputs))
        self.width = nn.Parameter(torch.zeros(centres))
        self.out = nn.Linear(centres, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        apart = torch.cdist(x, self.centres)
        return self.out(torch.exp(-((apart * self.width.exp()) ** 2) * 0.01))


@model("radial bases", trained=True)
def radial(batch: int = 256) -> Case:
    return _Radial(64, 200), (torch.randn(batch, 64),)


class _Sparse(nn.Module):
    """Each token goes through its two best experts, whose weights are gathered."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, 2 * width, width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, width, 2 * width) / math.sqrt(2 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score, chosen = self.gate(x).topk(2, -1)
        weight = score.softmax(-1)
        inner = F.gelu(torch.einsum("tkhw,tw->tkh", self.up[chosen], x))
        return torch.einsum("tkwh,tkh,tk->tw", self.down[chosen], inner, weight)


@model("experts by gather")
def sparse(batch: int = 32) -> Case:
    return _Sparse(128, 8), (torch.randn(batch, 128),)


class _Field(nn.Module):
    """The log of the sum over all ways through a chain of tags, less that of one way."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.score = nn.Linear(64, tags)
        self.moves = nn.Parameter(torch.randn(tags, tags) * 0.1)

    def forward(self, x: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        score = self.score(x)
        alpha = score[:, 0]
        for i in range(1, x.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + self.moves, 1) + score[:, i]
        chosen = score.gather(2, tags[..., None]).sum((1, 2))
        chosen = chosen + self.moves[tags[:, :-1], tags[:, 1:]].sum(1)
        return torch.logsumexp(alpha, 1) - chosen


@model("conditional random field", trained=True)
def field(batch: int = 16) -> Case:
    return _Field(12), (torch.randn(batch, 32, 64), torch.randint(0, 12, (batch, 32)))
