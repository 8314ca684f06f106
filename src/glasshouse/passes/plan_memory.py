"""Memory planning: a place in the table of pointers or in the arena for every value of a program,
and for every variable how its new value arrives.

Inputs, outputs, constants, variables, what fallbacks make and what has no upper bound are reached
through the table. All else shares one arena, where memory is used again as soon as a value is dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.plan import (
    ALIGN,
    Arrival,
    Lifetime,
    MemoryPlan,
    Update,
    aligned,
    has_bound,
    upper_bytes,
)
from glasshouse.lower.program import Call, Fallback, Packed, Program
from glasshouse.passes.arena import ArenaBlock, place
from glasshouse.passes.base import ProgramPass, register_pass
from glasshouse.passes.in_place import Timeline
from glasshouse.passes.rooms import rooms_of

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


@register_pass()
@dataclass(frozen=True)
class PlanMemory(ProgramPass):
    """Use memory again as soon as a value is dead, and write variables over their old values."""

    in_place: bool = True

    def decide(self, program: Program, ctx: PassContext) -> Program:
        most = _host_memory() / _SHARE if ctx.target.name == "cpu" else inf
        return replace(program, plan=plan_memory(program, in_place=self.in_place, most=most))

    def result(self, program: Program) -> MemoryPlan | None:
        return program.plan


_SHARE = 4
"""An arena that is larger than this part of the host's memory is not laid out for the largest sizes
that are allowed: an upper bound of ten million is said by who knows of none."""


def plan_memory(
    program: Program, reuse: bool = True, in_place: bool = True, most: float = inf
) -> MemoryPlan:
    """The plan of a program whose steps run in order; without `reuse`, no memory is used twice. If
    the arena took more bytes than `most`, values whose sizes calls decide are planned as those
    without a bound are."""
    plan = _plan(program, reuse, in_place, has_bound)
    if plan.arena_bytes > most:
        return _plan(program, reuse, in_place, lambda size: isinstance(size, int))
    return plan


def _host_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not told on this system
        return inf


Planned = Callable[[Dim], bool]
"""Whether memory of so many bytes is planned before a run."""


def _plan(program: Program, reuse: bool, in_place: bool, planned: Planned) -> MemoryPlan:
    plan = MemoryPlan()
    for value in _reached_from_outside(program):
        if value not in plan.table:
            plan.table[value] = len(plan.table)
    plan.unbounded = _without_bound(program, plan, planned)
    for value in plan.unbounded:
        plan.table[value] = len(plan.table)
    next_place = len(plan.table)
    for step in program.steps:
        for operand in step.inputs if isinstance(step, Call) else ():
            if isinstance(operand, Packed) and operand not in plan.packed:
                plan.packed[operand] = next_place
                next_place += 1
    _fill_arena(program, plan, reuse, planned)
    _share_rooms(program, plan, reuse)
    plan.updates = list(_updates(program, reuse and in_place))
    plan.kept = _kept(program)
    plan.direct = list(_direct(program))
    plan.overwrites = dict(_overwrites(program, plan)) if reuse and in_place else {}
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


def _without_bound(program: Program, plan: MemoryPlan, planned: Planned) -> list[Value]:
    """Buffers of kernels whose size is known in a run alone."""
    made = [program.buffer_of(v) for s in program.steps for v in s.node.outputs]
    return [v for v in dict.fromkeys(made) if v not in plan.table and not planned(v.type.nbytes)]


def _fill_arena(program: Program, plan: MemoryPlan, reuse: bool, planned: Planned) -> None:
    """A value lives from the step that writes it to the last that reads it."""
    buffers: dict[Value, ArenaBlock] = {}
    workspace = 0
    last = len(program.steps) - 1
    for number, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Call) else step.node.inputs
        for operand in (*reads, *step.node.outputs):
            if isinstance(operand, Packed):
                continue
            value = program.buffer_of(operand)
            if value in buffers:
                buffers[value].end = max(buffers[value].end, number)
            elif value not in plan.table:
                size = aligned(upper_bytes(value.type.nbytes))
                buffers[value] = ArenaBlock(size, number if reuse else 0, number if reuse else last)
        if not isinstance(step, Call):
            continue
        if planned(step.workspace):
            workspace = max(workspace, upper_bytes(step.workspace))
        else:
            plan.workspaces.append(step.workspace)
    plan.work_offset = place(list(buffers.values()))
    plan.arena = {value: buffer.offset for value, buffer in buffers.items()}
    plan.lifetimes = {value: Lifetime(b.begin, b.end) for value, b in buffers.items()}
    plan.arena_bytes = plan.work_offset + workspace + ALIGN
    plan.tensor_bytes = sum(b.size for b in buffers.values())


def _share_rooms(program: Program, plan: MemoryPlan, reuse: bool) -> None:
    """Values without a bound that use the same memory."""
    unbounded = set(plan.unbounded)
    lives: dict[Value, Lifetime] = {}
    last = len(program.steps) - 1
    for number, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Call) else step.node.inputs
        for operand in (*reads, *step.node.outputs):
            if isinstance(operand, Packed):
                continue
            value = program.buffer_of(operand)
            if value in unbounded:
                begin = lives[value].begin if value in lives else number
                lives[value] = Lifetime(begin, number) if reuse else Lifetime(0, last)
    plan.rooms = rooms_of(lives.items())


def _updates(program: Program, in_place: bool) -> Iterator[Update]:
    graph = program.graph
    timeline = Timeline(program)
    written: set[Value] = set()
    for variable, new in graph.updates.items():
        if new in written or new in graph.outputs or new.node.op.kind is Kind.SOURCE:
            how = Arrival.COPY
        elif in_place and timeline.can_overwrite(variable.output, new):
            how = Arrival.IN_PLACE
        else:
            how = Arrival.TURNS
        written.add(new)
        yield Update(variable, new, how)


def _kept(program: Program) -> list[Value]:
    graph = program.graph
    held = dict.fromkeys([*graph.outputs, *graph.updates.values()])
    return [v for v in held if v.node.op.kind is Kind.SOURCE and v not in graph.inputs]


def _direct(program: Program) -> Iterator[bool]:
    seen: set[Value] = set()
    for value in program.graph.outputs:
        yield value not in seen and value.node.op.kind is not Kind.SOURCE
        seen.add(value)


def _overwrites(program: Program, plan: MemoryPlan) -> Iterator[tuple[int, int]]:
    """Arguments that a model writes to (a cache of keys) whose new values need no other memory."""
    graph = program.graph
    timeline = Timeline(program)
    leaving = [program.buffer_of(v) for v in (*graph.outputs, *graph.updates.values())]
    taken: set[int] = set()
    for number, given in graph.written.items():
        old, new = graph.inputs[given], graph.outputs[number]
        if given in taken or old in leaving or leaving.count(new) != 1 or not plan.direct[number]:
            continue
        if timeline.can_overwrite(old, new, whole=graph.all_or_nothing):
            taken.add(given)
            yield number, given
