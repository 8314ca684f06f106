"""A lowered graph: kernels, the calls of them in order, and what else runs.

A `Kernel` knows no addresses; a `Call` binds it to values of the graph. Equal layers
share one kernel. Sizes are in bytes and may be symbolic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from glasshouse.ir.dim import Dim, Symbol
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.choice import Choice
from glasshouse.lower.kernel.kernel import OPERAND, Kernel
from glasshouse.lower.kernel.statement import Form
from glasshouse.lower.order import Order

if TYPE_CHECKING:
    from glasshouse.lower.plan import MemoryPlan


@dataclass(frozen=True)
class Packed:
    """A constant in the form that a kernel wants, made once, when the module is loaded."""

    source: Value
    form: Form


Operand = Value | Packed


@dataclass(frozen=True)
class Call:
    """A kernel applied to buffers, for one node of the optimised graph."""

    kernel: Kernel
    node: Node
    operands: tuple[Value, ...]
    outputs: tuple[Value, ...]
    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    choices: tuple[Choice, ...] = ()  # variants that it was chosen from
    offsets: tuple[int, ...] = ()
    """The element of each operand that the kernel calls its first; empty: the first of all."""

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """What the kernel reads: values, and constants in the forms that it wants."""
        return (*self.operands, *self.packed)

    @cached_property
    def packed(self) -> tuple[Packed, ...]:
        """The constants that the kernel reads in another form, in the kernel's order of forms."""
        forms = self.kernel.forms
        if not forms:
            return ()
        at = {b.name: i for i, b in enumerate(self.kernel.with_role(OPERAND))}
        return tuple(Packed(self.operands[at[f.buffer]], _anywhere(f)) for f in forms)

    def starts(self) -> Iterator[tuple[Value, int]]:
        """The operands, each with the bytes that lie before the kernel's first element of it."""
        offsets = self.offsets or (0,) * len(self.operands)
        for value, offset in zip(self.operands, offsets, strict=True):
            yield value, offset * value.type.dtype.itemsize

    @property
    def workspace(self) -> Dim:
        """Bytes that it needs for itself."""
        return self.kernel.workspace


@dataclass(frozen=True)
class Fallback:
    """A node that no kernel of the target computes: the runtime runs it through Python."""

    node: Node
    why: str


Step = Call | Fallback


@dataclass
class Program:
    """A graph on its way to a machine: what is decided of it, and kernels once it is lowered."""

    graph: Graph
    steps: list[Step] = field(default_factory=list)
    symbols: tuple[Symbol, ...] = ()
    orders: Mapping[Value, Order] = field(default_factory=dict)
    """The layout of a value (the order of its axes), where that is not row-major."""
    aliases: Mapping[Value, Value] = field(default_factory=dict)
    """Views: value -> the one whose buffer it shares."""
    plan: MemoryPlan | None = None

    @cached_property
    def constant_bytes(self) -> int:
        """What the graph's constants take: weights, above all."""
        sizes = (n.output.type.nbytes for n in self.graph.nodes if n.op is CONSTANT)
        return sum(size for size in sizes if isinstance(size, int))

    def buffer_of(self, value: Value) -> Value:
        """The value whose buffer this one is in."""
        while value in self.aliases:
            value = self.aliases[value]
        return value

    @property
    def memory(self) -> MemoryPlan:
        """The plan of a program that is decided."""
        assert self.plan is not None, "the pipeline ends with one"
        return self.plan

    @property
    def kernels(self) -> list[Kernel]:
        return list({s.kernel.name: s.kernel for s in self.steps if isinstance(s, Call)}.values())


def _anywhere(form: Form) -> Form:
    """A form as such, whatever the operand is called in a kernel."""
    return replace(form, buffer="")
