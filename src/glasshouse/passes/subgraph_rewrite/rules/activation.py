"""Which small graphs are an activation: sigmoid, SiLU, both forms of GELU, hard swish."""

from __future__ import annotations

import math

from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import either, is_number, made_by, product_of, with_scalar
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


@rule("divide", why="1 / (1 + exp(-x)) is the sigmoid of x; over it, x is its SiLU")
def recognise_sigmoid(node: Node, rw: Rewriter) -> Match | None:
    above, below = node.inputs
    found = _one_plus(below)
    exp = made_by(found[0], "exp") if found else None
    negative = _negated(exp.inputs[0]) if exp else None
    if not found or not exp or not negative:
        return None
    x, inner = negative
    if x.type != node.output.type:
        return None
    matched = [found[1], exp, inner]
    if is_number(above, 1.0):
        return Match(lambda: rw.expr(x).apply("sigmoid"), matched=matched, closed=True)
    if above is x:
        return Match(lambda: rw.expr(x).apply("silu"), matched=matched, closed=True)
    return None


@rule("multiply", why="x * sigmoid(x) is the SiLU of x")
def recognise_silu(node: Node, rw: Rewriter) -> Match | None:
    found = either(node, "sigmoid")
    if not found or found[0].inputs[0] is not found[1]:
        return None
    return Match(lambda: rw.expr(found[1]).apply("silu"), matched=[found[0]], closed=True)


@rule("multiply", why="x * (1 + erf(x / sqrt(2))) / 2 is the GELU of x")
def recognise_gelu(node: Node, rw: Rewriter) -> Match | None:
    return _gelu(node, rw, "erf", "none")


@rule("multiply", why="x * (1 + tanh(0.798 * (x + 0.0447 * x^3))) / 2 is the tanh form of GELU")
def recognise_gelu_tanh(node: Node, rw: Rewriter) -> Match | None:
    return _gelu(node, rw, "tanh", "tanh")


@rule("multiply", why="x * sigmoid(2 z) is x * (1 + tanh(z)) / 2: the tanh form of GELU")
def recognise_gelu_sigmoid(node: Node, rw: Rewriter) -> Match | None:
    found = either(node, "sigmoid")
    if not found or found[1].type != node.output.type:
        return None
    sigmoid, x = found
    matched = _tanh_argument(sigmoid, x, 2.0)
    if matched is None:
        return None
    return Match(
        lambda: rw.expr(x).apply("gelu", approximate="tanh"),
        matched=[sigmoid, *matched],
        closed=True,
    )


@rule("multiply", "divide", why="x * clip(x + 3, 0, 6) / 6 is the hard swish of x")
def recognise_hardswish(node: Node, rw: Rewriter) -> Match | None:
    if node.op.name == "divide":
        return None  # by a constant: it is a product soon
    factors, number, nodes = product_of(node.output)
    for ramp, x in _pairs(factors):
        clip = made_by(ramp, "clip")
        plus = made_by(clip.inputs[0], "add") if clip else None
        found = with_scalar(plus) if plus else None
        if not clip or not plus or not found or found[0] is not x or abs(found[1] - 3) > 1e-6:
            continue
        if (clip.attrs["low"], clip.attrs["high"]) == (0, 6) and abs(number - 1 / 6) < 1e-6:
            return Match(
                lambda x=x: rw.expr(x).apply("hardswish"),  # type: ignore[misc] # bound now
                matched=[*nodes[1:], clip, plus],
                closed=True,
            )
    return None


def _gelu(node: Node, rw: Rewriter, inner_op: str, form: str) -> Match | None:
    factors, number, nodes = product_of(node.output)
    for term, x in _pairs(factors):
        found = _one_plus_scaled(term)
        if not found or found[0].node.op.name != inner_op or x.type != node.output.type:
            continue
        inner, weight, plus, sign = found
        look = _erf_argument if form == "none" else _tanh_argument
        matched = look(inner.node, x, sign)
        if matched is None or abs(number * weight - 0.5) > 1e-5:
            continue
        return Match(
            lambda x=x: rw.expr(x).apply("gelu", approximate=form),  # type: ignore[misc] # bound now
            matched=[*nodes[1:], *plus, inner.node, *matched],
            closed=True,
        )
    return None


