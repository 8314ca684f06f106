"""Puts one kernel together: buffers, temporaries, and statements in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.lower.element import Entangled, Names
from glasshouse.lower.fold_parts import FoldParts
from glasshouse.lower.kernel.kernel import TEMPORARY, Buffer
from glasshouse.lower.kernel.statement import Ops, Statement
from glasshouse.lower.loops import LiesApart, Surroundings, lower_loops
from glasshouse.lower.order import Order
from glasshouse.lower.target import Target


@dataclass
class KernelBuilder:
    """Collects the statements of a kernel that computes `body`.

    `buffers` maps each value that lies in memory, an operand, an output or a temporary, to its
    buffer. Single-element constants stand in the code as numbers.
    """

    body: Graph
    target: Target
    positions: Mapping[int, int] = field(default_factory=dict)  # by id of node, in the group
    buffers: dict[Value, str] = field(default_factory=dict)
    orders: dict[Value, Order] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    temporaries: list[Buffer] = field(default_factory=list)
    outputs: dict[Value, str] = field(default_factory=dict)
    reordered: dict[Value, Order | None] = field(default_factory=dict)
    constants: frozenset[Value] = frozenset()  # operands that are constants of the whole graph
    zeros: frozenset[Value] = frozenset()  # those among them that hold nothing but 0
    constant_bytes: int = 0  # of all constants of the whole graph
    names: Names = field(default_factory=Names)

    def __post_init__(self) -> None:
        self._parts = FoldParts(self.target.teams, self._room)
        self.around = Surroundings(
            self.target, self.buffers, self.orders, self.names, self.ops_of, self._parts
        )

    def ops_of(self, node: Node) -> Ops:
        """The position in the group of the op that a node stands for."""
        at = self.positions.get(node.id)
        return () if at is None else (at,)

    def temporary(self, value: Value) -> str:
        """A buffer inside this kernel's workspace."""
        name = _temporary_name(value)
        self.temporaries.append(Buffer(name, value.type.dtype, value.type.numel, TEMPORARY))
        self.buffers[value] = name
        return name

    def _room(self, dtype: DType, count: int) -> str:
        """A temporary buffer that is no value's."""
        name = f"part{len(self.temporaries)}"
        self.temporaries.append(Buffer(name, dtype, count, TEMPORARY))
        return name

    def compute(self, values: Sequence[Value]) -> None:
        """Compute values with loops, into their output buffers or into temporaries.

        Those on the way that one nest would need at too many places come first, by themselves, and
        so do copies of operands that lie in another order.
        """
        pending = [values]
        turned: set[Value] = set()
        while pending:
            wanted = [v for v in pending[-1] if v not in self.buffers]
            places = [(v, self.outputs.get(v) or _temporary_name(v)) for v in wanted]
            try:
                made = lower_loops(places, replace(self.around, turned=turned))
            except Entangled as knot:
                before = knot.value
                assert before not in self.buffers, "it would be waited for again and again"
                pending.append([before])
                continue
            except LiesApart as found:
                others = [v for v in wanted if self.orders.get(v) != found.order]
                if 0 < len(others) < len(wanted):  # they may read the operand as it lies
                    pending.append(others)
                    continue
                turned.add(found.value)
                self.buffers[found.value] = self._copied(found.value, found.order)
                if found.order is None:
                    del self.orders[found.value]
                else:
                    self.orders[found.value] = found.order
                continue
            for value in wanted:
                if value in self.outputs:
                    self.buffers[value] = self.outputs[value]
                else:
                    self.temporary(value)
            self.statements += made
            pending.pop()

    def in_memory(self, value: Value, order: Order | None = None) -> str:
        """The buffer of a value in the order wanted; computed or copied now where it is not so."""
        if value not in self.buffers:
            if order is not None and value not in self.outputs:
                self.orders[value] = order
            self.compute([value])
        if self.orders.get(value) == order:
            return self.buffers[value]
        return self._copied(value, order)

    def _copied(self, value: Value, order: Order | None) -> str:
        """The value once more, with its axes in another order."""
        name = f"copy{len(self.temporaries)}"
        self.temporaries.append(Buffer(name, value.type.dtype, value.type.numel, TEMPORARY))
        self._copy_into(value, name, order)
        return name

    def _copy_into(self, value: Value, name: str, order: Order | None) -> None:
        graph = GraphBuilder()
        twin = graph.input(value.type.dtype, value.type.shape)
        copy = twin.apply("barrier").value
        orders = {k: v for k, v in ((twin.value, self.orders.get(value)), (copy, order)) if v}
        ops = self.ops_of(value.node)
        around = Surroundings(
            self.target, {twin.value: self.buffers[value]}, orders, self.names, lambda node: ops,
            self._parts,
        )  # fmt: skip
        self.statements += lower_loops([(copy, name)], around)

    def finish(self) -> None:
        """Compute what is left of the outputs, and bring those into order that lie in another."""
        self.compute(self.body.outputs)
        for value, order in self.reordered.items():
            self._copy_into(value, self.outputs[value], order)

    def place_for(self, value: Value, order: Order | None = None) -> str:
        """The buffer to write a value into in this order: its output buffer, or a temporary.

        An output that is wanted in another order is computed from the temporary afterwards. A
        value of which a reshape is the output lies there itself.
        """
        seen_as = self._reshaped_output(value)
        if order is None and seen_as is not None:
            self.buffers[value] = self.buffers[seen_as] = self.outputs[seen_as]
            return self.outputs[seen_as]
        if value in self.outputs and self.orders.get(value) == order:
            self.buffers[value] = self.outputs[value]
            return self.outputs[value]
        if value in self.outputs:
            self.reordered[value] = self.orders.get(value)
        if order is None:
            self.orders.pop(value, None)
        else:
            self.orders[value] = order
        return self.temporary(value)

    def _reshaped_output(self, value: Value) -> Value | None:
        """An output that is the value in another shape, both row by row."""
        if value in self.outputs or value in self.orders:
            return None
        shapes = (u.output for u in value.users if u.op.name == "reshape")
        return next((v for v in shapes if v in self.outputs and v not in self.orders), None)


def _temporary_name(value: Value) -> str:
    return f"tmp{value.node.id}_{value.index}"
