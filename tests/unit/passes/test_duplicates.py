"""Which constants become one: what was folded for every layer, and never a weight with a name."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import CONSTANT, Graph, GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.passes import pass_named
from glasshouse.passes.pipeline import apply_pass
from glasshouse.passes.subgraph_rewrite import duplicates


def simplified(graph: Graph) -> Graph:
    for name in ("fold_constant", "subgraph_rewrite"):
        apply_pass(pass_named(name, {}), graph, ())
    return graph


def constants(graph: Graph) -> list[np.ndarray]:
    return [n.attrs["data"] for n in graph.nodes if n.op is CONSTANT]


def test_what_is_folded_for_every_layer_is_held_once() -> None:
    b = GraphBuilder()
    x = b.input("float32", (128, 3))
    layers = [np.arange(384.0, dtype=np.float32).reshape(128, 3) for _ in range(4)]
    layers[3][-1, -1] = 0.0  # another in its last element
    for layer in layers:
        x = (x * b.weight(layer).apply("exp")).apply("sin")
    graph = b.finish(x)
    given = np.ones((128, 3), np.float32)
    before = run(graph, [given])[0]
    after = simplified(graph)
    assert len(constants(after)) == 2
    np.testing.assert_array_equal(run(after, [given])[0], before)


@pytest.mark.parametrize("largest", [1024, 1535])
def test_large_ones_are_not_compared(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_FOLDED", largest)
    b = GraphBuilder()
    x = b.input("float32", (384,))
    for _ in range(2):
        x = (x * b.weight(np.arange(384, dtype=np.float32))).apply("sin")
    assert len(constants(simplified(b.finish(x)))) == 2


def test_weights_with_names_stay_apart() -> None:
    b = GraphBuilder()
    x = b.input("float32", (384,))
    for name in "ab":
        x = (x * b.weight(np.arange(384, dtype=np.float32), name=name)).apply("sin")
    assert len(constants(simplified(b.finish(x)))) == 2