def _erf_argument(erf: Node, x: Value, times: float = 1.0) -> list[Node] | None:
    """The nodes of `times` * x / sqrt(2)."""
    factors, number, nodes = product_of(erf.inputs[0])
    if len(factors) == 1 and factors[0] is x and abs(number - times * math.sqrt(0.5)) < 1e-5:
        return nodes
    return None


def _tanh_argument(tanh: Node, x: Value, times: float = 1.0) -> list[Node] | None:
    """The nodes of `times` * scale * (x + cubic * x^3), in any order, or multiplied out."""
    scale, cubic = times * math.sqrt(2 / math.pi), 0.044715
    factors, number, nodes = product_of(tanh.inputs[0])
    if len(factors) == 1:
        found = _x_and_cube(factors[0], x)
        if found and abs(number * found[0] - scale) < 1e-5 and _near(found[1] / found[0], cubic):
            return [*nodes, *found[2]]
    if len(factors) == 2 and x in factors:  # x * (scale + scale * cubic * x^2)
        other = factors[0] if factors[1] is x else factors[1]
        add = made_by(other, "add")
        plus = with_scalar(add) if add else None
        square, weight, inner = product_of(plus[0]) if plus else ([], 0.0, [])
        if add and plus and len(square) == 2 and square[0] is x and square[1] is x:
            flat = abs(number * plus[1] - scale) < 1e-5
            if flat and _near(weight / plus[1], cubic):
                return [*nodes, add, *inner]
    return None


def _x_and_cube(value: Value, x: Value) -> tuple[float, float, list[Node]] | None:
    """(a, b, nodes) for a * x + b * x^3."""
    add = made_by(value, "add")
    if not add:
        return None
    weights: dict[int, float] = {}
    matched = [add]
    for term in add.inputs:
        factors, number, nodes = product_of(term)
        if any(f is not x for f in factors):
            return None
        weights[len(factors)] = number
        matched += nodes
    return (weights[1], weights[3], matched) if set(weights) == {1, 3} else None


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 1e-5


def _pairs(factors: list[Value]) -> list[tuple[Value, Value]]:
    if len(factors) != 2:
        return []
    a, b = factors
    return [(a, b), (b, a)]


def _one_plus(value: Value) -> tuple[Value, Node] | None:
    """(v, node) for v + 1."""
    add = made_by(value, "add")
    found = with_scalar(add) if add else None
    return (found[0], add) if add and found and _near(found[1], 1.0) else None


def _one_plus_scaled(value: Value) -> tuple[Value, float, list[Node], float] | None:
    """(v, w, nodes, sign) for w * (1 + sign * v), also written w + w * sign * v; v is odd, so that
    the sign may stand in its argument."""
    add = made_by(value, "add", "subtract")
    found = with_scalar(add) if add else None
    if not add or not found:
        return None
    other, weight = found
    factors, number, nodes = product_of(other)
    if add.op.name == "subtract":
        if other is add.inputs[0]:
            return None  # minus a number: it is a sum soon
        number = -number
    if len(factors) == 1 and _near(abs(number), abs(weight)) and number:
        return factors[0], weight, [add, *nodes], 1.0 if number * weight > 0 else -1.0
    return None


def _negated(value: Value) -> tuple[Value, Node] | None:
    """(v, node) for -v, also written v * -1."""
    node = made_by(value, "negative")
    if node:
        return node.inputs[0], node
    node = made_by(value, "multiply")
    found = with_scalar(node) if node else None
    return (found[0], node) if node and found and found[1] == -1 else None
