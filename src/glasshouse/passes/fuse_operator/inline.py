"""How often an inlined value is computed: once for each index at which the group reads it.

A demand is a place: two elementwise readers at one index share the element, a slice reads it at
another index, and a broadcast reads it again for every repetition.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping

from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ops.cost import elements
from glasshouse.passes.fuse_operator.group import FusionGroup
from glasshouse.passes.fuse_operator.roles import is_anchor, is_elementwise

_OUTPUT = "output"


def _is_index(node: Node, operand: int) -> bool:
    """Whether it says for each element of the result where that is read: at the element's own
    index. Without this each step of a search would seem to compute all before it twice."""
    own = node.op.name in ("take", "gather") and operand == 1
    return own and node.inputs[1].type.shape == node.output.type.shape


class Demands:
    """Places at which a group reads values, collected from the root upwards."""

    def __init__(self, group: FusionGroup, position: Mapping[Node, int]) -> None:
        self._group = group
        self._position = position
        self._places: dict[Value, dict[Hashable, int]] = {}
        self._operands: dict[Node, set[int]] = {}  # of the anchor, which a node helps to make
        self._heap: list[tuple[int, Node]] = []
        self._seen: set[Node] = set()
        root = group.root
        self._places[root.output] = {_OUTPUT: elements(root.output)}
        self._operands[root] = set()
        self._push(root)

    def pop(self) -> Node | None:
        """The last node not yet looked at: all its readers in the group have spread already."""
        return heapq.heappop(self._heap)[1] if self._heap else None

    def spread(self, node: Node) -> None:
        """A node of the group asks for the elements that it reads."""
        if node is self._group.anchor or is_anchor(node):
            for i, value in enumerate(node.inputs):
                self._ask(value, (node, i), elements(value), {i})
            return
        places = self._places[node.output]
        helped = self._operands[node]
        for i, value in enumerate(node.inputs):
            for place, count in places.items():
                if _is_index(node, i):
                    where: Hashable = place
                elif not is_elementwise(node):
                    where = (node, i, place)
                elif value.type.shape == node.output.type.shape:
                    where = place
                else:
                    where = (place, value.type.shape)
                self._ask(value, where, count, helped)

    def _ask(self, value: Value, place: Hashable, count: int, operands: set[int]) -> None:
        if value.node.op.kind is Kind.SOURCE:
            return
        places = self._places.setdefault(value, {})
        places[place] = max(places.get(place, 0), count)
        self._operands.setdefault(value.node, set()).update(operands)
        self._push(value.node)

    def _push(self, node: Node) -> None:
        if node not in self._seen:
            self._seen.add(node)
            heapq.heappush(self._heap, (-self._position[node], node))

    def count(self, value: Value) -> int:
        """How many elements are computed when the value is inlined."""
        return sum(self._places[value].values())

    def only_at_output(self, value: Value) -> bool:
        """Whether it is read at the index of the main output and nowhere else."""
        return set(self._places[value]) == {_OUTPUT}

    def anchor_operands(self, node: Node) -> set[int]:
        return self._operands.get(node, set())
