"""Decides where intermediate values lie: one arena, reused as soon as a value is dead.

Lifetimes follow the order of the nodes. Two layouts are tried: in order of time with the best
fitting gap, and largest first at the lowest place that is free; the smaller arena wins.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from math import isinf

from glasshouse.ir.dim import bounds
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.base import Pass, register_pass
from glasshouse.passes.mark_views import ViewTable, find_views

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""
_FEW = 2000
"""Largest-first compares pairs of values, so it is tried for at most this many."""


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


@dataclass(slots=True)
class _Buffer:
    size: int
    begin: int
    end: int
    offset: int = 0


def plan_memory(graph: Graph, alignment: int = ALIGNMENT, in_place: bool = True) -> MemoryPlan:
    """The plan for a graph whose nodes run in the order of `graph.nodes`."""
    plan = MemoryPlan(views=find_views(graph))
    order = graph.nodes
    last = _last_uses(graph, plan.views)
    held = {plan.views.base(v) for v in [*graph.outputs, *graph.updates.values()]}
    buffers: dict[Value, _Buffer] = {}
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
                buffers[value] = _Buffer(size, i, max(last.get(value, i), i))
    distinct = list({id(b): b for b in buffers.values()}.values())
    plan.live = _most_alive(distinct)
    plan.arena = _place(distinct)
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
    node: Node, value: Value, now: int, last: dict[Value, int], buffers: dict[Value, _Buffer]
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


def _most_alive(buffers: list[_Buffer]) -> int:
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.begin] = changes.get(b.begin, 0) + b.size
        changes[b.end + 1] = changes.get(b.end + 1, 0) - b.size
    now = most = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def _place(buffers: list[_Buffer]) -> int:
    """Set the offsets; gives the size of the arena."""
    arena = _by_time(buffers)
    if len(buffers) > _FEW:
        return arena
    offsets = [b.offset for b in buffers]
    other = _by_size(buffers)
    if other < arena:
        return other
    for buffer, offset in zip(buffers, offsets, strict=True):
        buffer.offset = offset
    return arena


def _by_time(buffers: list[_Buffer]) -> int:
    """Best fit: as buffers are born, each takes the smallest gap that holds it."""
    gaps = _Gaps()
    alive: list[tuple[int, int, int]] = []  # (end, offset, size), soonest to die first
    for buffer in sorted(buffers, key=lambda b: b.begin):
        dead = 0
        while dead < len(alive) and alive[dead][0] < buffer.begin:
            gaps.free(alive[dead][1], alive[dead][2])
            dead += 1
        del alive[:dead]
        buffer.offset = gaps.take(buffer.size)
        insort(alive, (buffer.end, buffer.offset, buffer.size))
    return gaps.top


class _Gaps:
    """Free ranges below `top`, by size and by both ends, so that neighbours join."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []
        self._ends: dict[int, int] = {}  # end -> begin
        self._begins: dict[int, int] = {}  # begin -> end

    def take(self, size: int) -> int:
        at = bisect_left(self._by_size, (size, -1))
        if at < len(self._by_size):
            have, begin = self._by_size[at]
            self._forget(begin, begin + have)
            if have > size:
                self._remember(begin + size, begin + have)
            return begin
        begin = self._ends.get(self.top, self.top)  # a gap at the top grows
        if begin != self.top:
            self._forget(begin, self.top)
        self.top = begin + size
        return begin

    def free(self, begin: int, size: int) -> None:
        end = begin + size
        if begin in self._ends:
            before = self._ends[begin]
            self._forget(before, begin)
            begin = before
        if end in self._begins:
            after = self._begins[end]
            self._forget(end, after)
            end = after
        self._remember(begin, end)

    def _remember(self, begin: int, end: int) -> None:
        insort(self._by_size, (end - begin, begin))
        self._ends[end], self._begins[begin] = begin, end

    def _forget(self, begin: int, end: int) -> None:
        del self._by_size[bisect_left(self._by_size, (end - begin, begin))]
        del self._ends[end], self._begins[begin]


def _by_size(buffers: list[_Buffer]) -> int:
    """Largest first, each at the lowest place that no buffer alive at the same time takes."""
    placed: list[_Buffer] = []
    top = 0
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.begin)):
        taken = sorted(
            (b.offset, b.offset + b.size)
            for b in placed
            if b.begin <= buffer.end and buffer.begin <= b.end
        )
        offset = 0
        for begin, end in taken:
            if begin - offset >= buffer.size:
                break
            offset = max(offset, end)
        buffer.offset = offset
        placed.append(buffer)
        top = max(top, offset + buffer.size)
    return top
