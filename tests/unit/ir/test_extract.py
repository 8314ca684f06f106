"""A part of a graph as a graph of its own, and what passes rely on while they walk one."""

from __future__ import annotations

import numpy as np

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import GraphBuilder, Listener, Reject, Rewriter, verify
from glasshouse.ir.extract import extract
from glasshouse.numpy_ref import run


def test_a_part_keeps_ids_and_origins_and_gets_fresh_inputs() -> None:
    b = GraphBuilder()
    x, y = b.input("float32", (2,)), b.input("float32", (2,))
    middle = x + y
    graph = b.finish(middle.apply("exp") * middle)
    add, exp, multiply = (n for n in graph.nodes if n.op.name != "input")
    part = extract(graph, [exp, multiply], [add.output], [multiply.output])
    verify(part)
    assert [n.id for n in part.nodes][1:] == [exp.id, multiply.id]
    assert part.nodes[1].origin is exp.origin
    assert graph.find(part.inputs[0].node.id) is None
    assert all(n.id != part.inputs[0].node.id for n in graph.copy().nodes)
    (out,) = run(part, [np.array([0.0, 1.0], np.float32)])
    np.testing.assert_allclose(out, [0.0, np.e], 1e-6)


def test_walking_the_nodes_never_meets_what_a_rewrite_made() -> None:
    b = GraphBuilder()
    x, y = b.input("float32", (2,)), b.input("float32", (2,))
    graph = b.finish(x - y)
    rw = Rewriter(graph)
    for node in graph.nodes:
        if node.op.name == "subtract":
            left, right = node.inputs
            rw.replace(node, lambda a=left, b=right: rw.expr(b) - rw.expr(a), why="swap")
    assert rw.steps == 1
    assert [v.node.id for v in graph.nodes[-1].inputs] == [y.value.node.id, x.value.node.id]


def test_labels_go_on_what_a_rewrite_makes() -> None:
    b = GraphBuilder()
    graph = b.finish(b.input("float32", (2,)).apply("exp"))
    rw = Rewriter(graph)
    (node,) = (n for n in graph.nodes if n.op.name == "exp")
    new = node.op
    rw.replace(
        node, lambda: new.emit(rw, node.inputs, {}).output, why="faster", labels={"variant": "fast"}
    )
    assert graph.nodes[-1].origin.label("variant") == "fast"


def test_a_decision_is_told_once() -> None:
    told: list[Reject] = []

    class Ear(Listener):
        def rejected(self, graph, step) -> None:
            told.append(step)

    b = GraphBuilder()
    graph = b.finish(b.input("float32", (2,)).apply("exp"))
    rw = Rewriter(graph, "p", [Ear()])
    for _ in range(3):
        rw.reject(graph.nodes, why="too large", rule="r", bytes=8)
    rw.reject(graph.nodes, why="too small", rule="r")
    assert [(r.why, dict(r.numbers)) for r in told] == [
        ("too large", {"bytes": 8}),
        ("too small", {}),
    ]


def test_outputs_and_updates_follow_a_rewrite_wherever_they_are() -> None:
    b = GraphBuilder()
    v = b.variable(np.ones(2, np.float32), name="v")
    y = v.apply("negative")
    b.update(v, y)
    graph = b.finish(y, v, y)
    rw = Rewriter(graph)
    rw.replace(y.value, lambda: rw.expr(v.value) * -1.0, why="same")
    verify(graph)
    assert [o.node.op.name for o in graph.outputs] == ["multiply", "variable", "multiply"]
    assert [u.node.op.name for u in graph.updates.values()] == ["multiply"]
    assert graph.uses(graph.outputs[0]) == 3
