"""Times the variants of products and attention on a GPU, in turns, and says how far each is off.

Run: python benchmarks/gpu/variants.py [--only WORD ...] [--torch]

A line for each problem: microseconds of each variant with the error against what most agree on;
with `--torch` those of PyTorch (cuBLAS, its fused attention) as a CUDA graph over as many weights.
"""

from __future__ import annotations

import argparse
from typing import Any

import glasshouse.backend.cuda.attention as cuda_attention
from glasshouse.backend.base import backend_named
from glasshouse.backend.cuda.tiles import FETCHED, TILES, GemmVariant, variants
from glasshouse.lower.choice import Problem

PRODUCTS = (
    (1024, 2048, 512, "gelu"), (1024, 512, 2048, ""), (512, 4096, 1024, "gelu"),
    (512, 1024, 4096, ""), (4096, 2304, 768, ""), (4096, 768, 768, ""), (4096, 3072, 768, "gelu"),
    (4096, 768, 3072, ""), (8192, 2304, 768, ""), (16384, 4096, 1024, "gelu"),
    (16384, 1024, 4096, ""), (512, 8192, 2048, ""), (512, 2048, 8192, ""), (512, 2048, 2048, ""),
    (512, 3072, 2048, ""),
)  # fmt: skip
ATTENTIONS = ((16, 12, 512, 64, 12, 512), (32, 12, 128, 64, 12, 128), (1, 32, 512, 64, 8, 1024))
FLAGGED = ((1, 32, 512, 64, 8, 1024),)
"""Of them the ones with a flag for each query and key, those of a prompt."""


def product(m: int, n: int, k: int, behind: str) -> tuple[Problem, tuple[str, ...]]:
    proposed = [v.name for v in variants(m, n, k, 1, FETCHED)]
    large = [t.name for t in TILES.values() if t.kind in FETCHED and t.m * t.n >= 128 * 128]
    whole = [GemmVariant(TILES[name]).name for name in large]
    names = tuple(dict.fromkeys([*proposed, *whole]))
    return Problem(f"matmul_{behind}".strip("_"), "float16", (m, n, k, 1), 2.0 * m * n * k), names


def attention(op: str, *numbers: int) -> tuple[Problem, tuple[str, ...]]:
    batch, heads, length, dim, _, keys = numbers
    count = 4.0 * batch * heads * length * keys * dim
    names = (*cuda_attention.GROUPED, "flash128", "flash64")
    return Problem(op, "float16", numbers, count), names


def by_torch(problem: Problem) -> float:
    """Microseconds of PyTorch; weights are together larger than the cache."""
    import torch
    from torch.nn import functional as F

    n = problem.numbers

    def half(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=torch.float16)

    many = 8
    if problem.op.startswith("matmul"):
        x, weights = half(n[0], n[2]), [half(n[1], n[2]) * n[2] ** -0.5 for _ in range(many)]
        calls: Any = [lambda w=w: F.linear(x, w) for w in weights]
    else:
        q, k, v = half(*n[:4]), *(half(n[0], n[4], n[5], n[3]) for _ in range(2))
        grouped = n[4] != n[1]
        calls = [lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=grouped)] * many
    for call in calls[:3]:
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times: list[float] = []
    for _ in range(7):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / many)
    return min(times)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--torch", action="store_true")
    given = arguments.parse_args()
    backend = backend_named("cuda")
    asked = [attention(cuda_attention.ATTENTION, *a) for a in ATTENTIONS]
    asked += [attention(cuda_attention.BY_FLAGS, *a) for a in FLAGGED]
    asked += [product(*p) for p in PRODUCTS]
    for problem, names in asked:
        if given.only and not any(word in problem.key for word in given.only):
            continue
        found = backend.measure(problem, names)
        parts = [
            f"{c.name} {c.seconds * 1e6:.1f}" + (f" (off {c.error:.1e})" if c.error else "")
            for c in sorted(found or [], key=lambda c: c.seconds)
        ]
        peer = f" | torch {by_torch(problem):.1f}" if given.torch else ""
        print(f"{problem.key}: {', '.join(parts)}{peer}", flush=True)


if __name__ == "__main__":
    main()
