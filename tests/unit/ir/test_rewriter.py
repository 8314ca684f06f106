"""The only way to change a graph: origins are kept, the dead goes, vetoes change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import GraphError
from glasshouse.ir import (
    Expr,
    Frame,
    Graph,
    GraphBuilder,
    Listener,
    Node,
    Origin,
    Reject,
    Rewrite,
    Rewriter,
    Source,
    print_graph,
    symbol,
    verify,
)
from glasshouse.ir.home import made_from
from glasshouse.numpy_ref import run


class Seen(Listener):
    def __init__(self) -> None:
        self.rewrites: list[Rewrite] = []
        self.rejects: list[Reject] = []

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        self.rewrites.append(step)

    def rejected(self, graph: Graph, step: Reject) -> None:
        self.rejects.append(step)


def _line(number: int) -> Origin:
    return Origin(Source(frames=(Frame("model.py", number),)), labels=(("phase", "forward"),))


def _chain() -> tuple[Graph, Node, Node, Node]:
    """x -> relu -> exp -> negative, each on its own line."""
    b = GraphBuilder()
    with b.at(_line(1)):
        x = b.input("float32", [3])
    made: list[Expr] = [x]
    for line, op in enumerate(("relu", "exp", "negative"), 2):
        with b.at(_line(line)):
            made.append(made[-1].apply(op))
    graph = b.finish(made[-1])
    relu, exp, neg = graph.nodes[1:]
    return graph, relu, exp, neg


def test_replace_redirects_users_and_removes_the_dead() -> None:
    graph, relu, exp, neg = _chain()
    seen = Seen()
    rw = Rewriter(graph, "Demo", [seen])
    x = graph.inputs[0]
    done = rw.replace(exp, lambda: rw.expr(x).apply("sigmoid"), rule="demo", why="a test")
    assert done
    verify(graph)
    assert [n.op.name for n in graph.nodes] == ["input", "sigmoid", "negative"]
    assert neg.inputs[0].node.op.name == "sigmoid"
    assert relu not in graph
    assert exp not in graph
    (step,) = seen.rewrites
    assert (step.pass_name, step.rule, step.why, step.number) == ("Demo", "demo", "a test", 0)
    assert step.before == (exp.id, relu.id)
    assert step.after == (graph.nodes[1].id,)
    assert step.redirected == (neg.id,)
    assert step.seconds >= 0


def test_what_is_made_knows_what_it_stands_for() -> None:
    graph, relu, exp, _ = _chain()
    rw = Rewriter(graph, "Demo")
    x = rw.expr(graph.inputs[0])
    rw.replace(
        exp, lambda: x.apply("sigmoid").apply("tanh"), rule="two", why="a test", matched=[relu]
    )
    for node in graph.nodes_of(exp.op) + [
        n for n in graph.nodes if n.op.name in ("sigmoid", "tanh")
    ]:
        assert node.origin.replaces == (exp.id, relu.id)
        assert (node.origin.pass_name, node.origin.rule) == ("Demo", "two")
        assert str(node.origin.source) == "model.py:3"
        assert node.origin.label("phase") == "forward"
    assert len(graph) == 4


def test_ids_are_never_used_twice() -> None:
    graph, _, exp, _ = _chain()
    before = {n.id for n in graph.nodes}
    copy = graph.copy()
    rw = Rewriter(graph)
    rw.replace(exp, lambda: rw.expr(exp.inputs[0]).apply("tanh"), why="a test")
    made = {n.id for n in graph.nodes} - before
    assert made
    assert not made & before
    assert {n.id for n in copy.nodes} == before
    assert [n.op.name for n in copy.nodes] == ["input", "relu", "exp", "negative"]


def test_a_new_node_may_use_the_old_one() -> None:
    graph, _, exp, neg = _chain()
    rw = Rewriter(graph)
    rw.replace(exp.output, lambda: rw.expr(exp.output) * 2.0, why="a test")
    verify(graph)
    assert neg.inputs[0].node.op.name == "multiply"
    assert exp in graph
    out = run(graph, [np.array([0.0, 1.0, -1.0], np.float32)])[0]
    np.testing.assert_allclose(out, -2 * np.exp([0.0, 1.0, 0.0]), 1e-6)


def test_replace_by_a_value_that_exists_and_graph_outputs() -> None:
    graph, relu, exp, neg = _chain()
    rw = Rewriter(graph)
    rw.replace(neg, relu.output, why="a test")
    verify(graph)
    assert list(graph.outputs) == [relu.output]
    assert [n.op.name for n in graph.nodes] == ["input", "relu"]
    assert exp not in graph


def test_updates_follow_and_keep_variables_alive() -> None:
    b = GraphBuilder()
    x = b.input("float32", [2])
    state = b.variable(np.zeros(2, np.float32), name="s")
    new = state + x
    b.update(state, new)
    graph = b.finish(x)
    rw = Rewriter(graph)
    rw.replace(new.value, lambda: rw.expr(x.value) * 3.0, why="a test")
    verify(graph)
    assert state.value.node in graph
    held: dict[str, np.ndarray] = {}
    run(graph, [np.ones(2, np.float32)], variables=held)
    np.testing.assert_array_equal(held["s"], [3, 3])


def test_all_outputs_of_a_node_at_once() -> None:
    b = GraphBuilder()
    x = b.input("float32", [4])
    top, where = x.apply("topk", k=2)
    graph = b.finish(top, where)
    rw = Rewriter(graph)

    def sliced() -> list[Expr]:
        values, indices = rw.expr(x.value).apply("sort", descending=True)
        return [v.apply("slice", starts=[0], ends=[2]) for v in (values, indices)]

    rw.replace(top.value.node, sliced, why="a test")
    verify(graph)
    got = run(graph, [np.array([3, 1, 4, 2], np.float32)])
    assert [a.tolist() for a in got] == [[4, 3], [2, 0]]


def test_a_veto_changes_nothing_and_counts() -> None:
    graph, _, exp, neg = _chain()
    text = print_graph(graph)
    seen = Seen()
    rw = Rewriter(graph, "Demo", [seen], allows=lambda number: number >= 1)
    assert not rw.replace(exp, lambda: pytest.fail("built in spite of the veto"), why="a test")
    assert print_graph(graph) == text
    assert not seen.rewrites
    assert rw.replace(neg, lambda: rw.expr(neg.inputs[0]).apply("tanh"), why="a test")
    assert [s.number for s in seen.rewrites] == [1]
    assert not Rewriter(graph, allows=lambda _: False).remove_dead(graph.nodes, why="a test")


def test_types_must_be_equal() -> None:
    graph, relu, exp, _ = _chain()
    text = print_graph(graph)
    rw = Rewriter(graph, "Demo")
    with pytest.raises(
        GraphError, match=r"rule demo turns float32\[3\] into float64\[3\]"
    ) as caught:
        rw.replace(exp, lambda: rw.expr(relu.output).cast("float64"), rule="demo", why="a test")
    assert "model.py:3" in str(caught.value)
    with pytest.raises(GraphError, match="gives 2 values for 1"):
        rw.replace(exp, [relu.output, relu.output], rule="demo", why="a test")
    assert print_graph(graph) == text
    verify(graph)


def test_sizes_of_one_name_are_told_apart_by_their_ranges() -> None:
    b = GraphBuilder()
    graph = b.finish(b.input("float32", [symbol("n", 1, 64)]).apply("tanh"))
    rw, smaller = Rewriter(graph), symbol("n", 1, 4)
    with pytest.raises(GraphError, match=r"\(n in 1..64\) into float32\[n\] \(n in 1..4\)"):
        rw.replace(
            graph.outputs[0],
            lambda: rw.expr(graph.inputs[0]).apply("reshape", shape=(smaller,)),
            why="a test",
        )


@pytest.mark.parametrize("gives, says", [
    (lambda graph, rw: None, r"rule wrong gives None of type NoneType for %1\.0: float32"),
    (lambda graph, rw: 1.0, "gives 1.0 of type float"),
    (lambda graph, rw: lambda: [graph.outputs[0].node], "gives %1 = Tanh.*of type Node"),
    (lambda graph, rw: GraphBuilder().input("float32", [4]), "names %0 = Input.*not in the graph"),
    (lambda graph, rw: lambda: rw.expr(graph.copy().outputs[0]).apply("exp"),
     "names %1 = Tanh.*not in the graph"),
])  # fmt: skip
def test_what_is_no_value_of_the_graph(gives: Any, says: str) -> None:
    b = GraphBuilder()
    graph = b.finish(b.input("float32", [4]).apply("tanh"))
    text, rw = str(graph), Rewriter(graph)
    with pytest.raises(GraphError, match=says):
        rw.replace(graph.outputs[0], gives(graph, rw), why="a test", rule="wrong")
    assert str(graph) == text


def test_what_was_removed_cannot_be_replaced() -> None:
    b = GraphBuilder()
    graph = b.finish(b.input("float32", [4]).apply("tanh"))
    rw = Rewriter(graph)
    gone = graph.outputs[0]
    rw.replace(gone, graph.inputs[0], why="a test")
    with pytest.raises(GraphError, match=r"rule again names %1 = Tanh.*not in the graph"):
        rw.replace(gone, graph.inputs[0], why="a test", rule="again")


def test_a_rule_that_fails_leaves_nothing_behind() -> None:
    graph, relu, exp, _ = _chain()
    text = print_graph(graph)
    rw = Rewriter(graph)

    def fails() -> Expr:
        rw.expr(relu.output).apply("tanh").apply("exp")
        raise KeyError("in the rule")

    with pytest.raises(KeyError):
        rw.replace(exp, fails, why="a test")
    assert print_graph(graph) == text
    verify(graph)


def test_nodes_are_only_made_inside_replace() -> None:
    graph, relu, _, _ = _chain()
    rw = Rewriter(graph)
    with pytest.raises(GraphError, match="made a Tanh outside of a rewrite"):
        rw.expr(relu.output).apply("tanh")


def test_remove_dead_takes_what_only_the_dead_used() -> None:
    b = GraphBuilder()
    x = b.input("float32", [3])
    dead = (x * 2.0).apply("exp")
    graph = b.finish(x.apply("relu"))
    seen = Seen()
    rw = Rewriter(graph, "Clean", [seen])
    assert rw.remove_dead([dead.value.node], why="nothing reads it")
    verify(graph)
    assert [n.op.name for n in graph.nodes] == ["input", "relu"]
    assert len(seen.rewrites[0].before) == 3
    assert seen.rewrites[0].after == ()
    assert not rw.remove_dead(list(graph.nodes), why="all are read")
    assert rw.steps == 1


def test_touched_feeds_a_worklist() -> None:
    graph, relu, exp, neg = _chain()
    rw = Rewriter(graph)
    rw.replace(exp, lambda: rw.expr(exp.inputs[0]).apply("tanh"), why="a test")
    tanh = neg.inputs[0].node
    assert {tanh, neg} <= set(rw.touched())
    assert rw.touched() == []
    rw.replace(neg, tanh.output, why="a test")
    assert neg not in rw.touched()
    assert relu in graph


def test_rejections_carry_the_numbers() -> None:
    graph, relu, exp, _ = _chain()
    seen = Seen()
    rw = Rewriter(graph, "Fuse", [seen])
    rw.reject([relu, exp], rule="epilogue", why="would recompute it", flops=3.0, bytes=12.0)
    (step,) = seen.rejects
    assert step.nodes == (relu.id, exp.id)
    assert (step.pass_name, step.rule, step.why) == ("Fuse", "epilogue", "would recompute it")
    assert dict(step.numbers) == {"flops": 3.0, "bytes": 12.0}
    assert rw.steps == 0


def test_labels_on_what_is_made() -> None:
    graph, _, exp, _ = _chain()
    rw = Rewriter(graph)
    rw.replace(
        exp, lambda: rw.expr(exp.inputs[0]).apply("tanh"), why="a test", labels={"variant": "fast"}
    )
    tanh = next(n for n in graph.nodes if n.op.name == "tanh")
    assert tanh.origin.label("variant") == "fast"
    assert tanh.origin.label("phase") == "forward"


@pytest.mark.parametrize(
    ("phases", "made"),
    [
        (("forward", "forward"), "forward"),
        (("backward", "optimizer"), "backward"),
        (("forward", "backward"), "backward"),
        (("forward", "optimizer"), None),
        ((None, "backward"), "backward"),
    ],
)
def test_what_has_a_backward_op_in_it_runs_backward(phases, made) -> None:
    b = GraphBuilder("phases")
    x = b.input("float32", (4,), "x")
    nodes = []
    for phase in phases:
        labels = () if phase is None else (("phase", phase),)
        with b.at(Origin(Source(frames=(Frame("model.py", 1),)), labels=labels)):
            x = x.apply("exp")
        nodes.append(x.value.node)
    assert made_from(nodes, "FuseOperator", "fuse").label("phase") == made
