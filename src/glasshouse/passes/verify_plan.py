"""Verifies a memory plan: no two buffers of the arena that are alive at the same step overlap, and
no variable is written over while a later step reads it.

Lifetimes are counted again from the steps of the program, not read from the plan, so that a plan
whose lifetimes are wrong is found as well. The steps are swept once, with what is alive in order of
place, so that each new buffer is compared with its two neighbours alone.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from glasshouse.ir.graph import Value
from glasshouse.lower.plan import Arrival, upper_bytes
from glasshouse.lower.program import Call, Packed, Program


@dataclass(frozen=True)
class Overlap:
    """Two values that share bytes while both are needed."""

    a: Value
    b: Value  # the one that is written later
    at: int  # offset in the arena
    bytes: int
    first: int  # steps in which both are alive
    last: int


def overlaps(program: Program) -> list[Overlap]:
    """All live buffers of the arena that share memory with a neighbour that is alive, too."""
    spans = sorted(_spans(program), key=lambda s: (s[2], s[0]))
    out: list[Overlap] = []
    live: list[tuple[int, int]] = []  # (begin, number of the span), by place in the arena
    dying: list[tuple[int, int, int]] = []  # (last step, begin, number), soonest first
    for number, (begin, end, first, last, value) in enumerate(spans):
        while dying and dying[0][0] < first:
            _, at, dead = heapq.heappop(dying)
            del live[bisect_left(live, (at, dead))]
        place = bisect_left(live, (begin, number))
        for _, other in live[max(0, place - 1) : place + 1]:
            other_begin, other_end, _, other_last, held = spans[other]
            at, shared = max(begin, other_begin), min(end, other_end) - max(begin, other_begin)
            if shared > 0:
                out.append(Overlap(held, value, at, shared, first, min(last, other_last)))
        live.insert(place, (begin, number))
        heapq.heappush(dying, (last, begin, number))
    return out


def overwritten(program: Program) -> Iterator[tuple[Value, int, int]]:
    """(variable, step that writes its new value over it, later step that reads the old one)."""
    writer: dict[Value, int] = {}
    reader: dict[Value, int] = {}
    for number, step in enumerate(program.steps):
        writer.update((v, number) for v in step.node.outputs)
        reader.update((program.buffer_of(v), number) for v in step.node.inputs)
    for update in program.memory.updates:
        old = update.variable.output
        if update.how is Arrival.IN_PLACE and reader.get(old, -1) > writer[update.new]:
            yield old, writer[update.new], reader[old]


def _spans(program: Program) -> Iterator[tuple[int, int, int, int, Value]]:
    """(begin, end, first step, last step, value) of every buffer in the arena."""
    plan = program.memory
    alive: dict[Value, tuple[int, int]] = {}
    for number, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Call) else step.node.inputs
        for operand in (*reads, *step.node.outputs):
            if isinstance(operand, Packed):
                continue
            value = program.buffer_of(operand)
            if value in plan.arena:
                first, _ = alive.get(value, (number, number))
                alive[value] = (first, number)
    for value, (first, last) in alive.items():
        size = upper_bytes(value.type.nbytes)
        if size:
            yield plan.arena[value], plan.arena[value] + size, first, last, value
