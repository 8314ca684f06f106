"""Rules for unrolled loops: gradients of slices become one concatenation, and a maximum whose
indices nothing reads becomes a plain one.

A loop over a sequence reads one part a step, so that the gradient of the whole is a sum of as many
tensors, each zero but for one part: every element of every one of them would be added, quadratic in
the steps. Parts that lie side by side are joined instead.
"""

from __future__ import annotations

from functools import partial

from glasshouse.ir.dim import Dim
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import made_by, single_use
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("add", why="parts of a gradient that lie side by side are joined, not added")
def sum_of_parts(node: Node, rw: Rewriter) -> Match | None:
    """Also behind another term: a + p + q is a + (p + q), exactly, where p or q is zero."""
    for left, right in (tuple(node.inputs), tuple(reversed(node.inputs))):
        part = _part(rw, right)
        if part is None or right.type != node.output.type:
            continue
        other = _part(rw, left)
        if other is not None:
            side = _beside(other, part)
            if side is not None:
                return Match(partial(_joined, rw, *side), matched=[other, part])
            continue
        add = made_by(left, "add")
        if add is None or not single_use(rw.graph, left) or left.type != node.output.type:
            continue
        for term, padded in (tuple(add.inputs), tuple(reversed(add.inputs))):
            other = _part(rw, padded)
            side = _beside(other, part) if other is not None else None
            if other is not None and side is not None and padded.type == left.type:
                return Match(partial(_added, rw, term, *side), matched=[add, other, part])
    return None


def _part(rw: Rewriter, value: Value) -> Node | None:
    """The padding of a part with zeros that this value is, if nothing else reads it."""
    pad = made_by(value, "pad")
    if pad is None or pad.attrs["mode"] != "constant" or pad.attrs["value"] != 0:
        return None
    return pad if single_use(rw.graph, value) else None


def _beside(one: Node, other: Node) -> tuple[Node, Node, int] | None:
    """The parts in order, and the axis along which they meet; elsewhere both lie alike."""
    rank = one.output.type.rank
    a, b = one.attrs["padding"], other.attrs["padding"]
    apart = [i for i in range(rank) if (a[i], a[rank + i]) != (b[i], b[rank + i])]
    if len(apart) != 1:
        return None
    axis = apart[0]
    for first, second in ((one, other), (other, one)):
        size: Dim = first.inputs[0].type.shape[axis]
        if first.attrs["padding"][axis] + size == second.attrs["padding"][axis]:
            return first, second, axis
    return None


def _joined(rw: Rewriter, first: Node, second: Node, axis: int) -> Expr:
    rank = first.output.type.rank
    padding = list(first.attrs["padding"])
    padding[rank + axis] = second.attrs["padding"][rank + axis]
    parts = rw.expr(first.inputs[0]), rw.expr(second.inputs[0])
    joined: Expr = parts[0].apply("concat", parts[1], axis=axis)
    out: Expr = joined.apply("pad", padding=padding, mode="constant", value=0.0)
    return out


def _added(rw: Rewriter, term: Value, first: Node, second: Node, axis: int) -> Expr:
    out: Expr = rw.expr(term) + _joined(rw, first, second, axis)
    return out


_EXTREMES = {"argmax": "max", "argmin": "min"}


@rule("gather", why="the element at the place of the extreme is the extreme")
def extreme_by_place(node: Node, rw: Rewriter) -> Match | None:
    x, at = node.inputs
    found = made_by(at, *_EXTREMES)
    if found is None or found.inputs[0] is not x or not found.attrs["keepdims"]:
        return None
    axis = axis_of(node.attrs["axis"], x.type.rank)
    if axis_of(found.attrs["axis"], x.type.rank) != axis or not single_use(rw.graph, at):
        return None  # who asks for the place as well has it for nothing
    name = _EXTREMES[found.op.name]
    return Match(lambda: rw.expr(x).apply(name, axes=[axis], keepdims=True), matched=[found])
