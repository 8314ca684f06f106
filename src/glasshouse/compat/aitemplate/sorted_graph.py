"""A graph as AITemplate's transforms pass it around: a list of tensors with attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse import Tensor
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import CONSTANT, INPUT
from glasshouse.tensor.pending import (
    Extraction,
    LazyValue,
    add_source,
    is_embedded,
    pending_nodes,
)
from glasshouse.tensor.renumber import renumbered


class GraphTensor:
    """One value of a graph, with AITemplate's dictionary."""

    def __init__(self, value: Value, outputs: Sequence[Value]) -> None:
        source = value.node.op.kind is Kind.SOURCE
        self.value = value
        self._attrs: dict[str, Any] = {
            "name": value.node.attrs.get("name") or None if source else None,
            "shape": list(value.type.shape), "dtype": value.type.dtype.name,
            "is_input": value.node.op is INPUT, "is_output": value in outputs,
            "is_param": False, "is_view_of": None,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"Tensor(name={self._attrs['name']}, shape={self._attrs['shape']})"


class SortedGraph(list[GraphTensor]):
    """All values in topological order; `graph` is what passes work on."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        outputs = list(graph.outputs)
        super().__init__(GraphTensor(v, outputs) for n in graph.nodes for v in n.outputs)
        self.by_value = {t.value: t for t in self}
        for tensor, name in zip(outputs, graph.output_names, strict=False):
            self.by_value[tensor]._attrs["name"] = name or self.by_value[tensor]._attrs["name"]

    def ops(self) -> list[Node]:
        """The nodes that compute."""
        return [n for n in self.graph.nodes if n.op.kind is not Kind.SOURCE]


def graph_of(outputs: Sequence[Tensor]) -> Graph:
    """The graph that computes these tensors from inputs; what has data becomes a constant."""

    def as_constant(graph: Graph, lazy: LazyValue, reader: Origin) -> Value:
        node = lazy.node
        if is_embedded(node):
            return graph._add(CONSTANT, (), node.attrs, node.types, node.origin, node.id).output
        assert node.results is not None  # only what has data is a leaf
        name = str(node.attrs.get("name") or "")
        data = to_storage(node.results[lazy.index], lazy.type.dtype)
        return add_source(graph, CONSTANT, lazy, name, data, Origin(reader.source, name))

    extraction = Extraction(pending_nodes([t.value for t in outputs]), as_constant)
    graph = extraction.graph
    names = [str(getattr(t, "_attrs", {}).get("name") or "") for t in outputs]
    graph._set_outputs([extraction.value(t.value) for t in outputs], names)
    return renumbered(graph)
