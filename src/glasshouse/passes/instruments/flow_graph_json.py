"""Decides how a graph is written as the JSON of the flow-graph tutorial (Netron's data model).

Edges are implied by equal argument names: `input:0`, `const:1`, `Matmul2:0`. Data of constants is
left out, as the tutorial's files do.
"""

from __future__ import annotations

from typing import Any

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.printer import attributes, label_of, print_graph
from glasshouse.ir.sources import CONSTANT, INPUT
from glasshouse.ir.types import TensorType

# Netron colours a node by its category.
_CATEGORY = {
    "matmul": "layer", "conv": "layer", "attention": "layer", "norm": "normalization",
    "softmax": "activation", "activation": "activation", "pool": "pool", "shape": "shape",
    "fused": "dropout", "elementwise": "transform", "math": "transform",
}  # fmt: skip


def flow_graph_json(graph: Graph, name: str = "") -> dict[str, Any]:
    """The whole file as plain containers."""
    names = _argument_names(graph)
    nodes = [n for n in graph.nodes if n.op.kind is not Kind.SOURCE]
    return {
        "graphs": [
            {
                "name": name or graph.name,
                "inputs": [_parameter(names[v], v, names) for v in graph.inputs],
                "outputs": [
                    _parameter(f"output:{i}", v, names) for i, v in enumerate(graph.outputs)
                ],
                "nodes": [_node(n, names) for n in nodes],
            }
        ],
        "description": "Converted from a Glasshouse graph",
        "author": "", "company": "", "license": "", "domain": "",
        "source": "Glasshouse", "format": "netron",
    }  # fmt: skip


def _argument_names(graph: Graph) -> dict[Value, str]:
    names: dict[Value, str] = {}
    for i, value in enumerate(graph.inputs):
        names[value] = f"input:{i}"
    counts: dict[str, int] = {}
    constants = 0
    for node in graph.nodes:
        if node.op is INPUT:
            continue
        if node.op.kind is Kind.SOURCE:
            prefix = "const" if node.op is CONSTANT else "var"
            names[node.output] = f"{prefix}:{constants}"
            constants += 1
            continue
        label = label_of(node).rstrip("*")
        counts[label] = counts.get(label, 0) + 1
        for port, value in enumerate(node.outputs):
            names[value] = f"{label}{counts[label]}:{port}"
    return names


def _node(node: Node, names: dict[Value, str]) -> dict[str, Any]:
    label = label_of(node).rstrip("*")
    return {
        "name": names[node.outputs[0]].rpartition(":")[0],
        "type": {"name": label, "category": _CATEGORY.get(node.op.family)},
        "inputs": [_parameter(str(i), v, names) for i, v in enumerate(node.inputs)],
        "outputs": [_parameter(str(i), v, names) for i, v in enumerate(node.outputs)],
        "attributes": [
            {"name": key, "type": "", "value": text, "visible": True, "description": ""}
            for key, text in attributes(node).items()
            if key not in ("label", "body", "types")
        ],
        "description": _description(node),
    }


def _description(node: Node) -> list[str]:
    lines = [f"%{node.id}"]
    if node.origin.source.scopes or node.origin.source.frames:
        lines.append(str(node.origin.source))
    if node.origin.pass_name:
        made = ", ".join(f"%{i}" for i in node.origin.replaces)
        lines.append(f"{node.origin.pass_name} {node.origin.rule} from {made}")
    body = node.attrs.get("body")
    return lines + (print_graph(body).splitlines() if isinstance(body, Graph) else [])


def _parameter(name: str, value: Value, names: dict[Value, str]) -> dict[str, Any]:
    argument: dict[str, Any] = {"name": names[value], "type": _type(value.type)}
    if value.node.op.kind is Kind.SOURCE and value.node.op is not INPUT:
        argument["initializer"] = {"kind": "Initializer", "value": "<>"}
    return {"name": name, "arguments": [argument], "visible": True}


def _type(type: TensorType) -> dict[str, Any]:
    dims = [d if isinstance(d, int) else str(d) for d in type.shape]
    return {
        "string": f"{type.dtype.name}({', '.join(map(str, dims))})",
        "shape": {"dimensions": dims},
        "dataType": type.dtype.name,
    }
