"""What a kernel computes: the graph inside a fused node, or one node as such a graph."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT, INPUT
from glasshouse.ir.types import tensor_type
from glasshouse.lower.numbers import is_number


@dataclass(frozen=True)
class Group:
    """`body.inputs` stand for `operands`; numbers among the node's operands are in the body."""

    node: Node
    body: Graph
    operands: tuple[Value, ...]


def group_of(node: Node) -> Group:
    """The group of a node; its body's nodes keep their ids and origins."""
    inside = node.attrs.get("body") if node.op.name == "fused" else None
    body = Graph()
    values: dict[Value, Value] = {}
    operands: list[Value] = []
    for position, outer in enumerate(node.inputs):
        key = inside.inputs[position] if isinstance(inside, Graph) else outer
        if key in values:
            continue
        if is_number(outer):
            twin = body._add(
                CONSTANT, (), outer.node.attrs, (outer.type,), outer.node.origin, outer.node.id
            )
        else:
            attrs = {"dtype": outer.type.dtype, "shape": outer.type.shape, "name": ""}
            twin = body._add(
                INPUT,
                (),
                attrs,
                (tensor_type(outer.type.dtype, outer.type.shape),),
                key.node.origin,
            )
            body.inputs.append(twin.output)
            operands.append(outer)
        values[key] = twin.output
    members = (
        [n for n in inside.nodes if n.op is not INPUT] if isinstance(inside, Graph) else [node]
    )
    for member in members:
        types = [v.type for v in member.outputs]
        inputs = tuple(values[v] for v in member.inputs)
        twin = body._add(member.op, inputs, member.attrs, types, member.origin)
        values.update(zip(member.outputs, twin.outputs, strict=True))
    outputs = inside.outputs if isinstance(inside, Graph) else node.outputs
    body._set_outputs([values[v] for v in outputs])
    return Group(node, body, tuple(operands))


def member_ids(node: Node) -> tuple[int, ...]:
    """Ids of the ops that a kernel computes, in order."""
    body = node.attrs.get("body")
    if node.op.name != "fused" or not isinstance(body, Graph):
        return (node.id,)
    return tuple(n.id for n in body.nodes if n.op is not INPUT and n.op is not CONSTANT)
