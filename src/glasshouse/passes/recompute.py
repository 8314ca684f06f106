"""What a training step keeps for its backward part, and what it computes again there.

A value of the forward part that the backward part reads stays in memory for all the time between.
Where it is cheap to compute from values that stay anyway, the backward part gets its own copy,
behind a barrier so that the two are not merged again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.backend.base import target_named
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.barrier import barrier
from glasshouse.ops.cost import nbytes, operations
from glasshouse.passes.base import Pass, register_pass


def is_backward(node: Node) -> bool:
    """Whether a node belongs to the backward part or to the update of weights."""
    if node.origin.grad_of is not None:
        return True
    return node.origin.label("phase") in ("backward", "optimizer", "optimiser", "update")


@register_pass()
@dataclass(frozen=True)
class Recompute(Pass):
    """Compute cheap forward values again in the backward part instead of keeping them."""

    share: float = 1.0  # of what moving the value through memory takes; 0 keeps everything
    min_bytes: int = 1 << 16  # smaller values are kept
    target: Target = field(default_factory=lambda: target_named("cpu"))

    def run(self, graph: Graph, rw: Rewriter) -> None:
        backward = {n for n in graph.nodes if n.op.kind is not Kind.SOURCE and is_backward(n)}
        if not backward or self.share <= 0:
            return
        saved = _saved(graph, backward)
        chosen = self._choose(graph, saved, rw)
        again: dict[Value, Value] = {}
        for node in [n for n in graph.nodes if n in backward]:
            wanted = [v for v in dict.fromkeys(node.inputs) if v in chosen]
            if not wanted:
                continue
            size = sum(nbytes(v) for v in wanted)
            rw.replace(
                node,
                lambda node=node: _rebuilt(node, chosen, again, rw),  # type: ignore[misc] # bound now
                rule="recompute",
                why=f"reads {len(wanted)} values that are cheap to compute again: {size} bytes "
                "need not be kept since the forward part",
                matched=[v.node for v in wanted],
            )

    def _choose(self, graph: Graph, saved: dict[Value, None], rw: Rewriter) -> dict[Value, None]:
        """Cheap values all of whose operands stay anyway; in topological order, so chains count."""
        chosen: dict[Value, None] = {}
        for value in saved:
            node = value.node
            size, work = nbytes(value), operations(node)
            worth = 2 * size * self.target.operations_per_byte * self.share
            why = ""
            if node.op.kind not in (Kind.ELEMENTWISE, Kind.INJECTIVE) or len(node.outputs) != 1:
                why = f"{node.op.label} is costly: {work:.3g} operations for {size} bytes"
            elif graph.is_held(value):
                why = "it is an output of the graph"
            elif size < self.min_bytes:
                why = f"it is small: {size} bytes"
            elif work > worth:
                why = f"{work:.3g} operations are more than {size} bytes are worth"
            elif not all(_stays(v, saved, chosen) for v in node.inputs):
                why = "its operands would have to be kept instead"
            if not why:
                chosen[value] = None
            elif rw.listeners:
                rw.reject([node], rule="recompute", why=f"kept: {why}", bytes=size, operations=work)
        return chosen


def _saved(graph: Graph, backward: set[Node]) -> dict[Value, None]:
    """Forward values that the backward part reads."""
    return {
        value: None
        for node in graph.nodes
        if node.op.kind is not Kind.SOURCE and node not in backward
        for value in node.outputs
        if any(user in backward for user in value.users)
    }


def _stays(value: Value, saved: dict[Value, None], chosen: dict[Value, None]) -> bool:
    return value.node.op.kind is Kind.SOURCE or value in saved or value in chosen


def _rebuilt(
    node: Node, chosen: dict[Value, None], again: dict[Value, Value], rw: Rewriter
) -> list[Expr]:
    operands = [_again(v, chosen, again, rw) for v in node.inputs]
    made: Node = node.op.emit(rw, operands, node.attrs)
    return [rw.expr(v) for v in made.outputs]


def _again(
    value: Value, chosen: dict[Value, None], again: dict[Value, Value], rw: Rewriter
) -> Value:
    """The copy of a chosen value, made with its chosen operands' copies on first use."""
    stack = [value]
    while stack:
        current = stack[-1]
        if current not in chosen or (current in again and again[current].node in rw.graph):
            stack.pop()
            continue
        missing = [v for v in current.node.inputs if v in chosen and not _is_made(v, again, rw)]
        if missing:
            stack += missing
            continue
        stack.pop()
        operands = [
            again[v] if v in chosen
            else v if v.node.op.kind is Kind.SOURCE
            else barrier.emit(rw, [v], {}).output
            for v in current.node.inputs
        ]  # fmt: skip
        again[current] = current.node.op.emit(rw, operands, current.node.attrs).output
    return again.get(value, value) if value in chosen else value


def _is_made(value: Value, again: dict[Value, Value], rw: Rewriter) -> bool:
    return value in again and again[value].node in rw.graph
