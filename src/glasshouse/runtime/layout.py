"""Decides where every value of a program lies: in the table of pointers, or in the arena.

Inputs, outputs, constants, variables, what fallbacks make and what has no upper bound are reached
through the table. All else shares one arena, where memory is used again as soon as a value is dead.
"""

from __future__ import annotations

from glasshouse.backend.cpu.emit import Layout
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Call, Fallback, Packed, Program
from glasshouse.passes.arena import Buffer, place

ALIGN = 64


def layout_of(program: Program) -> Layout:
    """A place for every value."""
    layout = Layout()
    for value in _reached_from_outside(program):
        if value not in layout.table:
            layout.table[value] = len(layout.table)
    layout.unbounded = _without_bound(program, layout)
    for value in layout.unbounded:
        layout.table[value] = len(layout.table)
    next_place = len(layout.table)
    for step in program.steps:
        for operand in step.inputs if isinstance(step, Call) else ():
            if isinstance(operand, Packed) and operand not in layout.packed:
                layout.packed[operand] = next_place
                next_place += 1
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


def _without_bound(program: Program, layout: Layout) -> list[Value]:
    """Buffers of kernels whose size is known in a run alone."""
    made = [program.buffer_of(v) for s in program.steps for v in s.node.outputs]
    return [
        v for v in dict.fromkeys(made) if v not in layout.table and not has_bound(v.type.nbytes)
    ]


def _fill_arena(program: Program, layout: Layout) -> None:
    """A value lives from the step that writes it to the last that reads it."""
    buffers: dict[Value, Buffer] = {}
    workspace = 0
    for number, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Call) else step.node.inputs
        for operand in (*reads, *step.node.outputs):
            if isinstance(operand, Packed):
                continue
            value = program.buffer_of(operand)
            if value in buffers:
                buffers[value].end = number
            elif value not in layout.table:
                size = -(-upper_bytes(value.type.nbytes) // ALIGN) * ALIGN
                buffers[value] = Buffer(size, number, number)
        if not isinstance(step, Call):
            continue
        if has_bound(step.workspace):
            workspace = max(workspace, upper_bytes(step.workspace))
        else:
            layout.workspaces.append(step.workspace)
    layout.work_offset = place(list(buffers.values()))
    layout.arena = {value: buffer.offset for value, buffer in buffers.items()}
    layout.arena_bytes = layout.work_offset + workspace + ALIGN
    layout.tensor_bytes = sum(b.size for b in buffers.values())


def has_bound(size: Dim) -> bool:
    return bounds(size)[1] != float("inf")


def upper_bytes(size: Dim) -> int:
    """The most bytes that a size can mean; a size without bound cannot be planned."""
    if not has_bound(size):
        raise Unsupported(
            f"a size of {size} bytes has no upper bound",
            hint="give the symbol a range, as in symbol('batch', 1, 64)",
        )
    return int(bounds(size)[1])
