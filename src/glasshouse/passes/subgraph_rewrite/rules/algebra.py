"""The arithmetic: identities, inverse pairs, constants gathered.

What would hide a NaN or an infinity (x * 0, x - x, exp(log(x))) is left alone. Signs of zeros are
not kept: -0.0 + 0 stays -0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import (
    array_of,
    either,
    is_constant,
    is_filled,
    is_number,
    made_by,
    scalar_of,
    single_use,
    with_constant,
)  # fmt: skip
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

_NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "power": 1.0}
_COMMUTES = ("add", "multiply", "maximum", "minimum")


@rule("add", "subtract", "multiply", "divide", "power", why="the constant changes nothing")
def neutral_element(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    neutral = _NEUTRAL[node.op.name]
    if left.type == node.output.type and is_filled(right, neutral):
        return Match(left)
    both_ways = node.op.name in _COMMUTES
    if both_ways and right.type == node.output.type and is_filled(left, neutral):
        return Match(right)
    return None


@rule(*_COMMUTES, why="constants stand on the right, where other rules look for them")
def constant_right(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    if is_constant(left) and not is_constant(right):
        return Match(lambda: rw.expr(right).apply(node.op.name, rw.expr(left)))
    return None


@rule("subtract", why="subtracting a constant is adding its negative")
def subtract_constant(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    if not is_constant(right) or is_constant(left) or not right.type.dtype.is_float:
        return None
    return Match(lambda: rw.expr(left) + (-rw.expr(right)))


@rule("subtract", why="0 - x is -x")
def zero_minus(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    if right.type == node.output.type and right.type.dtype.is_float and is_filled(left, 0.0):
        return Match(lambda: -rw.expr(right))
    return None


@rule("divide", why="dividing by a constant is multiplying by its inverse")
def divide_constant(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    data = array_of(right)
    if data is None or is_constant(left) or data.dtype.kind != "f" or not data.size:
        return None
    # The inverse must be a normal number too: that of 1e-40 is infinite in float32.
    with np.errstate(all="ignore"):
        inverse = (1.0 / data.astype(np.float64)).astype(data.dtype)
    if not np.all(np.isfinite(inverse) & (np.abs(inverse) >= np.finfo(data.dtype).tiny)):
        return None
    return Match(lambda: rw.expr(left) * rw.expr(rw.constant(inverse, right.type.dtype)))


@rule("add", "multiply", why="two constants become one")
def gather_constants(node: Node, rw: Rewriter) -> Match | None:
    found = with_constant(node)
    inner = made_by(found[0], node.op.name) if found else None
    deeper = with_constant(inner) if inner else None
    if not found or not inner or not deeper or not found[0].type.dtype.is_float:
        return None
    (_, outer_constant), (x, inner_constant) = found, deeper
    name = node.op.name
    if not _gatherable(name, outer_constant, inner_constant):
        return None
    return Match(
        lambda: rw.expr(x).apply(
            name, rw.expr(inner_constant).apply(name, rw.expr(outer_constant))
        ),
        matched=[inner],
    )


@rule("add", why="constants of both sums become one")
def gather_sums(node: Node, rw: Rewriter) -> Match | None:
    left, right = (made_by(v, "add") for v in node.inputs)
    if not left or not right or left is right or not node.output.type.dtype.is_float:
        return None
    first, second = with_constant(left), with_constant(right)
    if not first or not second or not _gatherable("add", first[1], second[1]):
        return None
    if not (single_use(rw.graph, left.output) and single_use(rw.graph, right.output)):
        return None
    if first[0].type != left.output.type or second[0].type != right.output.type:
        return None
    return Match(
        lambda: (rw.expr(first[0]) + rw.expr(second[0])) + (rw.expr(first[1]) + rw.expr(second[1])),
        matched=[left, right],
    )


def _gatherable(op: str, a: Value, b: Value) -> bool:
    """Whether two constants make one that takes no more memory than the larger, and is finite."""
    x, y = array_of(a), array_of(b)
    if x is None or y is None:
        return False
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    if int(np.prod(shape)) > max(x.size, y.size):
        return False
    with np.errstate(all="ignore"):
        return bool(np.all(np.isfinite(x + y if op == "add" else x * y)))


_INVERSE = {"negative": "negative", "logical_not": "logical_not", "bitwise_not": "bitwise_not"}


@rule("negative", "logical_not", "bitwise_not", why="applied twice, it undoes itself")
def inverse_pair(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], _INVERSE[node.op.name])
    if inner and inner.inputs[0].type == node.output.type:
        return Match(inner.inputs[0], matched=[inner])
    return None


@rule("add", why="adding a negative is subtracting")
def add_negative(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    inner = made_by(right, "negative")
    if inner and not is_constant(inner.inputs[0]) and single_use(rw.graph, right):
        return Match(lambda: rw.expr(left) - rw.expr(inner.inputs[0]), matched=[inner])
    return None


@rule("relu", "absolute", why="what is never negative stays as it is")
def already_positive(node: Node, rw: Rewriter) -> Match | None:
    inner = node.inputs[0].node
    if not inner.op.traits.never_negative or not node.output.type.dtype.is_float:
        return None  # the absolute of the least integer is negative
    return Match(node.inputs[0], matched=[inner])


@rule("absolute", why="the sign does not matter")
def absolute_of_negative(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "negative")
    if not inner or not inner.output.type.dtype.is_float:
        return None
    return Match(lambda: abs(rw.expr(inner.inputs[0])), matched=[inner])


@rule("maximum", why="max(x, 0) is relu")
def maximum_to_relu(node: Node, rw: Rewriter) -> Match | None:
    x, other = node.inputs
    if x.type == node.output.type and x.type.dtype.is_float and is_filled(other, 0.0):
        return Match(lambda: rw.expr(x).apply("relu"))
    return None


@rule("maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
      why="both operands are the same")  # fmt: skip
def same_operands(node: Node, rw: Rewriter) -> Match | None:
    left, right = node.inputs
    return Match(left) if left is right and left.type == node.output.type else None


@rule("where", why="both branches are the same, or the condition is constant")
def where_decided(node: Node, rw: Rewriter) -> Match | None:
    condition, yes, no = node.inputs
    if yes is no and yes.type == node.output.type:
        return Match(yes)
    for branch, wanted in ((yes, 1.0), (no, 0.0)):
        if branch.type == node.output.type and is_filled(condition, wanted):
            return Match(branch)
    return None


@rule("power", why="small whole powers are products, halves are roots")
def power_to_product(node: Node, rw: Rewriter) -> Match | None:
    x, exponent = node.inputs
    number = scalar_of(exponent)
    if number is None or not x.type.dtype.is_float or x.type != node.output.type:
        return None
    makers: dict[float, Any] = {
        2.0: lambda e: e * e,
        3.0: lambda e: e * e * e,
        0.5: lambda e: e.apply("sqrt"),
        -0.5: lambda e: e.apply("rsqrt"),
        -1.0: lambda e: 1.0 / e,
    }
    make = makers.get(number)
    return Match(lambda: make(rw.expr(x))) if make else None


@rule("divide", why="1 / sqrt(x) is rsqrt(x)")
def inverse_root(node: Node, rw: Rewriter) -> Match | None:
    one, below = node.inputs
    root = made_by(below, "sqrt")
    if root and below.type == node.output.type and is_number(one, 1.0):
        return Match(lambda: rw.expr(root.inputs[0]).apply("rsqrt"), matched=[root])
    return None


@rule("multiply", why="multiplying by an inverse is dividing")
def multiply_by_inverse(node: Node, rw: Rewriter) -> Match | None:
    found = either(node, "divide")
    if not found or not is_number(found[0].inputs[0], 1.0) or is_constant(found[1]):
        return None
    inverse, x = found
    if not single_use(rw.graph, inverse.output):
        return None
    return Match(lambda: rw.expr(x) / rw.expr(inverse.inputs[1]), matched=[inverse])


@rule("clip", why="one interval instead of two")
def clip_of_clip(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "clip")
    if not inner:
        return None
    lows = [a for a in (inner.attrs["low"], node.attrs["low"]) if a is not None]
    highs = [a for a in (inner.attrs["high"], node.attrs["high"]) if a is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None and low > high:
        return None  # the order of clipping decides then
    x = inner.inputs[0]
    flat = inner.attrs["flat_bounds"] or node.attrs["flat_bounds"]
    return Match(
        lambda: rw.expr(x).apply("clip", low=low, high=high, flat_bounds=flat), matched=[inner]
    )


@rule("dropout", why="nothing is dropped")
def dropout_of_nothing(node: Node, rw: Rewriter) -> Match | None:
    return Match(node.inputs[0]) if node.attrs["p"] == 0 else None


@rule("floor", "ceil", "round", "trunc", "sign", why="applied twice, it is applied once")
def idempotent(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], node.op.name)
    return Match(inner.output, matched=[inner]) if inner else None
