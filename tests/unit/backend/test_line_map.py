"""Generated code: each line knows the ops that it computes."""

from __future__ import annotations

import numpy as np

from glasshouse.backend.base import GeneratedSource, backend_named
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program


def rendered(graph: Graph) -> GeneratedSource:
    options: dict[str, dict[str, object]] = {"resolve_variant": {"measure": "none"}}
    return backend_named("cpu").render(optimize_program(graph, PassContext(options=options)))


def ops_of_line(source: GeneratedSource, kernel: str, word: str) -> tuple[int, ...]:
    """Of the only line with a word."""
    lines = source.kernels[kernel].splitlines()
    assert len(lines) == len(source.lines[kernel])
    (found,) = [ops for line, ops in zip(lines, source.lines[kernel], strict=True) if word in line]
    return found


def test_lines_of_an_epilogue() -> None:
    b = GraphBuilder()
    weights, bias = b.weight(np.ones((8, 3), "f")), b.weight(np.ones(3, "f"))
    out = (b.input("float32", [4, 8]) @ weights + bias).apply("relu")
    source = rendered(b.finish(out))
    (name,) = source.kernels
    assert ops_of_line(source, name, "gh::gemm<") == (0,)
    assert ops_of_line(source, name, "gh::add(") == (1,)
    assert ops_of_line(source, name, "gh::relu(") == (2,)
    assert ops_of_line(source, name, "gh::store(") == (2,)


def test_lines_of_loops_and_folds() -> None:
    b = GraphBuilder()
    x = b.input("float32", [4, 6]).apply("relu")
    source = rendered(b.finish(x.apply("softmax", axis=-1) + 1.0))
    (name,) = source.kernels
    assert ops_of_line(source, name, "for (int64_t") == (0, 1, 2), "a loop: all inside of it"
    assert ops_of_line(source, name, "gh::reduce_max") == (1,)
    assert ops_of_line(source, name, "gh::add(") == (2,)
    assert ops_of_line(source, name, "gh::store(row") == (1,), "an exponential that is kept"
    assert ops_of_line(source, name, "gh::store(y") == (2,)
