"""The memory plan: the offset of every value, and how new values of variables arrive.

This is data: the executor's quick and general paths, the generated dispatcher and a saved C program
read it, and none of them decides. Data reaches kernels through one table of pointers (inputs,
outputs, constants, variables, prepared constants, values of fallbacks) and one arena for all in
between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.program import Packed

ALIGN = 64
"""Bytes: a cache line, and the widest vector register."""


class Arrival(Enum):
    """How a variable comes to hold its new value.

    In place: the kernel writes it over the old one. By turns: it is written into a second buffer,
    and the two change roles after each run. By copy: it lies elsewhere, in a caller's output say.
    """

    IN_PLACE = "in place"
    TURNS = "by turns"
    COPY = "by copy"


@dataclass(frozen=True)
class Update:
    """A variable that runs change: `new` becomes what it holds."""

    variable: Node
    new: Value
    how: Arrival


@dataclass(frozen=True)
class Lifetime:
    """The steps between which a value's memory is its own, both included."""

    begin: int
    end: int


@dataclass
class MemoryPlan:
    """A place in the table of pointers, or an offset in the arena, for each value."""

    table: dict[Value, int] = field(default_factory=dict)
    packed: dict[Packed, int] = field(default_factory=dict)
    arena: dict[Value, int] = field(default_factory=dict)
    arena_bytes: int = 0
    tensor_bytes: int = 0  # of the values in the arena, if each had memory of its own
    work_offset: int = 0  # where in the arena the workspace of the running kernel begins
    unbounded: list[Value] = field(default_factory=list)  # in the table; memory as a run needs it
    rooms: list[list[Value]] = field(default_factory=list)
    """The unbounded values in groups that share memory: one of a group is alive at a time."""
    workspaces: list[Dim] = field(default_factory=list)  # those without a bound, in bytes
    updates: list[Update] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)
    """Constants and variables that leave a run (as outputs or new values) as they were before it:
    no step computes them, so they are copied first."""
    direct: list[bool] = field(default_factory=list)
    """For each output, whether kernels write it into the caller's buffer; it is copied there
    otherwise."""
    lifetimes: dict[Value, Lifetime] = field(default_factory=dict)  # of the values in the arena
    overwrites: dict[int, int] = field(default_factory=dict)
    """Outputs, by number, that may share the buffer of an input, of which they are the new value.
    Kernels are right either way: whoever calls decides, by one address for both."""

    @property
    def table_size(self) -> int:
        return len(set(self.table.values()) | set(self.packed.values()))


def aligned(size: int) -> int:
    """Bytes of memory for so many bytes, so that what follows is aligned."""
    return -(-size // ALIGN) * ALIGN


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
