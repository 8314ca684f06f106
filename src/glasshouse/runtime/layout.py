"""Decides where every value of a program lies: in the table of pointers, or in the arena.

Inputs, outputs, constants, variables and what fallbacks make are reached through the table. All
else shares one arena: a value takes the first gap that is free for as long as it lives.
"""

from __future__ import annotations

from glasshouse.backend.cpu.emit import Layout
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Call, Fallback, Packed, Program

ALIGN = 64


def layout_of(program: Program) -> Layout:
    """A place for every value."""
    layout = Layout()
    for value in _reached_from_outside(program):
        if value not in layout.table:
            layout.table[value] = len(layout.table)
    place = len(layout.table)
    for step in program.steps:
        for operand in step.inputs if isinstance(step, Call) else ():
            if isinstance(operand, Packed) and operand not in layout.packed:
                layout.packed[operand] = place
                place += 1
    _fill_arena(program, layout)
    return layout


def _reached_from_outside(program: Program) -> list[Value]:
    graph = program.graph
    out = [*graph.inputs]
    out += [v for n in graph.nodes if n.op.kind is Kind.SOURCE for v in n.outputs]
    out += [*graph.outputs, *graph.updates.values()]
    for step in program.steps:
        if isinstance(step, Fallback):
            out += step.node.outputs
    return out


def _fill_arena(program: Program, layout: Layout) -> None:
    """First fit over lifetimes; linear in the number of values alive at once."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    workspace = 0
    for number, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Call) else step.node.inputs
        for operand in (*reads, *step.node.outputs):
            if isinstance(operand, Packed):
                continue
            value = program.buffer_of(operand)
            if value not in layout.table:
                first.setdefault(value, number)
                last[value] = number
        if isinstance(step, Call):
            workspace = max(workspace, upper_bytes(step.workspace))
    ends: dict[int, list[Value]] = {}
    for value, number in last.items():
        ends.setdefault(number, []).append(value)
    live: list[tuple[int, int, Value]] = []  # (begin, end, value), by begin
    top = 0
    starts: dict[int, list[Value]] = {}
    for value, number in first.items():
        starts.setdefault(number, []).append(value)
    for number in range(len(program.steps)):
        for value in starts.get(number, ()):
            size = -(-upper_bytes(value.type.nbytes) // ALIGN) * ALIGN
            begin, at = 0, len(live)
            for position, (low, high, _) in enumerate(live):
                if low - begin >= size:
                    at = position
                    break
                begin = max(begin, high)
            live.insert(at, (begin, begin + size, value))
            layout.arena[value] = begin
            top = max(top, begin + size)
        gone = set(ends.get(number, ()))
        if gone:
            live = [x for x in live if x[2] not in gone]
    layout.work_offset = top
    layout.arena_bytes = top + workspace + ALIGN


def upper_bytes(size: Dim) -> int:
    """The most bytes that a size can mean; a size without bound cannot be planned."""
    high = bounds(size)[1]
    if high == float("inf"):
        raise Unsupported(
            f"a size of {size} bytes has no upper bound",
            hint="give the symbol a range, as in symbol('batch', 1, 64)",
        )
    return int(high)
