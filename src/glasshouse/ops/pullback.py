"""Decides what the gradient of a whole graph is: a graph again, for the bodies of control flow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glasshouse.errors import GradientError
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import NoGradient
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import INPUT
from glasshouse.ops.create import zeros_like_type


def floats(values: Any) -> list[int]:
    """Positions of the handles or values with a floating type."""
    return [i for i, v in enumerate(values) if v.type.dtype.is_float]


def clone(graph: Graph) -> tuple[GraphBuilder, dict[Value, Value]]:
    """A builder whose graph begins as a copy of this one, and each value's twin in it."""
    builder = GraphBuilder(graph.name)
    twin: dict[Value, Value] = {}
    for value in graph.inputs:
        twin[value] = builder.input(value.type.dtype, value.type.shape).value
    for node in graph.nodes:
        if node.op is INPUT:
            continue
        inputs = tuple(twin[v] for v in node.inputs)
        with builder.at(node.origin):
            made = builder.emit(node.op, inputs, node.attrs, [v.type for v in node.outputs])
        twin.update(zip(node.outputs, made.outputs, strict=True))
    return builder, twin


def pullback(graph: Graph) -> Graph:
    """Takes the graph's inputs and a cotangent for each floating output; gives a gradient for each
    floating input, zeros where nothing depends on it."""
    builder, twin = clone(graph)
    order = list(builder.graph.nodes)
    sources = [twin[graph.inputs[i]] for i in floats(graph.inputs)]
    reached = set(sources)
    for node in order:
        if any(v in reached for v in node.inputs):
            reached.update(v for v in node.outputs if v.type.dtype.is_float)
    grads: dict[Value, Any] = {}
    for i in floats(graph.outputs):
        value = twin[graph.outputs[i]]
        _add(grads, value, builder.input(value.type.dtype, value.type.shape))
    for node in reversed(order):
        arrived = [grads.get(v) for v in node.outputs]
        if any(v in reached for v in node.inputs) and any(g is not None for g in arrived):
            with builder.at(_backward(node)):
                for value, grad in zip(node.inputs, _vjp(builder, node, arrived), strict=True):
                    if grad is not None and value in reached:
                        _add(grads, value, grad)
    results = [grads[v] if v in grads else zeros_like_type(Expr(v, builder)) for v in sources]
    return builder.finish(*results)


def _backward(node: Node) -> Origin:
    origin = replace(node.origin, grad_of=node.id)
    return origin.with_label("phase", "backward")


def _add(grads: dict[Value, Any], value: Value, grad: Any) -> None:
    grads[value] = grads[value] + grad if value in grads else grad


def _vjp(builder: GraphBuilder, node: Node, arrived: list[Any]) -> Any:
    rule = node.op.vjp
    if isinstance(rule, NoGradient):
        raise GradientError(f"{node.op.name} has no gradient: {rule.why}", str(node.origin.source))
    handles = [builder.wrap(v) for v in (*node.inputs, *node.outputs)]
    return rule(arrived[0] if len(arrived) == 1 else tuple(arrived), *handles, **node.attrs)
