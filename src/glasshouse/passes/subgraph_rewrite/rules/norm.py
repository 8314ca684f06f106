"""Which small graphs are a layer norm or an RMS norm, and gives them weight and bias.

The core is recognised first, without weight; then a product with a vector of the normalised shape
becomes its weight, and a sum with one its bias.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glasshouse.ir.dim import product
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import (
    axes_from_end,
    either,
    is_trailing,
    made_by,
    single_use,
    with_scalar,
)
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("multiply", "divide", why="a sum divided by the number of its terms is a mean")
def recognise_mean(node: Node, rw: Rewriter) -> Match | None:
    found = with_scalar(node)
    fold = made_by(found[0], "sum") if found else None
    if not found or not fold or found[0].type != node.output.type:
        return None
    x = fold.inputs[0]
    if not x.type.dtype.is_float or (node.op.name == "divide" and found[0] is not node.inputs[0]):
        return None
    axes = axes_from_end(fold.attrs["axes"], x.type.rank)
    count = product(tuple(x.type.shape[a] for a in axes))
    if not isinstance(count, int) or count == 0:
        return None
    wanted = float(count) if node.op.name == "divide" else 1.0 / count
    if abs(found[1] - wanted) > 1e-6 * wanted:
        return None
    return Match(lambda: rw.expr(x).apply("mean", **fold.attrs), matched=[fold])


@rule("multiply", "divide", why="centred and divided by its standard deviation: a layer norm")
def recognise_layer_norm(node: Node, rw: Rewriter) -> Match | None:
    for centred, root, nodes, weight in _normalised(node):
        minus = made_by(centred, "subtract")
        mean = made_by(minus.inputs[1], "mean") if minus else None
        if not minus or not mean or mean.inputs[0] is not minus.inputs[0]:
            continue
        x = minus.inputs[0]
        axes = _kept_last_axes(mean)
        spread = _variance(root, centred, x, axes)
        if axes and spread:
            eps, matched = spread
            return Match(
                _norm(rw, "layer_norm", x, axes[0], eps, weight),
                matched=[*nodes, minus, mean, *matched],
                closed=True,
            )
    return None


@rule("multiply", "divide", why="divided by the root of its mean square: an RMS norm")
def recognise_rms_norm(node: Node, rw: Rewriter) -> Match | None:
    for x, root, nodes, weight in _normalised(node):
        inner = _plus_eps(root)
        mean = made_by(inner[0], "mean") if inner else None
        square = _square(mean.inputs[0]) if mean else None
        axes = _kept_last_axes(mean) if mean else ()
        if inner and mean and square and square[0] is x and axes:
            eps = inner[1]
            return Match(
                _norm(rw, "rms_norm", x, axes[0], eps, weight),
                matched=[*nodes, *inner[2], mean, square[1]],
                closed=True,
            )
    return None


@rule("multiply", why="the product belongs to the norm as its weight")
def norm_weight(node: Node, rw: Rewriter) -> Match | None:
    found = either(node, "layer_norm", "rms_norm")
    if not found:
        return None
    norm, weight = found
    if len(norm.inputs) != 1 or not single_use(rw.graph, norm.output):
        return None
    if not _fits(norm, weight, node):
        return None
    x, name, attrs = norm.inputs[0], norm.op.name, norm.attrs
    return Match(
        lambda: rw.expr(x).apply(name, _as_parameter(rw, norm, weight), **attrs), matched=[norm]
    )


@rule("add", why="the sum belongs to the norm as its bias")
def norm_bias(node: Node, rw: Rewriter) -> Match | None:
    found = either(node, "layer_norm")
    if not found:
        return None
    norm, bias = found
    if len(norm.inputs) == 3 or not single_use(rw.graph, norm.output):
        return None
    if not _fits(norm, bias, node):
        return None

    def build() -> Expr:
        if len(norm.inputs) == 2:
            weight = rw.expr(norm.inputs[1])
        else:
            shape = [d for d in _normalised_shape(norm) if isinstance(d, int)]
            ones = np.ones(shape, np.float32)
            weight = rw.expr(rw.constant(ones, norm.output.type.dtype))
        offset = _as_parameter(rw, norm, bias)
        out: Expr = rw.expr(norm.inputs[0]).apply("layer_norm", weight, offset, **norm.attrs)
        return out

    return Match(build, matched=[norm])


# ------------------------------------------------------------------------------------------ pieces
_Reading = tuple[Value, Value, list[Node], Value | None]


def _normalised(node: Node) -> list[_Reading]:
    """What `a / sqrt(b)` and `a * rsqrt(b)` say: (a, b, nodes between, None), for each way to read
    it; where a is itself a product, with one factor as a and the other in the place of None."""
    left, right = node.inputs
    out: list[_Reading] = []
    sides = ((left, right),) if node.op.name == "divide" else ((left, right), (right, left))
    for a, b in sides:
        root = made_by(b, "sqrt" if node.op.name == "divide" else "rsqrt")
        if not root:
            continue
        out.append((a, root.inputs[0], [root], None))
        times = made_by(a, "multiply")
        for x, weight in _both_ways(times) if times else ():
            if times and x.type == node.output.type:
                out.append((x, root.inputs[0], [root, times], weight))
    return out


def _both_ways(node: Node) -> tuple[tuple[Value, Value], ...]:
    left, right = node.inputs
    return (left, right), (right, left)


def _norm(
    rw: Rewriter, op: str, x: Value, axis: int, eps: float, weight: Value | None
) -> Callable[[], Expr]:
    """Builds a norm, times what its operand was multiplied with."""

    def build() -> Expr:
        out: Expr = rw.expr(x).apply(op, axis=axis, eps=eps)
        return out if weight is None else out * rw.expr(weight)

    return build


def _plus_eps(value: Value) -> tuple[Value, float, list[Node]] | None:
    """(v, eps, nodes) for v + eps."""
    add = made_by(value, "add")
    found = with_scalar(add) if add else None
    return (found[0], found[1], [add]) if add and found else None


def _square(value: Value) -> tuple[Value, Node] | None:
    """(v, node) for v * v."""
    node = made_by(value, "multiply")
    return (node.inputs[0], node) if node and node.inputs[0] is node.inputs[1] else None


def _variance(
    root: Value, centred: Value, x: Value, axes: tuple[int, ...]
) -> tuple[float, list[Node]] | None:
    """(eps, nodes) if `root` is the biased variance of x over the axes plus eps."""
    inner = _plus_eps(root)
    if not inner:
        return None
    value, eps, nodes = inner
    own = made_by(value, "variance")
    if own and own.inputs[0] is x and own.attrs["correction"] == 0:
        return (eps, [*nodes, own]) if _kept_last_axes(own) == axes else None
    mean = made_by(value, "mean")
    square = _square(mean.inputs[0]) if mean else None
    if not mean or not square or _kept_last_axes(mean) != axes:
        return None
    return (eps, [*nodes, mean, square[1]]) if square[0] is centred else None


def _kept_last_axes(fold: Node) -> tuple[int, ...]:
    """The axes of a fold, from the end, if they are the last ones and are kept; otherwise ()."""
    rank = fold.inputs[0].type.rank
    axes = axes_from_end(fold.attrs["axes"], rank)
    return axes if fold.attrs["keepdims"] and is_trailing(axes) else ()


def _normalised_shape(norm: Node) -> tuple[object, ...]:
    shape = norm.output.type.shape
    axis = norm.attrs["axis"]
    return shape[axis if axis < 0 else axis - len(shape) :]


def _fits(norm: Node, value: Value, node: Node) -> bool:
    """Whether a value has the normalised shape, up to leading ones, and leaves the norm's type."""
    if node.output.type != norm.output.type or value.type.dtype is not norm.output.type.dtype:
        return False
    wanted = _normalised_shape(norm)
    extra = value.type.rank - len(wanted)
    if extra < 0 or not all(isinstance(d, int) for d in wanted):
        return False
    return value.type.shape[extra:] == wanted and all(d == 1 for d in value.type.shape[:extra])


def _as_parameter(rw: Rewriter, norm: Node, value: Value) -> object:
    handle = rw.expr(value)
    wanted = _normalised_shape(norm)
    return handle if value.type.shape == wanted else handle.apply("reshape", shape=wanted)
