"""When a change of element type can go: where nothing is lost on the way."""

from __future__ import annotations

from glasshouse.ir.dtype import UNSIGNED, Category, DType
from glasshouse.ir.graph import Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import made_by
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

# Bits of a whole number that each floating type holds exactly.
_WHOLE_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8,
               "float8_e4m3fn": 4, "float8_e5m2": 3}  # fmt: skip


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is also one of `wide`."""
    if wide is narrow:
        return True
    if narrow.category is Category.BOOL:
        return True
    if wide.category is Category.BOOL:
        return False
    if not wide.is_float:
        if narrow.is_float or (wide in UNSIGNED and narrow not in UNSIGNED):
            return False
        return wide.bits > narrow.bits
    if not narrow.is_float:
        value_bits = narrow.bits if narrow in UNSIGNED else narrow.bits - 1
        return _WHOLE_BITS[wide.name] >= value_bits
    # Types of one size hold numbers that the other does not.
    return wide.bits > narrow.bits


@rule("cast", why="it has that element type already")
def cast_to_same(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    return Match(x) if x.type == node.output.type else None


@rule("cast", why="the type between holds every value, so it changes nothing")
def cast_of_cast(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "cast")
    if not inner or not holds_all(inner.output.type.dtype, inner.inputs[0].type.dtype):
        return None
    x = inner.inputs[0]
    if x.type == node.output.type:
        return Match(x, matched=[inner])
    return Match(lambda: rw.expr(x).cast(node.attrs["dtype"]), matched=[inner])
