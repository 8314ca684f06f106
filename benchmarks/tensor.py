"""Measures what lazy tensors cost for each node: finding its origin, recording it, and the rest.

Run: python benchmarks/tensor.py [NODES]

Processor time, the garbage collector at rest, the best of three. `origin` is the walk over the
user's stack alone; `record` is one `relu` (or `x + x`) with everything, origin included; `extract`
turns pending nodes into a graph, `key` finds what was compiled for it, `backward` records the
gradient of a chain of `relu`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import glasshouse as gh
from glasshouse import nn
from glasshouse.tensor.pending import Extraction, pending_nodes
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.structure import structure_key

REPEATS = 3


class Repeat(nn.Module):
    """Applies a function again and again, from inside a module as in a model."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def forward(self, x: Any, count: int) -> Any:
        for _ in range(count):
            x = self.function(x)
        return x


def origin(_: Any) -> None:
    current_origin(sys._getframe())


def deep(function: Callable[[], Any], depth: int) -> Any:
    return function() if depth == 0 else deep(function, depth - 1)


def best(function: Callable[[], Any], nodes: int) -> float:
    """Microseconds a node."""
    times = []
    for _ in range(REPEATS):
        gc.collect()
        gc.disable()
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
        gc.enable()
    return min(times) / nodes * 1e6


def outside(count: int) -> None:
    for _ in range(count):
        current_origin(sys._getframe())


def main(nodes: int = 50_000) -> None:
    x = gh.array([1.0, 2.0, 3.0])
    relu, double = Repeat(lambda t: t.relu()), Repeat(lambda t: t + t)
    find = Repeat(origin)
    pending = relu(x, nodes)
    found = pending_nodes([pending.value])
    extraction = Extraction(found)
    extraction.graph._set_outputs([extraction.value(pending.value)])
    weight = gh.array([1.0], requires_grad=True)
    forward = relu(weight, nodes // 10).sum()
    rows = {
        "origin, inside a module": (lambda: find(x, nodes), nodes),
        "origin, outside": (lambda: outside(nodes), nodes),
        "origin, 30 calls deep": (lambda: deep(lambda: outside(nodes), 30), nodes),
        "record relu": (lambda: relu(x, nodes), nodes),
        "record x + x": (lambda: double(x, nodes), nodes),
        "extract": (lambda: Extraction(found), nodes),
        "key": (lambda: structure_key(extraction.graph), nodes),
        "backward": (lambda: forward.backward(retain_graph=True), nodes // 10),
    }
    print(f"{nodes} nodes; microseconds a node")
    for name, (function, count) in rows.items():
        print(f"{name:<26}{best(function, count):8.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
