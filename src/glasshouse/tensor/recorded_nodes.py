"""Nodes that one node stands for until somebody walks over it: what a call records, kept once.

The nodes of a call differ from those of the next one in their operands alone. So they are kept as
`RecordedNodes`, and made from them, in the place of the node that stands for them, when they are
wanted. They have ids of their own between that node's and those of its operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from glasshouse.forking import ForkLock
from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.op import NoGradient, Op
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import INPUT
from glasshouse.ir.types import TensorType
from glasshouse.tensor.pending import ROOM, LazyNode, LazyValue, is_embedded, pending_nodes


class RecordedNode(NamedTuple):
    """What a node is made from. It reads (number of an operand or constant, -1), or (number of a
    node before it, output)."""

    op: Op
    reads: tuple[tuple[int, int], ...]
    attrs: Mapping[str, AttrValue]
    types: Sequence[TensorType]
    origin: Origin
    needs_grad: bool


_OPENING = ForkLock()


class RecordedNodes:
    """The nodes between the operands of a call and its one result, producers first."""

    __slots__ = (
        "constants", "has_gradients", "needs_grad", "nodes", "operand_types", "origin", "types",
    )  # fmt: skip

    def __init__(
        self,
        nodes: tuple[RecordedNode, ...],
        constants: tuple[LazyValue, ...],
        operand_types: tuple[TensorType, ...],
    ) -> None:
        self.nodes = nodes
        self.constants = constants  # of one element at most: part of the program
        self.operand_types = operand_types  # kept alive: keys have their identities
        self.types = nodes[-1].types
        self.origin = nodes[-1].origin
        self.needs_grad = nodes[-1].needs_grad
        self.has_gradients = not any(
            n.needs_grad and n.reads and isinstance(n.op.vjp, NoGradient) for n in nodes
        )

    def open(self, node: LazyNode) -> None:
        """Make the nodes that a node stands for; it becomes the last of them."""
        with _OPENING.lock:
            if node.stands_for is self:
                self._open(node)

    def _open(self, node: LazyNode) -> None:
        given = [*node.inputs, *self.constants]
        first = node.id - len(self.nodes) + 1
        made: list[LazyNode] = []
        for op, reads, attrs, types, origin, needs_grad in self.nodes:
            inputs = tuple(
                [
                    given[i] if index < 0 else LazyValue(made[i], index, made[i].types[index])
                    for i, index in reads
                ]
            )
            made.append(LazyNode(op, inputs, attrs, types, origin, None, needs_grad))
            made[-1].id = first + len(made) - 1
        last = made[-1]
        node.op, node.inputs, node.attrs = last.op, last.inputs, last.attrs
        node.stands_for = None  # last: who sees this sees the rest


def between(operands: Sequence[LazyValue], result: LazyValue, first: int) -> RecordedNodes | None:
    """The nodes from an id on, from operands to a result; None where a value comes from elsewhere,
    or there is more to them than one node can stand for."""
    nodes = pending_nodes([result], {v.node.id for v in operands})
    inside = [n for n in nodes if n.id > first]
    if not inside or inside[-1] is not result.node or len(result.node.types) != 1:
        return None
    places = {(v.node.id, v.index): (number, -1) for number, v in enumerate(operands)}
    constants: list[LazyValue] = []
    made: list[RecordedNode] = []
    for node in inside:
        if is_embedded(node):
            places[node.id, 0] = (len(operands) + len(constants), -1)
            constants.append(LazyValue(node, 0, node.types[0]))
            continue
        reads = [places.get((v.node.id, v.index)) for v in node.inputs]
        if node.results is not None or node.op is INPUT or None in reads:
            return None
        for index in range(len(node.types)):
            places[node.id, index] = (len(made), index)
        known = tuple([r for r in reads if r is not None])
        made.append(
            RecordedNode(node.op, known, node.attrs, node.types, node.origin, node.needs_grad)
        )
    types = tuple([v.type for v in operands])
    return RecordedNodes(tuple(made), tuple(constants), types) if len(made) < ROOM else None
