"""Inputs for graphs when nobody gave any."""

from __future__ import annotations

import numpy as np

from glasshouse.ir import GraphBuilder, symbol
from glasshouse.numerics import random_inputs


def test_inputs_fit_the_graph_and_repeat() -> None:
    b = GraphBuilder()
    n = symbol("n", 2, 3)
    b.input("float32", (n, 5))
    b.input("int64", (n * 2,))
    b.input("bool", ())
    b.input("bfloat16", (4,))
    graph = b.finish()
    first, second = random_inputs(graph), random_inputs(graph)
    assert [a.shape for a in first] == [(3, 5), (6,), (), (4,)]
    assert [a.dtype.name for a in first] == ["float32", "int64", "bool", "float32"]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert random_inputs(graph, sizes={"n": 2})[0].shape == (2, 5)
    assert not np.array_equal(random_inputs(graph, seed=1)[0], first[0])
