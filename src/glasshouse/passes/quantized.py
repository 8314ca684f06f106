"""Which dequantized values stay bytes until a product reads them.

A product whose operands are both dequantized is computed with whole numbers, if its kernel sees the
bytes: then weights are not folded to floats, and activations are widened by the kernel that reads
them, not by the one that made them.
"""

from __future__ import annotations

from glasshouse.ir.dtype import int8, uint8
from glasshouse.ir.graph import Node, Value

_PRODUCTS = frozenset({"matmul", "conv"})


def is_whole_product(node: Node) -> bool:
    """Whether both operands are dequantized bytes, the second a weight."""
    return node.op.name in _PRODUCTS and all(_is_dequantized(v) for v in node.inputs[:2])


def stays_bytes(node: Node) -> bool:
    """Whether a node dequantizes what nothing but such products read, as their second operand."""
    if not _is_dequantized(node.outputs[0]) or not node.outputs[0].use_count:
        return False
    value = node.outputs[0]
    return all(is_whole_product(u) and u.inputs[1] is value for u in value.users)


def widened_by_reader(node: Node) -> bool:
    """Whether a node dequantizes what such a product reads."""
    return _is_dequantized(node.outputs[0]) and any(
        is_whole_product(u) for u in node.outputs[0].users
    )


def _is_dequantized(value: Value) -> bool:
    node = value.node
    return node.op.name == "dequantize" and node.inputs[0].type.dtype in (int8, uint8)
