"""How rules look at a graph: small questions about values that read like the pattern.

inner = made_by(x, "multiply")           # the node, if x is the output of a multiply
found = with_constant(inner)              # (the other operand, the constant), either order
number = scalar_of(found[1])              # the number, if the constant has one element
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.ir.dtype import from_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT

Array = np.ndarray[Any, Any]


def made_by(value: Value, *ops: str) -> Node | None:
    """The node that makes a value, if it is one of these ops."""
    return value.node if value.node.op.name in ops else None


def array_of(value: Value) -> Array | None:
    """The data of a constant, as an array to compute with."""
    if value.node.op is not CONSTANT or value.node.attrs["data"] is None:
        return None
    return from_storage(np.asarray(value.node.attrs["data"]), value.type.dtype)


def is_constant(value: Value) -> bool:
    """Whether a value is a constant whose data is at hand."""
    return value.node.op is CONSTANT and value.node.attrs["data"] is not None


def scalar_of(value: Value) -> float | None:
    """The number that a constant holds, if it has one element."""
    if value.node.op is not CONSTANT:
        return None
    for dim in value.type.shape:
        if dim != 1:
            return None
    data = array_of(value)
    if data is None:
        return None
    number = data.reshape(-1)[0]
    # float32 1e-5 as a Python float is 9.99999974e-06; the shortest text that means it is 1e-05.
    return float(str(number)) if data.dtype == np.float32 else float(number)


def is_number(value: Value, wanted: float, tolerance: float = 1e-6) -> bool:
    """Whether a value is a constant with this number, up to the rounding of float32."""
    number = scalar_of(value)
    return number is not None and abs(number - wanted) <= tolerance * max(abs(wanted), 1e-30)


def is_filled(value: Value, wanted: float) -> bool:
    """Whether every element of a constant is exactly this number."""
    number = scalar_of(value)
    if number is not None:
        return number == wanted
    # Large constants are weights; looking through them for zeros would cost more than it brings.
    data = array_of(value)
    return data is not None and 0 < data.size <= 1 << 16 and bool(np.all(data == wanted))


def with_constant(node: Node) -> tuple[Value, Value] | None:
    """(other operand, constant) of a binary node, in either order; None if both or none are."""
    left, right = node.inputs
    if is_constant(right) and not is_constant(left):
        return left, right
    if is_constant(left) and not is_constant(right):
        return right, left
    return None


def with_scalar(node: Node) -> tuple[Value, float] | None:
    """(other operand, number) of a binary node with a one-element constant, in either order."""
    left, right = node.inputs
    number = scalar_of(right)
    if number is not None:
        return left, number
    number = scalar_of(left)
    return None if number is None else (right, number)


def either(node: Node, *ops: str) -> tuple[Node, Value] | None:
    """(operand made by one of `ops`, the other operand) of a binary node, in either order."""
    left, right = node.inputs
    if left.node.op.name in ops:
        return left.node, right
    if right.node.op.name in ops:
        return right.node, left
    return None


def single_use(graph: Graph, value: Value) -> bool:
    """Whether exactly one operand reads a value, and it does not leave the graph."""
    return len(value._uses) == 1 and graph.uses(value) == 1


def only_user(graph: Graph, value: Value) -> Node | None:
    """The one node that reads a value, if nothing else does."""
    return next(iter(value.users)) if single_use(graph, value) else None


def product_of(value: Value, most: int = 6) -> tuple[list[Value], float, list[Node]]:
    """A tree of products and negations flattened: (factors, product of the numbers, nodes)."""
    factors: list[Value] = []
    number = 1.0
    nodes: list[Node] = []
    pending = [value]
    while pending:
        current = pending.pop()
        constant = scalar_of(current)
        if constant is not None:
            number *= constant
        elif current.node.op.name == "multiply" and len(nodes) < most:
            nodes.append(current.node)
            pending += reversed(current.node.inputs)
        elif current.node.op.name == "negative" and len(nodes) < most:
            number = -number
            nodes.append(current.node)
            pending.append(current.node.inputs[0])
        else:
            factors.append(current)
    return factors, number, nodes


def axes_from_end(axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Axes as negative numbers in ascending order; None means all."""
    if axes is None:
        return tuple(range(-rank, 0))
    if isinstance(axes, int):
        axes = (axes,)
    return tuple(sorted(a if a < 0 else a - rank for a in axes))


def is_trailing(axes: tuple[int, ...]) -> bool:
    """Whether axes (from the end) are the last ones without a gap."""
    return axes == tuple(range(-len(axes), 0))
