"""How a recording becomes Hidet's flow graph JSON, as its later generation writes it.

Inputs and constants are arguments there, not nodes. What makes a node a constant is that it reads
nothing and is not an input of the graph.
"""

from __future__ import annotations

import json
import re
from typing import Any

from glasshouse.formats.hidet.read import GENERATOR
from glasshouse.formats.source import graph_of
from glasshouse.record import Recording
from glasshouse.record.schema import NodeRow

_TYPE = re.compile(r"(\w+)\[(.*)\]", re.DOTALL)
_CATEGORY = {
    "matmul": "layer", "conv": "layer", "norm": "normalization", "elementwise": "transform",
    "reduction": "pool", "shape": "shape", "move": "tensor", "quant": "quantization",
}  # fmt: skip
_KEPT = ("category", "description")


def write(recording: Recording, graph: int = 0, stage: int = -1) -> bytes:
    """One stage of one graph."""
    value = to_json(recording, graph, stage)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def lost(recording: Recording) -> list[str]:
    """What the recording says and this format cannot hold."""
    tables = {name.partition("/")[2] for name in recording.table_names()}
    out = ["groups"] if "groups" in tables else []
    if any(len(g.info.stages) > 1 for g in recording.graphs):
        out.append("stages before the last")
    if len(recording.graphs) > 1:
        out.append("graphs after the first")
    names = ("kernels", "candidates", "times", "errors", "summaries", "data", "rewrites", "rejects")
    return out + [name for name in names if name in tables]


def to_json(recording: Recording, graph: int = 0, stage: int = -1) -> dict[str, Any]:
    """The same as plain JSON values."""
    view = graph_of(recording, graph).stage(stage)
    attrs = recording.graphs[graph].info.attrs
    is_hidet = recording.header.generator == GENERATOR
    inputs = set(view.info.inputs)
    nodes = list(view.nodes)
    names: dict[tuple[int, int], str] = {}
    types: dict[tuple[int, int], str] = {}
    constants: dict[int, NodeRow] = {}
    given: list[NodeRow] = []
    made: list[NodeRow] = []
    for node in nodes:
        if node.id in inputs:
            given.append(node)
        elif not node.input_nodes and node.kind == "source" and not node.bodies:
            constants[node.id] = node
        else:
            made.append(node)
    for i, node in enumerate(given):
        names[node.id, 0] = node.name if node.name.startswith("input:") else f"input:{i}"
    for i, node in enumerate(constants.values()):
        names[node.id, 0] = node.name if node.name.startswith("const:") else f"const:{i}"
    titles = _titles(made)
    for node, title in zip(made, titles, strict=True):
        for port in range(max(1, len(node.outputs))):
            own = node.output_names[port] if port < len(node.output_names) else ""
            names[node.id, port] = own or f"{title}:{port}"
    for node in nodes:
        for port, kind in enumerate(node.outputs):
            types[node.id, port] = kind

    def argument(value: tuple[int, int]) -> dict[str, Any]:
        out: dict[str, Any] = {"name": names.get(value, f"missing:{value[0]}")}
        out["type"] = _type(types.get(value, ""))
        if value[0] in constants:
            source = constants[value[0]]
            out["initializer"] = {"kind": "Initializer", "value": "<>"} | dict(
                zip(source.attr_keys, source.attr_values, strict=True)
            )
        return out

    def parameter(name: str, value: tuple[int, int]) -> dict[str, Any]:
        return {"name": name, "arguments": [argument(value)], "visible": True}

    ends = zip(view.info.output_nodes, view.info.output_ports, strict=True)
    return {
        "graphs": [
            {
                "name": attrs.get("name", ""),
                "inputs": [parameter(names[n.id, 0], (n.id, 0)) for n in given],
                "outputs": [parameter(f"output:{i}", v) for i, v in enumerate(ends)],
                "nodes": [
                    _node(n, t, parameter, is_hidet) for n, t in zip(made, titles, strict=True)
                ],
            }
        ],
        "description": attrs.get("description", "Written by Glasshouse"),
        "author": attrs.get("author", ""),
        "company": attrs.get("company", ""),
        "license": attrs.get("license", ""),
        "domain": attrs.get("domain", ""),
        "source": "Hidet",
        "format": "netron",
    }


def _titles(nodes: list[NodeRow]) -> list[str]:
    """A unique name for each node: its own, or its place and op."""
    own = [n.name for n in nodes]
    if all(own) and len(set(own)) == len(own):
        return own
    return [f"{i}_{n.op}" for i, n in enumerate(nodes)]


def _node(node: NodeRow, title: str, parameter: Any, is_hidet: bool) -> dict[str, Any]:
    attrs = list(zip(node.attr_keys, node.attr_values, strict=True))
    kept = {k: v for k, v in attrs if k in _KEPT}
    operands = zip(node.input_nodes, node.input_ports, strict=True)
    names = node.input_names or [str(i) for i in range(len(node.input_nodes))]
    return {
        "name": title,
        "type": {
            "name": node.op,
            "category": kept.get("category", None if is_hidet else _CATEGORY.get(node.kind)),
        },
        "inputs": [
            parameter(names[i] if i < len(names) else str(i), value)
            for i, value in enumerate(operands)
        ],
        "outputs": [parameter(str(i), (node.id, i)) for i in range(max(1, len(node.outputs)))],
        "attributes": [
            {"name": k, "type": _kind(k, v), "value": v, "visible": True, "description": ""}
            for k, v in attrs
            if k not in _KEPT
        ],
        "description": kept["description"].split("\n") if "description" in kept else [],
    }


def _type(kind: str) -> dict[str, Any]:
    found = _TYPE.fullmatch(kind)
    if not found:
        return {"string": kind, "shape": {"dimensions": []}, "dataType": kind}
    dims = [d.strip() for d in found[2].split(",") if d.strip()]
    return {"string": f"{found[1]}{dims}", "shape": {"dimensions": dims}, "dataType": found[1]}


def _kind(key: str, value: str) -> str:
    if key == "fused_graph":
        return "FlowGraph"
    if re.fullmatch(r"-?\d+", value):
        return "int"
    if value in ("True", "False"):
        return "bool"
    if re.fullmatch(r"-?\d*\.\d*(e-?\d+)?", value):
        return "float"
    if re.fullmatch(r"-?\d+(\.\d*)?f", value):
        return "Constant"
    if value.startswith("[["):
        return "Sequence[list]"
    return "Sequence[int]" if re.fullmatch(r"[\[(][-\d, ]*[\])]", value) else "str"
