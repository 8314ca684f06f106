"""Views: values that need no memory and no kernel, as they are parts of another value's memory.

Values lie in memory in row-major order without gaps. So a reshape is always a view, a permute is
one when only axes of size 1 move, and a slice is one when it is a single run of elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from glasshouse.ir.dim import Dim, product
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT
from glasshouse.lower.order import Order
from glasshouse.lower.program import Program
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.base import ProgramPass, register_pass

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


@dataclass(frozen=True, slots=True)
class BufferView:
    """The elements of `base` from `offset` (in elements) on."""

    base: Value
    offset: Dim = 0


@dataclass
class ViewTable:
    """`views` of values that need no kernel; `outputs` that are views of graph inputs."""

    views: dict[Value, BufferView] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)  # output number -> input number

    def base(self, value: Value) -> Value:
        """The value whose memory holds this one."""
        view = self.views.get(value)
        return value if view is None else view.base


@register_pass()
@dataclass(frozen=True)
class MarkViews(ProgramPass):
    """Let values that are whole views of others share their memory: no kernel copies them."""

    lowered: ClassVar[bool] = False

    def decide(self, program: Program, ctx: PassContext) -> Program:
        return replace(program, aliases=whole_views(program))

    def result(self, program: Program) -> Mapping[Value, Value]:
        return program.aliases


def whole_views(program: Program) -> dict[Value, Value]:
    """Values with the elements of another in the same order, and that other one.

    Both lie row by row, or an order undoes a permutation. Outputs and updates of the graph have
    memory of their own.
    """
    graph, orders = program.graph, program.orders
    views: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.kind is Kind.SOURCE or len(node.outputs) != 1 or graph.is_held(node.output):
            continue
        if not node.inputs or node.inputs[0] in orders:
            continue
        order = orders.get(node.output)
        if order is not None:
            if node.op.name == "permute" and _lies_as_given(node, order):
                views[node.output] = node.inputs[0]
            continue
        if view_offset(node) == 0 and node.output.type.nbytes == node.inputs[0].type.nbytes:
            views[node.output] = node.inputs[0]
    return views


def _lies_as_given(node: Node, order: Order) -> bool:
    """Whether the axes of a permutation's result lie in the order that they had before it."""
    axes = [axis_of(a, len(order)) for a in node.attrs["axes"]]
    return [axes[a] for a in order] == list(range(len(order)))


def find_views(graph: Graph) -> ViewTable:
    """All views of a graph, each on the value that owns the memory."""
    table = ViewTable()
    for node in graph.nodes:
        offset = view_offset(node)
        if offset is not None:
            source = node.inputs[0]
            below = table.views.get(source, BufferView(source))
            table.views[node.output] = BufferView(below.base, below.offset + offset)
    inputs = {v: i for i, v in enumerate(graph.inputs)}
    for number, value in enumerate(graph.outputs):
        base = table.base(value)
        if base.node.op is INPUT and base in inputs:
            table.outputs[number] = inputs[base]
    return table


def view_offset(node: Node) -> Dim | None:
    """Where a node's output begins in its operand's memory; None if it is no view of it."""
    name = node.op.name
    if name in ("reshape", "barrier"):
        return 0
    if name == "permute":
        shape = node.inputs[0].type.shape
        order = [axis_of(a, len(shape)) for a in node.attrs["axes"]]
        moving = [a for a in order if shape[a] != 1]
        return 0 if moving == sorted(moving) else None
    if name == "slice":
        return _slice_offset(node)
    return None


def _slice_offset(node: Node) -> Dim | None:
    """One run: axes of which one element is left, then one that is cut, then whole ones."""
    shape, starts = node.inputs[0].type.shape, node.attrs["starts"]
    out = node.output.type.shape
    cut = next((i for i, size in enumerate(out) if size != 1), len(shape))
    if any(out[i] != shape[i] for i in range(cut + 1, len(shape))):
        return None
    if cut < len(shape) and node.attrs["steps"] and node.attrs["steps"][cut] != 1:
        return None
    offset: Dim = 0
    for i, start in enumerate(starts):
        offset = offset + start * product(shape[i + 1 :])
    return offset
