"""Where every value of a program lies in memory: data that the executor, the generated dispatcher
and a saved C program read, and that none of them decides.

Data reaches kernels through one table of pointers (inputs, outputs, constants, variables, prepared
constants, values of fallbacks) and one arena for all in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Packed, Program


@dataclass
class MemoryPlan:
    """A place in the table of pointers, or an offset in the arena, for each value."""

    table: dict[Value, int] = field(default_factory=dict)
    packed: dict[Packed, int] = field(default_factory=dict)
    arena: dict[Value, int] = field(default_factory=dict)
    arena_bytes: int = 0
    tensor_bytes: int = 0  # of the values in the arena, if each had memory of its own
    work_offset: int = 0  # where in the arena the workspace of the running kernel begins
    unbounded: list[Value] = field(default_factory=list)  # in the table; memory anew for each run
    workspaces: list[Dim] = field(default_factory=list)  # those without a bound, in bytes

    @property
    def table_size(self) -> int:
        return len(set(self.table.values()) | set(self.packed.values()))


def passed_through(program: Program) -> list[Value]:
    """Constants and variables that are outputs: no step computes them, so they are copied."""
    held = [*program.graph.outputs, *program.graph.updates.values()]
    return [
        v
        for v in dict.fromkeys(held)
        if v.node.op.kind is Kind.SOURCE and v not in program.graph.inputs
    ]


def has_bound(size: Dim) -> bool:
    """Whether a size is known before a run, at least at most."""
    return bounds(size)[1] != float("inf")


def upper_bytes(size: Dim) -> int:
    """The most bytes that a size can mean; a size without bound cannot be planned."""
    if not has_bound(size):
        raise Unsupported(
            f"a size of {size} bytes has no upper bound",
            hint="give the symbol a range, as in symbol('batch', 1, 64)",
        )
    return int(bounds(size)[1])
