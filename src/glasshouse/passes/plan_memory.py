"""Decides where intermediate values lie: one arena, reused as soon as a value is dead.

Lifetimes follow the order of the nodes; `arena.place` finds the places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf

from glasshouse.ir.dim import bounds
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.arena import Buffer, most_alive, place
from glasshouse.passes.base import Pass, register_pass
from glasshouse.passes.mark_views import ViewTable, find_views

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Bytes of the arena."""

    offset: int
    size: int


@dataclass
class MemoryPlan:
    """Where each value lies.

    `slots` has every value in the arena; views and values written in place share the slot of what
    they lie on. `outside` are graph outputs and what they are views of, `dynamic` values have no
    upper bound: both are allocated by whoever runs the graph.
    """

    slots: dict[Value, Slot] = field(default_factory=dict)
    arena: int = 0  # bytes of the arena
    total: int = 0  # bytes if every value had memory of its own
    live: int = 0  # most bytes alive at one time: no plan can be smaller
    in_place: dict[Value, Value] = field(default_factory=dict)  # output -> operand it overwrites
    views: ViewTable = field(default_factory=ViewTable)
    outside: list[Value] = field(default_factory=list)
    dynamic: list[Value] = field(default_factory=list)


@register_pass()
@dataclass(frozen=True)
class PlanMemory(Pass):
    """Give every intermediate value a place in one arena."""

    alignment: int = ALIGNMENT
    in_place: bool = True

    def run(self, graph: Graph, rw: Rewriter) -> MemoryPlan:
        return plan_memory(graph, self.alignment, self.in_place)


def plan_memory(graph: Graph, alignment: int = ALIGNMENT, in_place: bool = True) -> MemoryPlan:
    """The plan for a graph whose nodes run in the order of `graph.nodes`."""
    plan = MemoryPlan(views=find_views(graph))
    order = graph.nodes
    last = _last_uses(graph, plan.views)
    held = {plan.views.base(v) for v in [*graph.outputs, *graph.updates.values()]}
    buffers: dict[Value, Buffer] = {}
    for i, node in enumerate(order):
        if node.op.kind is Kind.SOURCE:
            continue
        for value in node.outputs:
            if value in plan.views.views:
                continue
            if value in held:
                plan.outside.append(value)
                continue
            size = _upper_bytes(value, alignment)
            if size is None:
                plan.dynamic.append(value)
                continue
            plan.total += size
            operand = _overwritten(node, value, i, last, buffers) if in_place else None
            if operand is not None:
                plan.in_place[value] = operand
                buffers[value] = buffers[operand]
                buffers[value].end = max(last.get(value, i), i)
            else:
                buffers[value] = Buffer(size, i, max(last.get(value, i), i))
    distinct = list({id(b): b for b in buffers.values()}.values())
    plan.live = most_alive(distinct)
    plan.arena = place(distinct)
    for value, buffer in buffers.items():
        plan.slots[value] = Slot(buffer.offset, buffer.size)
    for value, view in plan.views.views.items():
        if view.base in plan.slots:
            plan.slots[value] = plan.slots[view.base]
    return plan


def _last_uses(graph: Graph, views: ViewTable) -> dict[Value, int]:
    """The number of the last node that reads a value or a view of it."""
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.inputs:
            last[views.base(value)] = i
    return last


def _upper_bytes(value: Value, alignment: int) -> int | None:
    high = bounds(value.type.nbytes)[1]
    if isinf(high):
        return None
    return -(-max(int(high), 1) // alignment) * alignment


def _overwritten(
    node: Node, value: Value, now: int, last: dict[Value, int], buffers: dict[Value, Buffer]
) -> Value | None:
    """The operand whose memory the output can take: read at the same index, and dead after this."""
    if len(node.outputs) != 1 or not _is_elementwise(node):
        return None
    for operand in node.inputs:
        buffer = buffers.get(operand)
        same = operand.type.shape == value.type.shape
        if buffer is None or not same or operand.type.nbytes != value.type.nbytes:
            continue
        # A buffer that was taken over belongs to its last value.
        if buffer.end == now and last.get(operand) == now:
            return operand
    return None


def _is_elementwise(node: Node) -> bool:
    body = node.attrs.get("body")
    if isinstance(body, Graph):
        kinds = (Kind.ELEMENTWISE, Kind.SOURCE)
        return node.op.name == "fused" and all(n.op.kind in kinds for n in body.nodes)
    return node.op.kind is Kind.ELEMENTWISE
