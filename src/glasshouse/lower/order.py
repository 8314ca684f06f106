"""Decides in which order the axes of a value lie in memory.

Row-major is the rule. Images between convolutions lie with their channels last: vectors then run
over channels, and no kernel needs a transpose. An order lists the axes from the slowest to the
fastest; it belongs to a buffer and never changes what a value means.
"""

from __future__ import annotations

from collections.abc import Mapping

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.types import Shape
from glasshouse.lower.index import Index, offset

Order = tuple[int, ...]
Orders = Mapping[Value, Order]

_IMAGE_OPS = frozenset(
    {"conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"}
)


def channels_last(rank: int) -> Order:
    return (0, *range(2, rank), 1)


def lying(shape: Shape, order: Order | None) -> Shape:
    """The sizes in the order in which the axes lie."""
    return shape if order is None else tuple(shape[axis] for axis in order)


def position(value: Value, index: tuple[Index, ...], orders: Orders) -> Index:
    """Where in its buffer an element lies."""
    order = orders.get(value)
    if order is None:
        return offset(index, value.type.shape)
    return offset(tuple(index[a] for a in order), lying(value.type.shape, order))


def choose_orders(graph: Graph) -> dict[Value, Order]:
    """Channels last for what convolutions and pools make, and for what follows element by element.

    Inputs, outputs and updates of the graph keep the order that the caller expects.
    """
    orders: dict[Value, Order] = {}
    for node in graph.nodes:
        if len(node.outputs) != 1 or graph.is_held(node.outputs[0]):
            continue
        out = node.outputs[0]
        if out.type.rank < 3 or node.op.kind is Kind.SOURCE:
            continue
        if _makes_images(node) or _follows(node, out, orders):
            orders[out] = channels_last(out.type.rank)
    return orders


def _members(node: Node) -> list[Node]:
    body = node.attrs.get("body")
    if node.op.name == "fused" and isinstance(body, Graph):
        return [n for n in body.nodes if n.op.kind is not Kind.SOURCE]
    return [node]


def _makes_images(node: Node) -> bool:
    """A convolution or pool, followed by nothing that changes the shape of the image."""
    members = _members(node)
    anchors = [n for n in members if n.op.name in _IMAGE_OPS]
    return (
        bool(anchors)
        and anchors[0].outputs[0].type.shape == node.outputs[0].type.shape
        and all(n.op.kind is Kind.ELEMENTWISE for n in members[members.index(anchors[0]) + 1 :])
    )


def _follows(node: Node, out: Value, orders: Orders) -> bool:
    """Elementwise (or a concat of channels) on images that lie with their channels last."""
    if not all(n.op.kind is Kind.ELEMENTWISE or n.op.name == "concat" for n in _members(node)):
        return False
    same = [v for v in node.inputs if v.type.rank == out.type.rank and v.type.numel != 1]
    return bool(same) and any(v in orders for v in same)
