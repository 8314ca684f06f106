"""A node as it stands at one moment, noted while passes run, so that its row is written later.

A note takes a fifth of the time of a row, and most recordings are never asked for. What passes
change is noted as it is now: what a node reads, and its title and modules, which follow from that.
Op, types and origin never change. A note keeps no data of constants and no other node alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind, Op
from glasshouse.ir.origin import Origin, Scope
from glasshouse.ir.printer import format_attr
from glasshouse.ir.types import TensorType
from glasshouse.record.titles import local_title, scopes_of

_KIND = {
    "matmul": "matmul", "attention": "matmul", "conv": "conv", "norm": "norm", "quant": "quant",
    "shape": "shape", "index": "move", "create": "source", "source": "source", "random": "source",
}  # fmt: skip
_KIND_OF_KIND = {
    Kind.SOURCE: "source", Kind.ELEMENTWISE: "elementwise", Kind.INJECTIVE: "move",
    Kind.REDUCTION: "reduction", Kind.CONTRACTION: "matmul", Kind.OPAQUE: "opaque",
}  # fmt: skip


def kind_of(node: Node) -> str:
    """The family by which the viewer colours a node; a fused node has that of its anchor."""
    body = node.attrs.get("body")
    if node.op.name == "fused" and isinstance(body, Graph):
        heavy = [n for n in body.nodes if n.op.kind in (Kind.CONTRACTION, Kind.REDUCTION)]
        inner = heavy or [n for n in body.nodes if n.op.kind is not Kind.SOURCE]
        return kind_of(inner[0]) if inner else "opaque"
    if node.op.family == "shape" and node.op.traits.view not in ("whole", "repeat"):
        return "move"
    return _KIND.get(node.op.family) or _KIND_OF_KIND[node.op.kind]


Reads = tuple[tuple[int, int], ...]
"""What a node reads: (id of the producer, number of its output)."""


def reads_of(node: Node) -> Reads:
    return tuple([(v.node.id, v.index) for v in node.inputs])


class SeenNode(NamedTuple):
    """A node at one moment, in 0.3 KB: a Llama's passes leave four thousand notes."""

    id: int
    op: Op
    attrs: Mapping[str, AttrValue]  # without data, and bodies as text
    types: Sequence[TensorType]
    origin: Origin
    reads: Reads
    name: str
    kind: str
    scopes: Sequence[Scope]
    bodies: Sequence[tuple[str, SeenGraph]]  # graphs inside of it, by attribute

    @staticmethod
    def of(node: Node) -> SeenNode:
        bodies = [(k, SeenGraph.of(v)) for k, v in node.attrs.items() if isinstance(v, Graph)]
        attrs = node.attrs
        if bodies or "data" in attrs:
            attrs = {
                k: format_attr(v) if isinstance(v, Graph) else v
                for k, v in attrs.items()
                if k != "data"
            }
        types = tuple([v.type for v in node.outputs])
        return SeenNode(
            node.id, node.op, attrs, types, node.origin,
            reads_of(node), _name(node), kind_of(node), scopes_of(node), bodies or (),
        )  # fmt: skip

    def twin(self) -> Node:
        """The node without inputs, data and bodies."""
        return Node(self.id, self.op, (), self.attrs, self.types, self.origin)


class SeenGraph(NamedTuple):
    """A graph at one moment."""

    nodes: Sequence[SeenNode]
    inputs: Sequence[int]
    outputs: Reads

    @staticmethod
    def of(graph: Graph) -> SeenGraph:
        return SeenGraph([SeenNode.of(node) for node in graph.nodes], *ends_of(graph))


def ends_of(graph: Graph) -> tuple[list[int], Reads]:
    """The ids of a graph's inputs, and the values that leave it."""
    outputs = tuple([(v.node.id, v.index) for v in graph.outputs])
    return [v.node.id for v in graph.inputs], outputs


def _name(node: Node) -> str:
    """The name it was given; kernels and what was merged of several modules have titles."""
    if node.op.name == "fused" or (node.origin.spans and node.op.kind is Kind.CONTRACTION):
        return local_title(node)
    return str(node.attrs.get("name") or node.origin.name)
