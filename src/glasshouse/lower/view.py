"""Decides whether a value can be read where it lies: through strides on a buffer, without a copy.

Reshapes, permutations, slices and expansions between a buffer and a template move the index only.
Where the position stays affine in the template's loops, its coefficients are the strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.lower.access import VIEWS
from glasshouse.lower.cxx import size_text
from glasshouse.lower.index import ZERO, Computed, Index, Loop, SplitLoop, of, offset
from glasshouse.lower.order import position
from glasshouse.lower.writer import KernelWriter


@dataclass(frozen=True)
class View:
    """A value as `buffer[position]`; `position` is affine in the loops that were given."""

    buffer: str
    position: Index

    def stride(self, loop: Loop) -> Dim:
        return self.position.coefficient(loop)

    def begin(self, *without: Loop) -> str:
        """The position with the given loops at 0, as an expression."""
        kept = tuple((a, c) for a, c in self.position.terms if a not in without)
        return Index(kept, self.position.constant).text()


def view_of(writer: KernelWriter, value: Value, loops: Sequence[Loop]) -> View:
    """The value over loops, one for each axis; it is computed into memory if it is no view."""
    wanted = tuple(ZERO if loop.extent == 1 else of(loop) for loop in loops)
    found = _followed(writer, value, wanted)
    if found is None:
        buffer = writer.in_memory(value)
        found = View(buffer, offset(wanted, value.type.shape))
    return found


def _followed(writer: KernelWriter, value: Value, index: tuple[Index, ...]) -> View | None:
    try:
        while value not in writer.buffers:
            move = VIEWS.get(value.node.op.name)
            if move is None:
                return None
            value, index = move(value.node, value.index, index)
    except SplitLoop:
        return None
    place = position(value, index, writer.orders)
    if any(isinstance(atom, Computed) for atom, _ in place.terms):
        return None
    return View(writer.buffers[value], place)


def batch_loops(name: str, batch: Sequence[Dim]) -> tuple[list[Loop], list[str]]:
    """A loop for each batch axis, and the lines that find them from one running number `name`."""
    loops = [Loop(f"{name}{axis}_", size) for axis, size in enumerate(batch)]
    lines: list[str] = []
    step: Dim = 1
    for loop in reversed(loops):
        if loop.extent != 1:
            at = f"{name} / {size_text(step)}" if step != 1 else name
            lines.append(f"const int64_t {loop.name} = {at} % {size_text(loop.extent)};")
        step = step * loop.extent
    return loops, lines
