"""Control flow: bodies of other types, symbolic sizes, half precision, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import GlasshouseError, GradientError, GraphError
from glasshouse.ir import GraphBuilder, parse_graph, print_graph, symbol, tensor_type, verify
from glasshouse.ir.dtype import bfloat16, bool_, float32
from glasshouse.numpy_ref import run
from glasshouse.ops.control import body_of, cond, while_loop
from glasshouse.ops.pullback import pullback
from glasshouse.ops.scan import scan

N = symbol("n", 1, 64)


def test_cond_with_symbolic_sizes() -> None:
    builder = GraphBuilder()
    flag, x = builder.input("bool", ()), builder.input("float32", (N, 2))
    then, other = body_of(lambda v: v * 2.0, x), body_of(lambda v: -v, x)
    graph = builder.finish(cond(flag, x, then=then, other=other))
    data = np.ones((3, 2), np.float32)
    assert run(graph, [np.array(True), data])[0].sum() == 12
    assert run(graph, [np.array(False), data])[0].sum() == -6


def test_a_body_knows_symbols_that_none_of_its_inputs_has() -> None:
    builder = GraphBuilder()
    flag, x = builder.input("bool", ()), builder.input("float32", (N,))
    total = x.apply("sum")
    wide = body_of(lambda v: v.apply("expand", shape=(N,)), total)
    graph = builder.finish(cond(flag, total, then=wide, other=wide))
    assert run(graph, [np.array(True), np.ones(5, np.float32)])[0].tolist() == [5.0] * 5


def test_a_loop_in_bfloat16_rounds_each_step() -> None:
    builder = GraphBuilder()
    x, steps = builder.input(bfloat16, ()), builder.input("int64", ())
    test = body_of(lambda v, i: v < 300.0, x, steps)
    body = body_of(lambda v, i: (v + 1.0, i + 1), x, steps)
    graph = builder.finish(*while_loop(x, steps, test=test, body=body))
    # Between 256 and 512 a bfloat16 is even: 298 + 1 rounds to 300.
    assert [v.item() for v in run(graph, [np.float32(298.0), np.int64(0)])] == [300.0, 1]


def test_verify_looks_into_bodies() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (3,))
    body = body_of(lambda v: v * 2.0, x)
    graph = builder.finish(cond(_flag(builder), x, then=body, other=body))
    verify(graph)
    body._set_outputs([x.value])  # as a pass would that mixes up two graphs
    with pytest.raises(GraphError, match="an output of the graph that is not in it"):
        verify(graph)


def test_scan_over_a_symbolic_length() -> None:
    builder = GraphBuilder()
    total, xs = builder.input("float32", (2,)), builder.input("float32", (N, 2))
    body = body_of(lambda t, x: (t + x, t), total, total)
    last, before = scan(total, xs, body=body, carries=1)
    assert before.shape == (N, 2)
    graph = builder.finish(last, before)
    backward = pullback(graph)
    verify(backward)
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    zero = np.zeros(2, np.float32)
    np.testing.assert_array_equal(run(graph, [zero, data])[0], [6, 9])
    ones = np.ones((3, 2), np.float32)
    by_total, by_xs = run(backward, [zero, data, zero, ones])
    np.testing.assert_array_equal(by_total, [3, 3])
    np.testing.assert_array_equal(by_xs, [[2, 2], [1, 1], [0, 0]])


def test_bodies_inside_bodies_print_and_parse() -> None:
    builder = GraphBuilder()
    flag, x = builder.input("bool", ()), builder.input("float32", ())

    def loop(p: Any, v: Any) -> Any:
        test = body_of(lambda v: v < 10.0, v)
        return while_loop(v, test=test, body=body_of(lambda v: v * 2.0, v))

    then, other = body_of(loop, flag, x), body_of(lambda p, v: v, flag, x)
    graph = builder.finish(cond(flag, flag, x, then=then, other=other))
    text = print_graph(graph)
    assert text.count("Graph(") == 5
    assert "then=graph_1, other=graph_2" in text
    again = parse_graph(text)
    assert print_graph(again) == text
    assert run(again, [np.array(True), np.float32(3)])[0] == 12


def _flag(builder: GraphBuilder) -> Any:
    return builder.input("bool", ())


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda b, x: cond(x, x, then=body_of(_same, x), other=body_of(_same, x)), "must be bool"),
        (lambda b, x: cond(_flag(b), x, then=body_of(_same, x), other=body_of(_total, x)),
         "then gives"),
        (lambda b, x: cond(_flag(b), x, then=3, other=body_of(_same, x)), "must be a graph"),
        (lambda b, x: cond(_flag(b), then=body_of(_same, x), other=body_of(_same, x)), "takes"),
        (lambda b, x: while_loop(x, test=body_of(_total, x), body=body_of(_same, x)), "bool"),
        (lambda b, x: while_loop(x, test=body_of(_no, x), body=body_of(_total, x)), "body gives"),
        (lambda b, x: scan(x, body=body_of(_same, x), carries=1, scanned=0), "give length="),
        (lambda b, x: scan(x, body=body_of(_same, x), carries=2), "2 carries"),
    ],
)  # fmt: skip
def test_mistakes(build: Any, says: str) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (3,))
    with pytest.raises(GlasshouseError, match=says):
        build(builder, x)


def _same(x: Any) -> Any:
    return x


def _total(x: Any) -> Any:
    return x.apply("sum")


def _no(x: Any) -> Any:
    return x.apply("sum") < 0.0


def test_a_body_that_reads_from_outside() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (3,))
    with pytest.raises(GraphError, match="make it one of them"):
        body_of(lambda v: v + x, x)


def test_a_body_with_a_variable() -> None:
    inner = GraphBuilder()
    inner.input("float32", (3,))
    state = inner.variable(np.zeros(3, np.float32), name="state")
    body = inner.finish(state)
    builder = GraphBuilder()
    x = builder.input("float32", (3,))
    with pytest.raises(GraphError, match="holds a variable"):
        cond(builder.input("bool", ()), x, then=body, other=body)


def test_a_while_loop_has_no_gradient() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (3,))
    out = while_loop(x, test=body_of(_no, x), body=body_of(_same, x))
    with pytest.raises(GradientError, match="scan has a gradient"):
        pullback(builder.finish(out))


def test_body_of_takes_types() -> None:
    graph = body_of(
        lambda p, x: p.apply("where", x, 0.0), tensor_type(bool_, ()), tensor_type(float32, (2,))
    )
    assert [str(v.type) for v in graph.inputs] == ["bool[]", "float32[2]"]
