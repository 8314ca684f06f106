"""bfloat16 models against PyTorch eager at several numbers of threads, in turns in one process.

    python benchmarks/cpu/threads.py [mlp] [bert] [llama] [conv] [--threads 1,2,8,16] [--rounds 9]

Each line: the least time of both, the median over neighbouring turns of PyTorch's time over ours,
and the largest difference from PyTorch, relative to its largest element.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh

Case = tuple[nn.Module, torch.Tensor]


class Attention(nn.Module):
    """Heads over one input; fewer heads of keys are repeated; positions are turned if given."""

    def __init__(self, width: int, heads: int, kv_heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim, self.causal = heads, kv_heads, width // heads, causal
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        narrow = kv_heads * self.dim
        self.k, self.v = (nn.Linear(width, narrow, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, ...] = ()) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            f(x).view(batch, length, -1, self.dim).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        if turn:
            half, (cos, sin) = self.dim // 2, turn
            q, k = (z * cos + torch.cat([-z[..., half:], z[..., :half]], -1) * sin for z in (q, k))
        if self.kv_heads != self.heads:
            k, v = (z.repeat_interleave(self.heads // self.kv_heads, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


class Bert(nn.Module):
    """Encoder layers of BERT-base."""

    def __init__(self, layers: int = 4, width: int = 768) -> None:
        super().__init__()
        self.attention = nn.ModuleList(Attention(width, 12, 12, False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, attention in enumerate(self.attention):
            x = self.norms[2 * i](x + attention(x))
            x = self.norms[2 * i + 1](x + self.down[i](F.gelu(self.up[i](x))))
        return x


class Llama(nn.Module):
    """One layer of a Llama of 1.1B."""

    def __init__(self, length: int, width: int = 2048, inner: int = 5632) -> None:
        super().__init__()
        self.attention = Attention(width, 32, 4, True)
        self.first, self.second = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        steps = 1e4 ** (-torch.arange(0, 64, 2).float() / 64)
        angles = torch.outer(torch.arange(length).float(), steps).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x), (self.cos, self.sin))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _mlp() -> Case:
    layers = [nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)]
    return nn.Sequential(*layers), torch.randn(1024, 512)


def _conv() -> Case:
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
    layers = [y for i, o, step in sizes for y in (nn.Conv2d(i, o, 3, step, 1), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(1, 64, 56, 56)


CASES: dict[str, Callable[[], Case]] = {
    "mlp": _mlp,
    "bert": lambda: (Bert(), torch.randn(1, 128, 768)),
    "llama": lambda: (Llama(256), torch.randn(1, 256, 2048)),
    "conv": _conv,
}


def _clocked(call: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def measured(name: str, threads: int, rounds: int) -> str:
    """One line of the table."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, x = CASES[name]()
    model, x = model.eval().bfloat16(), x.bfloat16()
    module = gh.compile(model, x, threads=threads)
    want, got = model(x), module(x)
    got = got[0] if isinstance(got, (list, tuple)) else got
    error = float((got.float() - want.float()).abs().max() / want.float().abs().max())
    times = max(1, int(0.02 / max(_clocked(lambda: module(x), 1), 1e-5)))
    turns = [
        (_clocked(lambda: model(x), times), _clocked(lambda: module(x), times))
        for _ in range(rounds)
    ]
    eager, ours = (min(t) * 1e3 for t in zip(*turns, strict=True))
    ratio = statistics.median(a / b for a, b in turns)
    return (
        f"{name:6s} {threads:3d} threads: eager {eager:8.3f} ms, ours {ours:8.3f} ms, "
        f"ratio {ratio:.2f}, apart {error:.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--threads", default="1,2,8,16")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    with torch.no_grad():
        for name in args.names:
            for threads in map(int, args.threads.split(",")):
                print(measured(name, threads, args.rounds), flush=True)


if __name__ == "__main__":
    main()
