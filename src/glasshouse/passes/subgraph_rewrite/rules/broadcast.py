"""Removes broadcasts that change nothing, and reductions over axes of size 1."""

from __future__ import annotations

from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.types import Shape
from glasshouse.ops.shapes import axes_of, broadcast_shapes
from glasshouse.passes.patterns import array_of, made_by, scalar_of
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("expand", why="it has that shape already")
def expand_to_same(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    return Match(x) if x.type == node.output.type else None


@rule("expand", why="only the last shape matters")
def expand_of_expand(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "expand")
    if not inner:
        return None
    x = inner.inputs[0]
    return Match(lambda: rw.expr(x).apply("expand", shape=node.attrs["shape"]), matched=[inner])


_BROADCASTING = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "where", "less",
    "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_xor", "remainder", "floor_divide", "atan2",
)  # fmt: skip


@rule(*_BROADCASTING, why="the op repeats its operands itself")
def elementwise_of_expand(node: Node, rw: Rewriter) -> Match | None:
    operands = list(node.inputs)
    matched: list[Node] = []
    for i, value in enumerate(node.inputs):
        inner = made_by(value, "expand")
        if not inner:
            continue
        shapes = [v.type.shape for v in operands]
        shapes[i] = inner.inputs[0].type.shape
        if broadcast_shapes(shapes) == node.output.type.shape:
            operands[i] = inner.inputs[0]
            matched.append(inner)
    if not matched:
        return None
    return Match(
        lambda: rw.expr(operands[0]).apply(node.op.name, *[rw.expr(v) for v in operands[1:]]),
        matched=matched,
    )


@rule(*_BROADCASTING, why="a fill in an elementwise op is one number")
def elementwise_of_full(node: Node, rw: Rewriter) -> Match | None:
    operands: list[Value | float] = list(node.inputs)
    matched: list[Node] = []
    for i, value in enumerate(node.inputs):
        inner = made_by(value, "full")
        if not inner or not isinstance(inner.attrs["value"], (bool, int, float)):
            continue
        shapes = [v.type.shape for j, v in enumerate(node.inputs) if j != i]
        if broadcast_shapes(shapes) == node.output.type.shape and inner not in matched:
            operands[i] = inner.attrs["value"]
            matched.append(inner)
            break  # one at a time: two fills would leave nothing that has the shape
    if not matched:
        return None

    def build() -> Expr:
        type = matched[0].output.type
        handles = [
            rw.expr(v if isinstance(v, Value) else rw.constant(v, type.dtype)) for v in operands
        ]
        out: Expr = handles[0].apply(node.op.name, *handles[1:])
        return out

    return Match(build, matched=matched)


@rule("where", why="a branch that is one number throughout is that number")
def where_of_filled(node: Node, rw: Rewriter) -> Match | None:
    for i in (1, 2):
        number = None if scalar_of(node.inputs[i]) is not None else _filled(node.inputs[i])
        shapes = [v.type.shape for j, v in enumerate(node.inputs) if j != i]
        if number is None or broadcast_shapes(shapes) != node.output.type.shape:
            continue

        def build(i: int = i, number: float = number) -> Expr:
            operands = [rw.expr(v) for v in node.inputs]
            operands[i] = rw.expr(rw.constant(number, node.inputs[i].type.dtype))
            out: Expr = operands[0].apply("where", *operands[1:])
            return out

        return Match(build)
    return None


def _filled(value: Value) -> float | None:
    """The number that all elements of a constant are; not of weights, which have names and may be
    given other values."""
    data = array_of(value)
    if data is None or value.node.attrs["name"] or not value.type.dtype.is_float:
        return None
    if not 0 < data.size <= 1 << 16:
        return None
    first = float(data.flat[0])
    return first if first == float(data.flat[-1]) and bool((data == first).all()) else None


@rule("sum", "mean", "max", "min", "prod", why="the axes have one element each")
def fold_of_one(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    axes = axes_of(node.attrs["axes"], x.type.rank)
    if any(x.type.shape[a] != 1 for a in axes) or x.type.dtype is not node.output.type.dtype:
        return None
    return Match(lambda: _reshaped(rw, x, node.output.type.shape))


@rule("reshape", why="the fold itself can drop or keep its axes")
def reshape_of_fold(node: Node, rw: Rewriter) -> Match | None:
    fold = node.inputs[0].node
    if fold.op.kind is not Kind.REDUCTION or "keepdims" not in fold.attrs or fold.op.name in _INDEX:
        return None
    keep = not fold.attrs["keepdims"]
    x = fold.inputs[0]
    attrs = {**fold.attrs, "keepdims": keep}
    if fold.op.types([x.type], attrs)[0] != node.output.type or len(fold.output._uses) != 1:
        return None
    if rw.graph.is_held(fold.output):
        return None
    return Match(lambda: rw.expr(x).apply(fold.op.name, **attrs), matched=[fold])


_INDEX = ("argmax", "argmin")


def _reshaped(rw: Rewriter, x: Value, shape: Shape) -> Expr:
    out: Expr = rw.expr(x)
    if x.type.shape != shape:
        out = out.apply("reshape", shape=shape)
    return out
