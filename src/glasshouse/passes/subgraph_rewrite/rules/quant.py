"""Removes dequantize-quantize pairs around ops that only move elements: these move the bytes."""

from __future__ import annotations

import numpy as np

from glasshouse.ir.dtype import int8, uint8
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import array_of, made_by, single_use
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

# What moves elements, or picks one of several by its size, does the same with the bytes that they
# stand for, as long as a larger byte is a larger number (scales are above 0).
_LEADS_ON = ("multiply", "quantize", "matmul")
_MOVES = ("reshape", "permute", "rearrange", "slice", "max_pool")


@rule("quantize", why="the same scale and zero point give the same bytes back")
def bytes_again(node: Node, rw: Rewriter) -> Match | None:
    """(q - zero) * scale / scale + zero: the product errs by 2**-24 of itself, which is at most 255
    steps, so the quotient rounds to the step that it came from."""
    moves: list[Node] = []
    value = node.inputs[0]
    while (move := made_by(value, *_MOVES)) is not None:
        moves.append(move)
        value = move.inputs[0]
    inner = made_by(value, "dequantize")
    if inner is None or not _same_bytes(inner, node):
        return None

    def moved() -> Expr:
        out = rw.expr(inner.inputs[0])
        for move in reversed(moves):
            out = out.apply(move.op.name, **move.attrs)
        return out

    return Match(moved, matched=[*moves, inner])


@rule("dequantize", "multiply", "quantize", why="a product turns rows itself, element by element")
def turned_later(node: Node, rw: Rewriter) -> Match | None:
    """Ops with numbers do not care where an element lies, a product reads rows turned or not: so of
    quantised keys, which come turned, the last two axes are turned last."""
    turn = made_by(node.inputs[0], "permute")
    if turn is None or not _only_numbers(node) or not single_use(rw.graph, turn.output):
        return None
    before = turn.inputs[0]
    if node.op.name == "multiply" and not made_by(before, "dequantize"):
        return None
    if node.op.name == "dequantize" and not all(u.op.name in _LEADS_ON for u in node.users):
        return None
    order = tuple(axis_of(a, before.type.rank) for a in turn.attrs["axes"])
    if len(order) < 2 or order[-2] != len(order) - 1:
        return None

    def turned() -> Expr:
        out = rw.expr(before).apply("permute", axes=(*order[:-2], order[-1], order[-2]))
        out = out.apply(node.op.name, *(rw.expr(v) for v in node.inputs[1:]), **node.attrs)
        last = len(order) - 1
        swapped: Expr = out.apply("permute", axes=(*range(last - 1), last, last - 1))
        return swapped

    return Match(turned, matched=[turn])


def _only_numbers(node: Node) -> bool:
    """Whether a node computes from its first operand and numbers alone."""
    return node.attrs.get("axis") is None and all(v.type.numel == 1 for v in node.inputs[1:])


def _same_bytes(inner: Node, outer: Node) -> bool:
    dtype = outer.output.type.dtype
    if dtype not in (int8, uint8) or inner.inputs[0].type.dtype is not dtype:
        return False
    if inner.attrs["axis"] is not None or outer.attrs["axis"] is not None:
        return False
    if outer.attrs["low"] is not None or outer.attrs["high"] is not None:
        return False
    for one, other in zip(inner.inputs[1:], outer.inputs[1:], strict=True):
        first, second = array_of(one), array_of(other)
        if first is None or second is None or not np.array_equal(first, second):
            return False
    scale = array_of(inner.inputs[1])
    assert scale is not None  # it was compared above
    # Normal, and so are 255 steps: otherwise a product is cut off.
    return bool(np.finfo(scale.dtype).tiny <= scale <= np.finfo(scale.dtype).max / 256)
