"""Gradients of slices of one value: a sum of slices, each padded with zeros, becomes a
concatenation, and a concatenation of all slices of a value is that value."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from glasshouse.ir.dim import Dim
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.sources import CONSTANT
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import made_by
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

_Part = tuple[int, int, Value]
"""Where a part that is not zero begins and ends along the axis."""
_LOOKED_AT = 1 << 16
"""Elements of a constant that are looked at."""


@rule("add", why="where one is not zero the other is: they lie side by side")
def sum_of_padded(node: Node, rw: Rewriter) -> Match | None:
    joined = [made_by(v, "concat") for v in node.inputs]
    left, right = joined
    if not left or not right or any(rw.graph.uses(v) != 1 for v in node.inputs):
        return None
    if left.output.type != node.output.type or right.output.type != node.output.type:
        return None
    axis = axis_of(left.attrs["axis"], node.output.type.rank)
    if axis_of(right.attrs["axis"], node.output.type.rank) != axis:
        return None
    sides = [_parts(left, axis), _parts(right, axis)]
    if sides[0] is None or sides[1] is None:
        return None
    parts = sorted((*sides[0], *sides[1]), key=lambda part: part[:2])
    if any(before[1] > after[0] for before, after in pairwise(parts)):
        return None
    size = node.output.type.shape[axis]
    assert isinstance(size, int), "it is a sum of sizes of parts"

    def build() -> Expr:
        out: list[Expr] = []
        at = 0
        for begin, end, value in parts:
            if begin > at:
                out.append(_zeros(rw, node.output, axis, begin - at))
            out.append(rw.expr(value))
            at = end
        if at < size:
            out.append(_zeros(rw, node.output, axis, size - at))
        made: Expr = out[0].apply("concat", *out[1:], axis=axis)
        return made

    return Match(build, matched=[left, right])


def _parts(joined: Node, axis: int) -> list[_Part] | None:
    """The parts that are not zero; None where a size is not known, or no part is zero."""
    out: list[_Part] = []
    at = 0
    for value in joined.inputs:
        size = value.type.shape[axis]
        if not isinstance(size, int):
            return None
        if not _is_zero(value):
            out.append((at, at + size, value))
        at += size
    return out if len(out) < len(joined.inputs) else None


def _is_zero(value: Value) -> bool:
    """Small ones are constants by now."""
    full = made_by(value, "full")
    if full:
        return bool(full.attrs["value"] == 0)
    data = value.node.attrs["data"] if value.node.op is CONSTANT else None
    return data is not None and data.size <= _LOOKED_AT and not np.any(data)


def _zeros(rw: Rewriter, like: Value, axis: int, size: int) -> Expr:
    shape: list[Dim] = list(like.type.shape)
    shape[axis] = size
    attrs: dict[str, Any] = {"shape": tuple(shape), "value": 0, "dtype": like.type.dtype}
    return rw.expr(REGISTRY["full"].emit(rw, [], attrs).outputs[0])


@rule("concat", why="all slices of a value, each moved alike, are the value moved so")
def concat_of_moved_slices(node: Node, rw: Rewriter) -> Match | None:
    axis = axis_of(node.attrs["axis"], node.output.type.rank)
    found = [_moved_slice(value, axis) for value in node.inputs]
    first = found[0]
    if first is None:
        return None
    x, along, _, order, _ = first
    for number, one in enumerate(found):
        if one is None or one[:4] != (x, along, number, order):
            return None
    if x.type.shape[along] != len(found):
        return None
    rest = [a for a in range(x.type.rank) if a != along]
    axes = [rest[a] for a in order]
    axes.insert(axis, along)
    matched = [n for one in found if one is not None for n in one[4]]
    return Match(lambda: rw.expr(x).apply("permute", axes=tuple(axes)), matched=matched)


def _moved_slice(
    value: Value, axis: int
) -> tuple[Value, int, Dim, tuple[int, ...], list[Node]] | None:
    """`value` is one element of an axis of x, its other axes in an order, with an axis of size 1
    put in: (x, that axis, the element, the order, the nodes)."""
    outer = made_by(value, "reshape")
    permute = outer and made_by(outer.inputs[0], "permute")
    inner = permute and made_by(permute.inputs[0], "reshape")
    cut = inner and made_by(inner.inputs[0], "slice")
    if not outer or not permute or not inner or not cut:
        return None
    x, part = cut.inputs[0], cut.output.type.shape
    cuts = [a for a, size in enumerate(x.type.shape) if part[a] != size]
    if len(cuts) != 1 or part[cuts[0]] != 1:
        return None
    along = cuts[0]
    if inner.output.type.shape != (*part[:along], *part[along + 1 :]):
        return None
    moved = permute.output.type.shape
    if value.type.shape != (*moved[:axis], 1, *moved[axis:]):
        return None
    order = tuple(axis_of(a, len(moved)) for a in permute.attrs["axes"])
    return x, along, cut.attrs["starts"][along], order, [outer, permute, inner, cut]
