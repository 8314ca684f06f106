"""Decides where every value of a program lies: in the table of pointers, or in the arena.

Inputs, outputs, constants, variables, what fallbacks make and what has no upper bound are reached
through the table. All else shares one arena, where memory is used again as soon as a value is dead.
"""

from __future__ import annotations

from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.plan import MemoryPlan, has_bound, upper_bytes
from glasshouse.lower.program import Call, Fallback, Packed, Program
from glasshouse.passes.arena import Buffer, place

ALIGN = 64


def layout_of(program: Program) -> MemoryPlan:
    """A place for every value."""
    plan = MemoryPlan()
    for value in _reached_from_outside(program):
        if value not in plan.table:
            plan.table[value] = len(plan.table)
    plan.unbounded = _without_bound(program, plan)
    for value in plan.unbounded:
        plan.table[value] = len(plan.table)
    next_place = len(plan.table)
    for step in program.steps:
        for operand in step.inputs if isinstance(step, Call) else ():
            if isinstance(operand, Packed) and operand not in plan.packed:
                plan.packed[operand] = next_place
                next_place += 1
    _fill_arena(program, plan)
    return plan


def _reached_from_outside(program: Program) -> list[Value]:
    graph = program.graph
    out = [*graph.inputs]
    out += [v for n in graph.nodes if n.op.kind is Kind.SOURCE for v in n.outputs]
    out += [*graph.outputs, *graph.updates.values()]
    for step in program.steps:
        if isinstance(step, Fallback):
            out += step.node.outputs
    return out


def _without_bound(program: Program, plan: MemoryPlan) -> list[Value]:
    """Buffers of kernels whose size is known in a run alone."""
    made = [program.buffer_of(v) for s in program.steps for v in s.node.outputs]
    return [v for v in dict.fromkeys(made) if v not in plan.table and not has_bound(v.type.nbytes)]


def _fill_arena(program: Program, plan: MemoryPlan) -> None:
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
            elif value not in plan.table:
                size = -(-upper_bytes(value.type.nbytes) // ALIGN) * ALIGN
                buffers[value] = Buffer(size, number, number)
        if not isinstance(step, Call):
            continue
        if has_bound(step.workspace):
            workspace = max(workspace, upper_bytes(step.workspace))
        else:
            plan.workspaces.append(step.workspace)
    plan.work_offset = place(list(buffers.values()))
    plan.arena = {value: buffer.offset for value, buffer in buffers.items()}
    plan.arena_bytes = plan.work_offset + workspace + ALIGN
    plan.tensor_bytes = sum(b.size for b in buffers.values())
