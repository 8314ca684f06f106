"""Which values stay bytes until a product reads them: those that are dequantized, and 8-bit floats.

A product whose operands are both dequantized is computed with whole numbers, and one of 8-bit
floats with those, if its kernel sees the bytes: then weights are not folded to floats, and
activations are widened by the kernel that reads them, not by the one that made them. So are those
that norms, softmaxes and concatenations read: a quarter of the bytes goes through memory.
"""

from __future__ import annotations

from glasshouse.ir.dtype import FLOAT8, float32, int8, uint8
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ops.conv import taps_are_apart

_PRODUCTS = frozenset({"matmul", "conv"})


def is_whole_product(node: Node) -> bool:
    """Whether both operands are bytes that are widened."""
    if node.op.name not in _PRODUCTS and not taps_are_apart(node):
        return False
    return all(is_dequantized(v) for v in node.inputs[:2])


def stays_bytes(node: Node) -> bool:
    """Whether a node dequantizes what nothing but such products read, as their second operand."""
    if not is_dequantized(node.outputs[0]) or not node.outputs[0].use_count:
        return False
    value = node.outputs[0]
    return all(is_whole_product(u) and u.inputs[1] is value for u in value.users)


def widened_by_reader(node: Node) -> bool:
    """Whether a node dequantizes what such a product reads, or what norms, softmaxes and
    concatenations alone read: between kernels there are bytes then."""
    if not is_dequantized(node.outputs[0]):
        return False
    users = node.outputs[0].users
    return any(map(is_whole_product, users)) or (bool(users) and all(map(_widens, users)))


def is_stored_anyway(node: Node) -> bool:
    """Whether a node dequantizes bytes that others read as well: they lie in memory as bytes."""
    return is_dequantized(node.outputs[0]) and node.inputs[0].use_count > 1


def _widens(node: Node) -> bool:
    return node.op.kind is Kind.REDUCTION or node.op.name == "concat"


def is_dequantized(value: Value) -> bool:
    """Whether a value is bytes, widened."""
    node = value.node
    if node.op.name == "cast":
        return value.type.dtype is float32 and node.inputs[0].type.dtype in FLOAT8
    return node.op.name == "dequantize" and node.inputs[0].type.dtype in (int8, uint8)
