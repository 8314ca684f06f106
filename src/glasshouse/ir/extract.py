"""How a part of a graph becomes a graph of its own: same ids, same origins, new inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import INPUT


def extract(
    graph: Graph, nodes: Iterable[Node], operands: Sequence[Value], outputs: Sequence[Value]
) -> Graph:
    """A graph with copies of `nodes`, which stand in topological order, over inputs for `operands`.

    The copies keep ids, attributes and origins. The inputs get ids that the parent has not used,
    so an id means one thing inside and outside.
    """
    part = Graph()
    inside: dict[Value, Value] = {}
    for value in operands:
        id, graph._next_id = graph._next_id, graph._next_id + 1
        attrs = {"dtype": value.type.dtype, "shape": value.type.shape, "name": ""}
        origin = Origin(source=value.node.origin.source, name=value.node.origin.name)
        inside[value] = part._add(INPUT, (), attrs, (value.type,), origin, id).output
        part.inputs.append(inside[value])
    for node in nodes:
        twin = part._add(
            node.op, tuple([inside[v] for v in node.inputs]), node.attrs,
            [v.type for v in node.outputs], node.origin, node.id,
        )  # fmt: skip
        inside.update(zip(node.outputs, twin.outputs, strict=True))
    part._set_outputs([inside[v] for v in outputs])
    return part
