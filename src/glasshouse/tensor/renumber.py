"""The ids of a captured graph: from 0 in the order of its nodes, in every process."""

from __future__ import annotations

from dataclasses import replace

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.origin import Origin


def renumbered(graph: Graph) -> Graph:
    """The same graph with ids from 0; `grad_of` follows, and is None where that node is gone."""
    out = Graph(graph.name)
    ids: dict[int, int] = {node.id: i for i, node in enumerate(graph.nodes)}
    values: dict[Value, Value] = {}
    origins: dict[int, Origin] = {}  # by the id of the old one: many nodes share it
    for node in graph.nodes:
        inputs = tuple([values[v] for v in node.inputs])
        types = [v.type for v in node.outputs]
        twin = out._add(
            node.op, inputs, node.attrs, types, _origin(node, ids, origins), ids[node.id]
        )
        values.update(zip(node.outputs, twin.outputs, strict=True))
    out.inputs = [values[v] for v in graph.inputs]
    out._set_outputs([values[v] for v in graph.outputs], graph.output_names)
    for variable, value in graph.updates.items():
        out._set_update(values[variable.output].node, values[value])
    return out


def _origin(node: Node, ids: dict[int, int], known: dict[int, Origin]) -> Origin:
    origin = node.origin
    if origin.grad_of is None:
        return origin
    if id(origin) not in known:
        known[id(origin)] = replace(origin, grad_of=ids.get(origin.grad_of))
    return known[id(origin)]
