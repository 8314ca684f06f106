"""Decides how one kernel function is put together: parameters, temporaries, and steps in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.choice import Choice, Chooser, Problem, by_estimate
from glasshouse.lower.cxx import C_TYPE, size_text
from glasshouse.lower.loops import lower_loops
from glasshouse.lower.order import Order
from glasshouse.lower.program import Packed
from glasshouse.lower.scalar import Entangled
from glasshouse.lower.target import Target

ALIGN = 64


@dataclass
class KernelWriter:
    """Collects the text of a kernel that computes `body`.

    `buffers` maps each value that lies in memory, an operand, an output or a temporary, to the
    variable that points to it. Single-element constants stand in the code as numbers.
    """

    body: Graph
    target: Target
    buffers: dict[Value, str] = field(default_factory=dict)
    orders: dict[Value, Order] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    outputs: dict[Value, str] = field(default_factory=dict)
    reordered: dict[Value, Order | None] = field(default_factory=dict)
    packed: list[tuple[Packed, str]] = field(default_factory=list)
    constants: frozenset[Value] = frozenset()  # operands that are constants of the whole graph
    zeros: frozenset[Value] = frozenset()  # those among them that hold nothing but 0
    workspace: Dim = 0
    variant: str = "loops"
    choose: Chooser = by_estimate
    choices: list[Choice] = field(default_factory=list)

    def chosen(self, problem: Problem, names: Sequence[str], usual: str) -> str:
        """The way to compute an anchor, which is the kernel's variant from now on."""
        choice = self.choose(problem, names, usual)
        self.choices.append(choice)
        self.variant = choice.name
        return choice.name

    def temporary(self, value: Value) -> str:
        """A buffer inside this kernel's workspace."""
        name = _temporary_name(value)
        ctype = C_TYPE[value.type.dtype]
        self.lines.append(f"  {ctype}* {name} = ({ctype}*)(work + {size_text(self.workspace)});")
        self.workspace = self.workspace + rounded(value.type.nbytes)
        self.buffers[value] = name
        return name

    def scratch(self, nbytes: Dim, name: str, ctype: str = "char") -> str:
        """Unnamed memory of this kernel's workspace."""
        self.lines.append(f"  {ctype}* {name} = ({ctype}*)(work + {size_text(self.workspace)});")
        self.workspace = self.workspace + rounded(nbytes)
        return name

    def compute(self, values: Sequence[Value]) -> None:
        """Compute values with loops, into their output buffers or into temporaries.

        Those on the way that one nest would need at too many places come first, by themselves.
        """
        pending = [values]
        while pending:
            wanted = [v for v in pending[-1] if v not in self.buffers]
            places = [(v, self.outputs.get(v) or _temporary_name(v)) for v in wanted]
            try:
                lines = lower_loops(places, self.buffers, self.orders, self.target)
            except Entangled as knot:
                pending.append([knot.value])
                continue
            for value in wanted:
                if value in self.outputs:
                    self.buffers[value] = self.outputs[value]
                else:
                    self.temporary(value)
            self.lines += lines
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
        name = f"copy{len(self.lines)}"
        self.scratch(value.type.nbytes, name, C_TYPE[value.type.dtype])
        self._copy_into(value, name, order)
        return name

    def _copy_into(self, value: Value, name: str, order: Order | None) -> None:
        builder = GraphBuilder()
        twin = builder.input(value.type.dtype, value.type.shape)
        copy = twin.apply("barrier").value
        orders = {k: v for k, v in ((twin.value, self.orders.get(value)), (copy, order)) if v}
        buffers = {twin.value: self.buffers[value]}
        self.lines += lower_loops([(copy, name)], buffers, orders, self.target)

    def finish(self) -> None:
        """Compute what is left of the outputs, and bring those into order that lie in another."""
        self.compute(self.body.outputs)
        for value, order in self.reordered.items():
            self._copy_into(value, self.outputs[value], order)

    def place_for(self, value: Value, order: Order | None = None) -> str:
        """The buffer to write a value into in this order: its output buffer, or a temporary.

        An output that is wanted in another order is computed from the temporary afterwards.
        """
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

    def prepared(self, source: Value, text: str, nbytes: str) -> str:
        """An operand in the form that a template wants; gives the variable that points to it.

        `text` is a function (threads, source, out). For a constant it runs once, when the module
        is loaded; for what is computed, in every run.
        """
        if source not in self.constants:
            name = f"prepared{len(self.lines)}"
            held = f"gh::scratch<6>({nbytes})"
            self.lines.append(f"  void* {name} = {held};")
            self.lines.append(f"  []{text}(*ctx.pool, {self.in_memory(source)}, {name});")
            return name
        for existing, name in self.packed:
            if existing.source is source and existing.text == text:
                return name
        name = f"packed{len(self.packed)}"
        self.packed.append((Packed(source, text, nbytes), name))
        return name


def _temporary_name(value: Value) -> str:
    return f"tmp{value.node.id}_{value.index}"


def rounded(nbytes: Dim) -> Dim:
    """Up to the next multiple of 64, the width of a cache line and of the widest vector."""
    return (nbytes + (ALIGN - 1)) // ALIGN * ALIGN


def is_number(value: Value) -> bool:
    """Whether a value is a constant of one element, which stands in the code as a number."""
    data = value.node.attrs.get("data") if value.node.op is CONSTANT else None
    return data is not None and data.size == 1


def is_zero_point(value: Value) -> bool:
    """Whether a value is a vector of whole numbers that are known to be 0."""
    if value.node.op is not CONSTANT or value.type.dtype.is_float or value.type.rank > 1:
        return False
    data = value.node.attrs["data"]
    return data is not None and not data.any()
