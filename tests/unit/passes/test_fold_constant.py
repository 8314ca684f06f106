"""What is computed while compiling, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import CONSTANT, Graph, GraphBuilder, parse_graph
from glasshouse.ir.dtype import bfloat16
from glasshouse.numpy_ref import run
from glasshouse.passes import pass_named
from glasshouse.passes.pipeline import apply_pass


def folded(graph: Graph, *watching, **options) -> Graph:
    out = graph.copy()
    apply_pass(pass_named("fold_constant", options), out, watching)
    return out


def test_constants_are_computed_once() -> None:
    b = GraphBuilder()
    x = b.input("float32", (2,))
    y = b.weight([1.0, 2.0], "float32").apply("exp") + 1.0
    after = folded(b.finish(x * y))
    assert [n.op.name for n in after.nodes] == ["input", "constant", "multiply"]
    np.testing.assert_allclose(run(after, [np.ones(2, np.float32)])[0], np.exp([1, 2]) + 1, 1e-6)


def test_several_outputs_and_narrow_types() -> None:
    b = GraphBuilder()
    first, second = b.weight([1.0, 2.5, 3.0], "bfloat16").apply("split", axis=0, sizes=[1, 2])
    after = folded(b.finish(first, second))
    assert all(n.op is CONSTANT and n.output.type.dtype is bfloat16 for n in after.nodes)
    assert [a.tolist() for a in run(after, [])] == [[1.0], [2.5, 3.0]]


def test_variables_and_random_numbers_are_left_alone() -> None:
    b = GraphBuilder()
    v = b.variable(np.ones(2, np.float32), name="v")
    noise = b.apply("uniform", b.weight(np.int64(3)), shape=(2,))
    assert len(folded(b.finish(v + 1.0, noise))) == 5


def test_memory_is_limited_and_the_reason_given(watch) -> None:
    b = GraphBuilder()
    x = b.input("float32", (64, 64))
    graph = b.finish(x + b.weight(1.0, "float32").apply("expand", shape=(64, 64)))
    after = folded(graph, watch, max_growth=1024)
    assert any(n.op.name == "expand" for n in after.nodes)
    (reject,) = watch.rejects
    assert reject.numbers == {"bytes": 16384, "freed": 4, "limit": 1024}
    assert not any(n.op.name == "expand" for n in folded(graph, max_growth=1 << 20).nodes)


def test_what_is_small_behind_what_is_large_is_computed() -> None:
    b = GraphBuilder()
    x = b.input("float32", (8,))
    row = b.weight(np.arange(8, dtype=np.float32)).apply("expand", shape=(64, 8))
    whole = row.apply("exp")
    graph = b.finish(x + whole.apply("sum", axes=(0,)), x * whole.apply("max", axes=(0,)))
    after = folded(graph, max_growth=128)
    assert {n.op.name for n in after.nodes} == {"input", "constant", "add", "multiply"}
    for ours, theirs in zip(run(after, [np.ones(8)]), run(graph, [np.ones(8)]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for options in ({"max_passing": 3000}, {"max_growth": 16}):
        left = folded(graph, **{"max_growth": 128, **options})
        assert {n.op.name for n in left.nodes} >= {"expand", "exp", "sum", "max"}


def test_a_large_result_that_is_read_itself_stays() -> None:
    b = GraphBuilder()
    x = b.input("float32", (64, 64))
    whole = b.weight(1.0, "float32").apply("expand", shape=(64, 64))
    after = folded(b.finish(x * whole, whole.apply("sum", axes=(1,))), max_growth=1024)
    assert {n.op.name for n in after.nodes} == {"input", "constant", "expand", "multiply"}


def test_a_weight_that_is_only_moved_is_folded_whatever_its_size() -> None:
    b = GraphBuilder()
    x = b.input("float32", (1, 1000))
    w = b.weight(np.ones((1000, 1000), np.float32))
    after = folded(b.finish(x @ w.apply("permute", axes=(1, 0))), max_growth=0)
    assert [n.op.name for n in after.nodes] == ["input", "constant", "matmul"]


def test_a_weight_that_others_need_too_is_not_stored_twice() -> None:
    b = GraphBuilder()
    x = b.input("float32", (1, 1000))
    w = b.weight(np.ones((1000, 1000), np.float32))
    graph = b.finish(x @ w.apply("permute", axes=(1, 0)), x @ w)
    assert any(n.op.name == "permute" for n in folded(graph).nodes)


def test_constants_without_data_are_left_alone() -> None:
    text = """Graph(x: float32[2]){
      c = Constant(float32[2])
      x_1: float32[2] = Exp(c)
      x_2: float32[2] = Add(x, x_1)
      return x_2
    }"""
    assert len(folded(parse_graph(text))) == 4


def test_a_mistake_in_constants_waits_until_the_graph_runs(watch) -> None:
    b = GraphBuilder()
    x = b.input("float32", (2,))
    wrong = b.weight([1.0, 2.0], "float32").apply("take", b.weight([7], "int64"))
    after = folded(b.finish(x + wrong), watch)
    assert "computing it failed" in watch.rejects[0].why
    with pytest.raises(Exception, match="take"):
        run(after, [np.ones(2, np.float32)])
