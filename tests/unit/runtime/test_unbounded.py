"""Sizes without an upper bound: one compilation, memory as each run needs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glasshouse.errors import Unsupported
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph


def test_any_size_runs_and_none_is_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = symbol("n")
    b = GraphBuilder()
    x = b.input("float32", (n, 20))
    hidden = x.apply("matmul", b.weight(rng.standard_normal((20, 40), "f"), "float32"))
    similar = hidden.apply("matmul", hidden, transpose_y=True).apply("softmax")  # [n, n]
    mixed = similar.apply("matmul", hidden)
    count = b.apply("full", shape=(1,), value=n, dtype="float32")
    image = mixed.apply("reshape", shape=(1, 1, n, 40))
    smaller = image.apply("adaptive_avg_pool", size=(3, 7))
    larger = image.apply("resize", size=(5, 11), mode="linear")
    graph = b.finish(mixed / count, smaller, larger)
    module = compile_graph(optimize(graph))
    assert not [s for s in module.program.steps if isinstance(s, Fallback)]
    for size in (3, 130, 4):
        given = rng.standard_normal((size, 20), "f")
        for ours, theirs in zip(module(given), run(graph, [given]), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)
    with pytest.raises(Unsupported, match="upper bound"):
        module.save(tmp_path)
