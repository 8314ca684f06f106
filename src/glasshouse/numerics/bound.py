"""The rounding error that a kernel may have: what its element type, its length and its data allow.

    4 * sqrt(length) * (unit * largest + moved)

`unit` is half a unit in the last place of the narrowest type that the kernel computes in, `length`
how many elements its longest sum adds or, if more, how many elementwise ops it has, `largest` the
largest element of the result, and `moved` how far the result goes when every operand is off by one
unit at random. The last term is what makes the bound fair: a sum that cancels to nothing is as
uncertain as its terms, a product of safe numbers is not. Adding n numbers one after the other in a
random walk errs by sqrt(n) of these, and 4 is the room that blocked sums and approximated functions
(exp, erf: 2 units) take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from glasshouse.ir.dtype import (
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
)
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.numerics.widen import Array

UNIT = {
    float64: 2.0**-53, float32: 2.0**-24, float16: 2.0**-11, bfloat16: 2.0**-9,
    float8_e4m3fn: 2.0**-4, float8_e5m2: 2.0**-3,
}  # fmt: skip
ROOM = 4.0
WINOGRAD = 2e-5
"""Of the largest result: what the choice of a variant allows to transforms (`tolerance`)."""


def unit_of(nodes: Iterable[Node]) -> float:
    """The unit of the narrowest floating type among the results of ops."""
    return max((UNIT.get(v.type.dtype, 0.0) for n in nodes for v in n.outputs), default=0.0)


def length_of(nodes: Iterable[Node], sizes: dict[str, int]) -> int:
    """How many elements the longest sum among these ops adds, at most, or how many elementwise ops
    there are: each rounds once."""
    nodes = list(nodes)
    longest = max(1, sum(n.op.kind is Kind.ELEMENTWISE for n in nodes))
    for node in nodes:
        if node.op.kind not in (Kind.REDUCTION, Kind.CONTRACTION) and node.op.family != "norm":
            continue
        into = max((_count(v.type.shape, sizes) for v in node.outputs), default=1)
        given = [_count(v.type.shape, sizes) for v in node.inputs]
        if node.op.kind is Kind.CONTRACTION and len(given) > 1:
            # m*k times k*n into m*n: k * k = (m*k) * (k*n) / (m*n); for others, more than enough.
            longest = max(longest, math.isqrt(max(given[0] * given[1] // max(into, 1), 1)))
            if node.op.name == "products":  # of several weights
                longest = max(longest, _count(node.inputs[0].type.shape[-1:], sizes))
        else:
            longest = max(longest, max(given, default=1) // max(min(into, max(given)), 1))
            if node.op.family == "norm":
                last = node.inputs[0].type.shape[-1:] or (1,)
                longest = max(longest, _count(last, sizes))
    return longest


def nudged(operands: Sequence[Array], unit: float) -> list[Array]:
    """The operands, each element off by one unit up or down; always the same ones."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        return [
            a * (1.0 + unit * (2.0 * rng.integers(0, 2, a.shape) - 1.0))
            if a.dtype.kind == "f"
            else a
            for a in operands
        ]


def bound(exact: Array, moved: Array, length: int, unit: float, variant: str = "") -> float:
    """The largest error that rounding explains, as an absolute size."""
    finite = np.isfinite(exact)
    if not np.any(finite):
        return 0.0
    largest = float(np.max(np.abs(exact), where=finite, initial=0.0))
    with np.errstate(all="ignore"):
        apart = np.abs(np.where(finite & np.isfinite(moved), moved - exact, 0.0))
    room = ROOM * math.sqrt(length) * (unit * largest + float(np.max(apart)))
    return max(room, WINOGRAD * largest) if variant.startswith("winograd") else room


def members(node: Node) -> list[Node]:
    """The ops of a kernel, also those of graphs inside it."""
    out, pending = [], [node]
    while pending:
        one = pending.pop()
        bodies = [b for b in one.attrs.values() if isinstance(b, Graph)]
        out.append(one)
        pending += [n for b in bodies for n in b.nodes]
    return out


def _count(shape: Sequence[object], sizes: dict[str, int]) -> int:
    from glasshouse.ir.dim import SymDim, evaluate

    total = 1
    for dim in shape:
        total *= evaluate(dim, sizes) if isinstance(dim, (int, SymDim)) else 1
    return total
