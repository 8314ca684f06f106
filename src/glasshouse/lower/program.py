"""Decides what lowering hands to a backend: kernels, the calls of them in order, and the buffers.

A `Kernel` is the text of one function and does not know where its data lies; a `Call` binds it to
buffers. Equal layers give equal texts, so they share one kernel. Sizes are in bytes and may be
symbolic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glasshouse.ir.dim import Dim, Symbol
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.lower.choice import Choice, Chooser, by_estimate
from glasshouse.lower.order import Order

if TYPE_CHECKING:
    from glasshouse.lower.plan import MemoryPlan


@dataclass(frozen=True)
class Kernel:
    """One generated function; `text` is its parameter list and body, without its name."""

    name: str
    text: str
    ops: tuple[str, ...]  # labels of the ops inside, in order
    variant: str  # "loops", "gemm", "library" ...

    @property
    def symbol(self) -> str:
        """The function's name in compiled code: alike in all programs that have this kernel."""
        words = self.name.split("_", 1)[-1]
        return f"{words}_{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Packed:
    """A constant in the form that a kernel wants.

    `text` is the function that makes it, once, when the module is loaded; `nbytes` is a C++
    expression, because the form depends on the width of the machine's vectors.
    """

    source: Value
    text: str
    nbytes: str


Operand = Value | Packed


@dataclass(frozen=True)
class Call:
    """A kernel applied to buffers, for one node of the optimised graph."""

    kernel: Kernel
    node: Node
    inputs: tuple[Operand, ...]
    outputs: tuple[Value, ...]
    workspace: Dim = 0  # bytes that it needs for itself
    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    choices: tuple[Choice, ...] = ()  # ways that it was chosen from


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
    """In which order the axes of a value lie, where that is not row-major."""
    aliases: Mapping[Value, Value] = field(default_factory=dict)
    """Views: value -> the one whose buffer it shares."""
    choose: Chooser = by_estimate
    plan: MemoryPlan | None = None

    def buffer_of(self, value: Value) -> Value:
        """The value in whose buffer this one lies."""
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
        return list(dict.fromkeys(s.kernel for s in self.steps if isinstance(s, Call)))
