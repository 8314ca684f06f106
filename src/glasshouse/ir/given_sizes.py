"""Sizes that the data decides: which node gives a symbol its value, and which nodes need it.

How many elements a mask keeps is known once the op that counts them has run. Such a symbol stands
in the shape of an opaque node's result and in no input. Whoever uses it, in a type or an attribute,
stands behind that node, also where no operand leads there (`full` of that length).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Any

from glasshouse.ir.dim import SymDim, symbols_of

if TYPE_CHECKING:
    from glasshouse.ir.graph import Node, Value


def may_give_size(node: Node) -> bool:
    """Whether a result's shape has a symbol that no operand of the node has."""
    return bool(sizes_given(node))


def sizes_given(node: Node) -> Set[str]:
    """The names of symbols in a result's shape that no operand of the node has."""
    if node.op.family != "opaque":
        return frozenset()
    return _in_types(node.outputs) - _in_types(node.inputs)


def size_givers(nodes: Iterable[Node], opaque: Iterable[Node]) -> dict[str, Node]:
    """Each symbol that no input of the graph has, and the first of `opaque` that gives it."""
    known = {name for n in nodes if n.op.name == "input" for name in _in_types(n.outputs)}
    givers: dict[str, Node] = {}
    for node in opaque:
        for name in _in_types(node.outputs) - _in_types(node.inputs) - known:
            givers.setdefault(name, node)
    return givers


def symbols_needed(node: Node) -> frozenset[str]:
    """The names of all symbols in a node's types and attributes, bodies included."""
    from glasshouse.ir.graph import Graph  # a graph orders its nodes by this

    found: set[str] = set()
    pending: list[Any] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, SymDim):
            found.update(symbols_of(current))
        elif isinstance(current, (tuple, list)):
            pending += current
        elif isinstance(current, Graph):
            pending += current.nodes
        elif hasattr(current, "outputs"):
            pending += [v.type.shape for v in current.outputs]
            pending += current.attrs.values()
    return frozenset(found)


def _in_types(values: Iterable[Value]) -> set[str]:
    return {
        name
        for v in values
        for d in v.type.shape
        if isinstance(d, SymDim)
        for name in symbols_of(d)
    }
