"""What the gradient of a whole graph is: a graph again, for the bodies of control flow."""

from __future__ import annotations

from typing import Any

from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.sources import INPUT
from glasshouse.ops.create import zeros_like_type
from glasshouse.ops.reverse import reverse


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
    seeds: dict[Value, Any] = {}
    for i in floats(graph.outputs):
        value = twin[graph.outputs[i]]
        seed = builder.input(value.type.dtype, value.type.shape)
        seeds[value] = seeds[value] + seed if value in seeds else seed
    found = reverse(builder, builder.at, order, seeds, sources)
    pairs = zip(sources, found, strict=True)
    return builder.finish(
        *[zeros_like_type(Expr(v, builder)) if g is None else g for v, g in pairs]
    )
