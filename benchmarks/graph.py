"""Whether a graph's cost grows linearly: time per node at 1,000, 10,000 and 100,000 nodes.

Run: python benchmarks/graph.py [NODES ...]

Two shapes of graph: `layers`, residual blocks (normalise, matmul, add, gelu, matmul, add) with
weights; and `chain`, one op after the other, the deepest graph there is. Each step is timed three
times in processor time, with the garbage collector at rest, and the best counts. The factor in
brackets compares the time per node with that of the smallest size: linear growth keeps it near 1.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import (
    Frame,
    Graph,
    GraphBuilder,
    Origin,
    Rewriter,
    Scope,
    Source,
    parse_graph,
    print_graph,
    symbol,
    verify,
)

SIZES = (1_000, 10_000, 100_000)
REPEATS = 3


def layers(nodes: int) -> Graph:
    """Residual blocks of ten nodes each, with module paths and lines, and a symbolic batch."""
    builder = GraphBuilder()
    x = builder.input("float32", [symbol("batch", 1, 64), 128, 64], "x")
    weight = builder.weight(np.zeros((64, 64), np.float32))
    bias = builder.weight(np.zeros(64, np.float32))
    number = 0
    while len(builder.graph) < nodes:
        scopes = (Scope("encoder"), Scope("layer"), Scope(str(number)))
        with builder.at(Origin(Source(scopes, (Frame("model.py", 10 + number % 50, "forward"),)))):
            y = x.apply("layer_norm")
            y = (y @ weight + bias).apply("gelu")
            y = y.apply("reshape", shape=y.shape).apply("permute", axes=[0, 1, 2])
            x = x + (y @ weight + bias)
        number += 1
    return builder.finish(x)


def chain(nodes: int) -> Graph:
    builder = GraphBuilder()
    x = builder.input("float32", [8, 8])
    while len(builder.graph) < nodes:
        x = x.apply("relu")
    return builder.finish(x)


def rewritten(graph: Graph) -> None:
    """Replaces every tenth node by another."""
    rw = Rewriter(graph, "Benchmark")
    picked = [n for n in graph.nodes if n.op.name in ("gelu", "relu")][::10]
    for node in picked:
        x = node.inputs[0]
        rw.replace(node, lambda x=x: rw.expr(x).apply("tanh"), why="a benchmark")


def best(work: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    """Seconds of the fastest of a few runs; `before` is not timed."""
    times = []
    for _ in range(REPEATS):
        before()
        gc.collect()
        gc.disable()
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
        gc.enable()
    return min(times)


def measure(make: Callable[[int], Graph], nodes: int) -> dict[str, float]:
    """Microseconds per node of each step."""
    graph = make(nodes)
    text = print_graph(graph)
    copies: list[Graph] = []

    def order() -> None:
        graph._order = None

    def fresh() -> None:
        copies[:] = [graph.copy()]

    seconds = {
        "build": best(lambda: make(nodes)),
        "order": best(lambda: graph.nodes, before=order),
        "verify": best(lambda: verify(graph)),
        "print": best(lambda: print_graph(graph)),
        "parse": best(lambda: parse_graph(text)),
        "copy": best(graph.copy),
        "rewrite": best(lambda: rewritten(copies[0]), before=fresh),
    }
    return {step: 1e6 * s / len(graph) for step, s in seconds.items()}


def main(arguments: list[str]) -> int:
    sizes = [int(a.replace(",", "").replace("_", "")) for a in arguments] or list(SIZES)
    for make in (layers, chain):
        print(f"\n{make.__name__}: microseconds per node (times the smallest size)")
        print(f"{'step':10}" + "".join(f"{size:>20,}" for size in sizes))
        results = [measure(make, size) for size in sizes]
        for step, smallest in results[0].items():
            cells = [f"{r[step]:10.2f} ({r[step] / smallest:5.2f}x)" for r in results]
            print(f"{step:10}" + "".join(f"{c:>20}" for c in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
