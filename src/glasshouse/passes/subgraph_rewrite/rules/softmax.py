"""Which small graphs are a softmax: exp(x - max) / sum(exp(x - max)), and its logarithm."""

from __future__ import annotations

from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import axes_from_end, made_by
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("divide", why="exp of the elements divided by its sum is a softmax")
def recognise_softmax(node: Node, rw: Rewriter) -> Match | None:
    exp = made_by(node.inputs[0], "exp")
    total = _fold(node.inputs[1], "sum", node.inputs[0])
    if not exp or total is None or not node.output.type.dtype.is_float:
        return None
    fold, axis = total
    x, shifted = _without_max(exp.inputs[0], axis)
    return Match(
        lambda: rw.expr(x).apply("softmax", axis=axis),
        matched=[exp, fold, *shifted],
        closed=True,
    )


@rule("subtract", why="x - max - log(sum(exp(x - max))) is the logarithm of a softmax")
def recognise_log_softmax(node: Node, rw: Rewriter) -> Match | None:
    log = made_by(node.inputs[1], "log")
    total = made_by(log.inputs[0], "sum") if log else None
    exp = made_by(total.inputs[0], "exp") if total else None
    if not log or not total or not exp or exp.inputs[0] is not node.inputs[0]:
        return None
    found = _fold(log.inputs[0], "sum", exp.output)
    if found is None:
        return None
    x, shifted = _without_max(node.inputs[0], found[1])
    return Match(
        lambda: rw.expr(x).apply("log_softmax", axis=found[1]),
        matched=[log, total, exp, *shifted],
        closed=True,
    )


@rule("log", why="the logarithm of a softmax has an op that loses fewer digits")
def log_of_softmax(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "softmax")
    if not inner:
        return None
    x, axis = inner.inputs[0], inner.attrs["axis"]
    return Match(lambda: rw.expr(x).apply("log_softmax", axis=axis), matched=[inner], closed=True)


def _fold(value: Value, op: str, of: Value) -> tuple[Node, int] | None:
    """(node, axis from the end) if a value is `of` folded along one axis that is kept."""
    node = made_by(value, op)
    if not node or node.inputs[0] is not of or not node.attrs["keepdims"] or not of.type.rank:
        return None
    axes = axes_from_end(node.attrs["axes"], of.type.rank)
    return (node, axes[0]) if len(axes) == 1 else None


def _without_max(value: Value, axis: int) -> tuple[Value, list[Node]]:
    """x if the value is x minus its maximum along the axis; a softmax does not change with it."""
    minus = made_by(value, "subtract")
    found = _fold(minus.inputs[1], "max", minus.inputs[0]) if minus else None
    if not minus or not found or found[1] != axis:
        return value, []
    return minus.inputs[0], [minus, found[0]]
