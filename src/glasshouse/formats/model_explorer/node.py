"""How one Model Explorer node is read: its parts as plain values, the rest kept as it was.

What a recording has a column for goes there. Attributes of inputs and outputs become attributes
of the node, `output:0:quantization`. Whatever these could not give back exactly (styles, odd ids,
references, fields that nobody documented) is kept in `extra`, from which the writer restores it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

SHAPE, TENSOR, TAG = "tensor_shape", "tensor_name", "__tensor_tag"
PORT_KEY = re.compile(r"(input|output):(\d+):(.*)", re.DOTALL)
_KNOWN = {
    "id", "label", "namespace", "subgraphIds", "attrs", "incomingEdges", "inputsMetadata",
    "outputsMetadata",
}  # fmt: skip


@dataclass
class MENode:
    id: str
    label: str
    namespace: str
    attr_keys: list[str]
    attr_values: list[str]
    edges: list[tuple[str, str, str]]  # source, its output, own input
    subgraphs: list[str]
    outputs: list[str] = field(default_factory=list)
    output_ids: list[str] | None = None  # None: "0", "1", ...
    output_names: list[str] = field(default_factory=list)
    input_names: list[str] = field(default_factory=list)
    links: dict[str, list[str]] = field(default_factory=dict)  # attributes that name nodes
    extra: dict[str, Any] = field(default_factory=dict)


def parse_node(raw: dict[str, Any]) -> MENode:
    """A node from its JSON; anything may be missing or of another type."""
    node = MENode(
        text(raw.get("id", "")), text(raw.get("label", "")), text(raw.get("namespace", "")),
        [], [], [], [text(s) for s in items(raw.get("subgraphIds"))],
    )  # fmt: skip
    _attributes(node, raw.get("attrs"))
    for edge in items(raw.get("incomingEdges")):
        if isinstance(edge, dict):
            node.edges.append(
                (
                    text(edge.get("sourceNodeId", "")),
                    text(edge.get("sourceNodeOutputId", "0")),
                    text(edge.get("targetNodeInputId", "0")),
                )
            )
    _inputs(node, raw.get("inputsMetadata"))
    _outputs(node, raw.get("outputsMetadata"))
    for key in raw.keys() - _KNOWN:
        if raw[key] is not None:
            node.extra[key] = raw[key]
    return node


def _attributes(node: MENode, raw: Any) -> None:
    for place, item in enumerate(items(raw)):
        if not isinstance(item, dict):
            continue
        key, value = text(item.get("key", "")), item.get("value", "")
        if isinstance(value, dict) and value.get("type") == "node_ids":
            names = [text(n) for n in items(value.get("nodeIds"))]
            node.links[key] = names
            if not key.startswith("gh."):
                node.extra.setdefault("attrs", {})[str(place)] = value
            value = ", ".join(names)
        elif not isinstance(value, str):
            node.extra.setdefault("attrs", {})[str(place)] = value
        if PORT_KEY.fullmatch(key):
            # Would be taken for an attribute of a port when written.
            node.extra.setdefault("plain", []).append(key)
        node.attr_keys.append(key)
        node.attr_values.append(text(value))


def _inputs(node: MENode, raw: Any) -> None:
    entries = [e for e in items(raw) if isinstance(e, dict)]
    for i, entry in enumerate(entries):
        if text(entry.get("id", "")) != str(i):
            node.extra["inputsMetadata"] = raw
        tag = ""
        for key, value in pairs(entry.get("attrs")):
            if key == TAG and not tag:
                tag = value
            else:
                node.attr_keys.append(f"input:{i}:{key}")
                node.attr_values.append(value)
        node.input_names.append(tag)
    if not any(node.input_names):
        node.input_names = []


def _outputs(node: MENode, raw: Any) -> None:
    entries = [e for e in items(raw) if isinstance(e, dict)]
    for i, entry in enumerate(entries):
        shape = name = ""
        for key, value in pairs(entry.get("attrs")):
            if key == SHAPE and not shape:
                shape = value
            elif key == TENSOR and not name:
                name = value
            else:
                node.attr_keys.append(f"output:{i}:{key}")
                node.attr_values.append(value)
        node.outputs.append(shape)
        node.output_names.append(name)
    ids = [text(e.get("id", "")) for e in entries]
    if ids != [str(i) for i in range(len(ids))]:
        node.output_ids = node.extra["outputIds"] = ids
    if not any(node.output_names):
        node.output_names = []


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def pairs(value: Any) -> list[tuple[str, str]]:
    """Keys and values of an attribute list."""
    return [
        (text(i.get("key", "")), text(i.get("value", "")))
        for i in items(value)
        if isinstance(i, dict)
    ]


def text(value: Any) -> str:
    """A JSON value as text: strings as they are, the rest as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)
