"""Every way in which a graph can be broken is noticed, with the node and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import GraphError
from glasshouse.ir import Frame, Graph, GraphBuilder, Origin, Source, symbol, tensor_type, verify
from glasshouse.ir.dtype import float32, float64
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import REGISTRY


def _graph() -> Graph:
    b = GraphBuilder(origin=Origin(Source(frames=(Frame("model.py", 7),))))
    x = b.input("float32", [3], name="x")
    state = b.variable(np.zeros(3, np.float32), name="s")
    y = x.apply("relu") + state
    b.update(state, y)
    return b.finish(y)


def _node(graph: Graph, op: str) -> Node:
    return next(n for n in graph.nodes if n.op.name == op)


def _foreign_operand(graph: Graph) -> None:
    other = GraphBuilder().input("float32", [3]).value
    _node(graph, "relu").inputs = (other,)


def _use_before_definition(graph: Graph) -> None:
    relu, add = _node(graph, "relu"), _node(graph, "add")
    graph._order = [n for n in graph.nodes if n is not relu and n is not add] + [add, relu]


def _cycle(graph: Graph) -> None:
    _node(graph, "relu").inputs = (_node(graph, "add").output,)
    graph._order = None


def _uses_too_many(graph: Graph) -> None:
    relu = _node(graph, "relu")
    relu.output._uses[relu] = 1


def _uses_too_few(graph: Graph) -> None:
    graph.inputs[0]._uses.clear()


def _wrong_type(graph: Graph) -> None:
    relu = _node(graph, "relu")
    relu.outputs[0].type = tensor_type(float64, (3,))


def _wrong_attribute(graph: Graph) -> None:
    b = GraphBuilder(origin=Origin(Source(frames=(Frame("model.py", 7),))))
    x = b.input("float32", [3])
    x.apply("sum", axes=[0])
    node = b.graph.nodes[-1]
    node.attrs = {"axes": (5,), "keepdims": False}
    graph.__dict__.update(b.finish(node.output).__dict__)


def _no_operand(graph: Graph) -> None:
    relu = _node(graph, "relu")
    graph.inputs[0]._uses.clear()
    relu.inputs = ()


def _input_that_is_none(graph: Graph) -> None:
    graph.inputs.append(_node(graph, "relu").output)


def _input_not_declared(graph: Graph) -> None:
    graph.inputs.clear()


def _output_from_outside(graph: Graph) -> None:
    graph._set_outputs([GraphBuilder().input("float32", [3]).value])


def _output_removed(graph: Graph) -> None:
    graph._remove(_node(graph, "add"))


def _update_of_no_variable(graph: Graph) -> None:
    graph._set_update(_node(graph, "relu"), graph.outputs[0])


def _update_of_another_type(graph: Graph) -> None:
    b = GraphBuilder(origin=Origin(Source(frames=(Frame("model.py", 7),))))
    state = b.variable(np.zeros(3, np.float32))
    b.update(state, state.apply("sum"))
    graph.__dict__.update(b.finish(state).__dict__)


def _two_ranges(graph: Graph) -> None:
    b = GraphBuilder(origin=Origin(Source(frames=(Frame("model.py", 7),))))
    wide, narrow = b.input("float32", [symbol("n", 1, 64)]), b.input("float32", [symbol("n", 1, 4)])
    graph.__dict__.update(b.finish(wide, narrow).__dict__)


BREAKS: list[tuple[Callable[[Graph], None], str]] = [
    (_foreign_operand, "operand 0 comes from outside"),
    (_use_before_definition, "operand 0 comes from outside"),
    (_cycle, "depends on itself"),
    (_uses_too_many, "2 uses are recorded, 1 are there"),
    (_uses_too_few, "0 uses are recorded, 1 are there"),
    (_wrong_type, "declared as .*float64.*, but its op gives .*float32"),
    (_wrong_attribute, "axis 5 is out of range"),
    (_no_operand, "takes the operands"),
    (_input_that_is_none, "not an input node"),
    (_input_not_declared, "an input node that the graph does not declare"),
    (_output_from_outside, "an output of the graph that is not in it"),
    (_output_removed, "an output of the graph that is not in it"),
    (_update_of_no_variable, "not a variable"),
    (_update_of_another_type, r"a variable of float32\[3\] updated with float32\[\]"),
    (_two_ranges, r"a size of two ranges: n in 1..(64|4), and n in 1..(4|64)"),
]


def test_a_sound_graph_passes() -> None:
    graph = _graph()
    verify(graph)
    verify(graph.copy())


@pytest.mark.parametrize("break_it, says", BREAKS, ids=lambda v: getattr(v, "__name__", ""))
def test_broken_graph(break_it: Callable[[Graph], None], says: str) -> None:
    graph = _graph()
    break_it(graph)
    with pytest.raises(GraphError, match=says):
        verify(graph, after="DemoPass")


def test_the_message_names_the_pass_the_node_and_the_line() -> None:
    graph = _graph()
    _wrong_type(graph)
    with pytest.raises(GraphError) as caught:
        verify(graph, after="DemoPass")
    text = str(caught.value)
    assert "after DemoPass" in text
    assert "Relu" in text
    assert "model.py:7" in text


def test_copies_share_nothing_that_changes() -> None:
    graph = _graph()
    twin = graph.copy()
    values: set[Any] = {v for n in graph.nodes for v in n.outputs}
    assert not values & {v for n in twin.nodes for v in n.outputs}
    assert [n.id for n in twin.nodes] == [n.id for n in graph.nodes]
    assert [n.origin for n in twin.nodes] == [n.origin for n in graph.nodes]
    node = twin._add(
        REGISTRY["relu"], (twin.outputs[0],), {}, (tensor_type(float32, (3,)),), Origin()
    )
    assert node.id not in {n.id for n in graph.nodes}
    assert len(graph) + 1 == len(twin)
    assert isinstance(node.output, Value)
