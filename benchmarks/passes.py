"""How fast passes are, and how their time grows with the graph.

Run: python benchmarks/passes.py [LARGEST]

Times are of the processor, so a busy machine does not count; the best of several runs each. Models
are written in primitive ops: exporters leave them so, and it gives passes the most to do. The
figures of Hidet 0.6.1 were measured on its own graphs of the same kind: 936 nodes 17.9 s, a chain
of 1,000 ops 192 s.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.passes import PassContext, optimize

SIZE, HEADS, LENGTH = 64, 4, 16
OPS_A_LAYER = 78


def transformer(layers: int) -> Graph:
    """BERT-like layers; softmax, norms, GELU and attention in primitive ops."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("transformer")
    x = b.input("float32", (1, LENGTH, SIZE))
    mask = b.input("float32", (1, 1, 1, LENGTH))

    def weight(*shape: int) -> Any:
        return b.weight((rng.standard_normal(shape) * 0.05).astype(np.float32))

    def linear(y: Any, columns: int) -> Any:
        return y @ weight(y.shape[-1], columns) + weight(columns)

    def norm(y: Any) -> Any:
        apart = y - y.apply("mean", axes=[-1], keepdims=True)
        spread = (apart * apart).apply("mean", axes=[-1], keepdims=True)
        return apart / (spread + 1e-5).apply("sqrt") * weight(SIZE) + weight(SIZE)

    def heads(y: Any) -> Any:
        y = y.apply("reshape", shape=(1, LENGTH, HEADS, SIZE // HEADS))
        return y.apply("permute", axes=(0, 2, 1, 3))

    for _ in range(layers):
        q, k, v = (heads(linear(x, SIZE)) for _ in range(3))
        scores = q @ k.apply("permute", axes=(0, 1, 3, 2)) / math.sqrt(SIZE // HEADS) + mask
        up = (scores - scores.apply("max", axes=[-1], keepdims=True)).apply("exp")
        y = up / up.apply("sum", axes=[-1], keepdims=True) @ v
        y = y.apply("permute", axes=(0, 2, 1, 3)).apply("reshape", shape=(1, LENGTH, SIZE))
        x = norm(x + linear(y, SIZE))
        y = linear(x, 4 * SIZE)
        x = norm(x + linear(y * 0.5 * ((y / math.sqrt(2)).apply("erf") + 1.0), SIZE))
    return b.finish(x)


def chain(count: int) -> Graph:
    """Elementwise ops, one after the other; none cancels with its neighbour."""
    b = GraphBuilder("chain")
    x = b.input("float32", (64, 64))
    for i in range(count):
        x = x.apply("tanh" if i % 2 else "relu")
    return b.finish(x)


def wide(count: int) -> Graph:
    """One value that everything reads, and as many outputs as readers."""
    b = GraphBuilder("wide")
    x = b.input("float32", (8, 8)).apply("tanh")
    return b.finish(*[(x * float(i + 2)).apply("softmax") for i in range(count // 3)])


def measured(graph: Graph, context: Callable[[], PassContext], runs: int) -> tuple[float, Graph]:
    """The best time of several runs, and the result."""
    best, after = math.inf, graph
    for _ in range(runs):
        ctx = context()
        start = time.process_time()
        after = optimize(graph, ctx)
        best = min(best, time.process_time() - start)
    return best, after


def recorded() -> PassContext:
    ctx = PassContext()
    ctx.record()
    return ctx


def main(arguments: list[str]) -> None:
    largest = int(arguments[0]) if arguments else 100_000
    print("the default pipeline, milliseconds")
    print(f"  {'':24}{'nodes':>8}{'after':>8}{'plain':>9}{'recorded':>10}")
    for name, graph in (
        ("12 layers of BERT", transformer(12)),
        ("chain of elementwise ops", chain(1000)),
    ):
        plain, after = measured(graph, PassContext, 5)
        watched, _ = measured(graph, recorded, 3)
        times = f"{plain * 1e3:9.0f}{watched * 1e3:10.0f}"
        print(f"  {name:24}{len(graph):8,}{len(after):8,}{times}")
    print("growth, microseconds a node")
    print(f"  {'nodes':>10}{'layers of BERT':>18}{'chain':>10}{'wide':>10}")
    rows: list[list[float]] = []
    count = 1000
    while count <= largest:
        runs = 3 if count < 50_000 else 2
        graphs = (transformer(max(count // OPS_A_LAYER, 1)), chain(count), wide(count))
        rows.append([measured(g, PassContext, runs)[0] / len(g) * 1e6 for g in graphs])
        print(f"  {count:10,}{rows[-1][0]:18.0f}{rows[-1][1]:10.0f}{rows[-1][2]:10.0f}")
        count *= 10
    growth = [b / a for a, b in zip(rows[0], rows[-1], strict=True)]
    print("  last row over first: " + ", ".join(f"{g:.2f}" for g in growth))


if __name__ == "__main__":
    main(sys.argv[1:])
