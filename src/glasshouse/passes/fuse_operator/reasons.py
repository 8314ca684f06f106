"""How it is reported why two neighbours are in different kernels: one reason for each edge."""

from __future__ import annotations

from collections.abc import Mapping

from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.cost import nbytes
from glasshouse.passes.fuse_operator.group import FusionGroup
from glasshouse.passes.fuse_operator.roles import can_inline, is_anchor, partition


class Notes:
    """Reasons met while groups grew, by edge; nothing is kept when nobody listens."""

    def __init__(self, watched: bool) -> None:
        self.watched = watched
        self._why: dict[tuple[Node, Node], tuple[str, dict[str, float]]] = {}

    def edge(self, producer: Node, consumer: Node, why: str, **numbers: float) -> None:
        if self.watched:
            self._why.setdefault((producer, consumer), (why, numbers))

    def report(self, graph: Graph, rw: Rewriter, holders: Mapping[Node, list[FusionGroup]]) -> None:
        """One reject for each edge between kernels, before the groups are built."""
        for consumer in graph.nodes:
            if consumer.op.kind is Kind.SOURCE:
                continue
            for value in dict.fromkeys(consumer.inputs):
                producer = value.node
                if producer.op.kind is Kind.SOURCE or _together(producer, consumer, holders):
                    continue
                known = self._why.get((producer, consumer))
                why, numbers = known or (_in_general(graph, producer, consumer), {})
                numbers = {"bytes": nbytes(value), **numbers}
                rw.reject([producer, consumer], rule="fuse", why=why, **numbers)


def _together(a: Node, b: Node, holders: Mapping[Node, list[FusionGroup]]) -> bool:
    """Whether every kernel that computes `b` computes `a` too."""
    groups = holders.get(b, [])
    return bool(groups) and all(a in g for g in groups)


def _in_general(graph: Graph, producer: Node, consumer: Node) -> str:
    for node in (producer, consumer):
        if not is_anchor(node) and not can_inline(node):
            return f"opaque: nothing is fused into {node.op.label}"
    if partition(producer) != partition(consumer):
        return f"different partition: {partition(producer)!r} and {partition(consumer)!r}"
    if is_anchor(consumer) and is_anchor(producer):
        return f"two anchors: {producer.op.label} and {consumer.op.label} each need their own loops"
    uses = max(len(v._uses) + graph.is_held(v) for v in producer.outputs)
    if uses > 1:
        return f"several uses: {uses} read the result of {producer.op.label}"
    if is_anchor(consumer):
        return (
            f"two anchors: {producer.op.label} is finished in the kernel before {consumer.op.label}"
        )
    return f"{consumer.op.label} belongs to the kernel of another operand"
