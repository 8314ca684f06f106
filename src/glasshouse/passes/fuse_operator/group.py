"""What is known of a group while it grows: its nodes, what it reads, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.passes.fuse_operator.roles import is_inside_constant


class FusionGroup:
    """`nodes` belong to this group alone; `copies` are computed here again, and elsewhere too."""

    def __init__(self, root: Node, anchor: Node | None = None) -> None:
        self.root = root  # the last node: its output is the main output
        self.anchor = anchor
        self.nodes: dict[Node, None] = {}
        self.copies: dict[Node, None] = {}
        self.early: list[Value] = []  # outputs besides the main one, read inside as well
        self.reads: dict[Value, None] = {}  # values that come from outside
        self.prologue: dict[int, float] = {}  # operations an element for each anchor operand
        self.add(root)

    @property
    def size(self) -> int:
        return len(self.nodes) + len(self.copies)

    def __contains__(self, node: Node) -> bool:
        return node in self.nodes or node in self.copies

    def add(self, node: Node, copy: bool = False) -> None:
        (self.copies if copy else self.nodes)[node] = None
        for value in node.outputs:
            self.reads.pop(value, None)
        for value in self.new_reads(node):
            self.reads[value] = None

    def join(self, other: FusionGroup) -> None:
        """Take in all of another group, which does not read from this one, nor this from it."""
        self.early += [*other.early, other.root.output]
        for node in other.copies:
            if node not in self:
                self.add(node, copy=True)
        for node in other.nodes:
            self.copies.pop(node, None)
            self.add(node)

    def new_reads(self, node: Node) -> list[Value]:
        """What a node would read from outside that the group does not read yet."""
        return [
            v for v in dict.fromkeys(node.inputs)
            if v not in self.reads and v.node not in self and not is_inside_constant(v)
        ]  # fmt: skip

    def reads_with(self, node: Node) -> int:
        """How many outside values the group would read together with a node."""
        gone = sum(1 for v in node.outputs if v in self.reads)
        return len(self.reads) - gone + len(self.new_reads(node))

    def outputs(self, graph: Graph) -> list[Value]:
        """The main output, then those that something outside reads too."""
        out = [self.root.output]
        for node in self.nodes:
            if node is not self.root:
                value = node.output
                if graph.is_held(value) or any(user not in self.nodes for user in value.users):
                    out.append(value)
        return out

    def first_reader_outside(self, value: Value, position: Mapping[Node, int]) -> int:
        """Position of the first node outside that reads a value; beyond all when there is none."""
        outside = [position[u] for u in value.users if u not in self.nodes]
        return min(outside, default=len(position))

    def ordered(self, outputs: list[Value], position: Mapping[Node, int]) -> list[Node]:
        """The nodes of the body in topological order, literals first.

        Walked from the outputs: where another group gives out a value of which this one has a copy,
        this one reads that by now, and the copy is not needed.
        """
        found: dict[Node, None] = {}
        literals: dict[Node, None] = {}
        pending = [v.node for v in outputs]
        while pending:
            node = pending.pop()
            if node in found:
                continue
            found[node] = None
            for value in node.inputs:
                if value.node in self:
                    pending.append(value.node)
                elif is_inside_constant(value):
                    literals[value.node] = None
        return [*literals, *sorted(found, key=position.__getitem__)]
