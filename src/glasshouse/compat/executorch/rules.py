"""The highlight style: quantize and dequantize, other ops, clusters, a colour a partition.

The rules are Model Explorer's (docs/formats.md): the first that fits a box wins.
"""

from __future__ import annotations

from typing import Any

# Light fills on which black text reads; neighbours differ in hue.
PARTITIONS = (
    "#f7cfc1", "#c5e3d0", "#cfd4f5", "#f2e3a9", "#e6c9ea", "#bfe3ea", "#dfe3b4", "#f3c6d5",
)  # fmt: skip
CLUSTER = "#e4ecf7"
DEQUANTIZE, QUANTIZE, ATEN = "#8fd3c8", "#f2b872", "#dfe6ee"


def highlight_rules(partitions: int = 0) -> list[dict[str, Any]]:
    """The rules for a program with so many partitions; at most twelve, however many they are."""
    out = [
        _rule("op_nodes", r"(^|\.)dequantize_", DEQUANTIZE),
        _rule("op_nodes", r"(^|\.)quantize_", QUANTIZE),
        _rule("op_nodes", r"^aten\.", ATEN),
        _rule("layer_nodes", r"^cluster \(", CLUSTER),
    ]
    for i, colour in enumerate(PARTITIONS):
        same = range(i, partitions, len(PARTITIONS))
        if same:
            # The blank and bracket end the number: 1 is not the beginning of 10.
            numbers = "|".join(map(str, same))
            out.append(_rule("layer_nodes", rf"^partition ({numbers}) \(", colour))
    return out


def _rule(boxes: str, regex: str, colour: str) -> dict[str, Any]:
    return {
        "queries": [
            {"type": "node_type", "nodeType": boxes},
            {"type": "regex", "queryRegex": regex, "matchTypes": ["title"]},
        ],
        "nodeType": boxes,
        "styles": {"node_bg_color": {"id": "node_bg_color", "value": colour}},
        "version": "v2",
    }
