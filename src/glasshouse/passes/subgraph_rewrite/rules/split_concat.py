"""Simplifies slices of slices, slices of concatenations, concatenations of slices of one value."""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import made_by
from glasshouse.passes.subgraph_rewrite.rule import Match, rule


def steps_of(node: Node) -> tuple[int, ...]:
    return node.attrs["steps"] or (1,) * node.inputs[0].type.rank


@rule("split", why="slices are read where they are needed, each by itself")
def split_to_slices(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    axis = axis_of(node.attrs["axis"], x.type.rank)

    def build() -> list[Expr]:
        start: Dim = 0
        out = []
        for size in node.attrs["sizes"]:
            out.append(_cut(rw, x, axis, start, start + size))
            start = start + size
        return out

    return Match(build)


@rule("slice", why="it is the whole value")
def slice_of_all(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    return Match(x) if x.type == node.output.type else None


@rule("slice", why="a slice of a slice is a slice")
def slice_of_slice(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "slice")
    if not inner:
        return None
    x = inner.inputs[0]
    inner_steps, steps = steps_of(inner), steps_of(node)
    starts, ends = [], []
    for i, size in enumerate(node.output.type.shape):
        start = inner.attrs["starts"][i] + node.attrs["starts"][i] * inner_steps[i]
        step = inner_steps[i] * steps[i]
        starts.append(start)
        # As few as there are: the last element, plus one, so that it never leaves the value.
        ends.append(start if size == 0 else start + (size - 1) * step + 1)
    both = tuple(a * b for a, b in zip(inner_steps, steps, strict=True))
    return Match(
        lambda: rw.expr(x).apply("slice", starts=starts, ends=ends, steps=both), matched=[inner]
    )


@rule("slice", why="the slice lies in one of the joined parts")
def slice_of_concat(node: Node, rw: Rewriter) -> Match | None:
    joined = made_by(node.inputs[0], "concat")
    if not joined:
        return None
    axis = axis_of(joined.attrs["axis"], node.output.type.rank)
    start, end = node.attrs["starts"][axis], node.attrs["ends"][axis]
    begin: Dim = 0
    for part in joined.inputs:
        finish = begin + part.type.shape[axis]
        if bounds(start - begin)[0] >= 0 and bounds(finish - end)[0] >= 0:
            return _slice_of_part(node, rw, joined, part, axis, begin)
        begin = finish
    return None


def _slice_of_part(
    node: Node, rw: Rewriter, joined: Node, part: Value, axis: int, begin: Dim
) -> Match | None:
    if _others(part, axis) != _others(joined.output, axis):
        return None  # symbolic sizes that are spelled differently
    starts, ends = list(node.attrs["starts"]), list(node.attrs["ends"])
    starts[axis], ends[axis] = starts[axis] - begin, ends[axis] - begin
    steps = node.attrs["steps"]
    return Match(
        lambda: rw.expr(part).apply("slice", starts=starts, ends=ends, steps=steps),
        matched=[joined],
    )


def _others(value: Value, axis: int) -> Sequence[Dim]:
    return (*value.type.shape[:axis], *value.type.shape[axis + 1 :])


@rule("concat", why="one part needs no joining")
def concat_of_one(node: Node, rw: Rewriter) -> Match | None:
    axis = axis_of(node.attrs["axis"], node.output.type.rank)
    parts = [v for v in node.inputs if v.type.shape[axis] != 0]
    if len(parts) == 1 and parts[0].type == node.output.type:
        return Match(parts[0])
    if 0 < len(parts) < len(node.inputs):
        return Match(lambda: _joined(rw, parts, axis))
    return None


@rule("concat", why="parts that are joined in between need not be")
def concat_of_concat(node: Node, rw: Rewriter) -> Match | None:
    axis = axis_of(node.attrs["axis"], node.output.type.rank)
    parts: list[Value] = []
    matched: list[Node] = []
    for value in node.inputs:
        inner = made_by(value, "concat")
        same = inner and axis_of(inner.attrs["axis"], value.type.rank) == axis
        if inner and same and rw.graph.uses(value) == 1:
            parts += inner.inputs
            matched.append(inner)
        else:
            parts.append(value)
    return Match(lambda: _joined(rw, parts, axis), matched=matched) if matched else None


@rule("concat", why="neighbouring slices of one value are one slice of it")
def concat_of_slices(node: Node, rw: Rewriter) -> Match | None:
    axis = axis_of(node.attrs["axis"], node.output.type.rank)
    parts: list[Value | tuple[Node, Dim, Dim]] = []
    matched: list[Node] = []
    for value in node.inputs:
        inner = made_by(value, "slice")
        last = parts[-1] if parts else None
        if inner and isinstance(last, tuple) and _follows(last, inner, axis):
            parts[-1] = (last[0], last[1], inner.attrs["ends"][axis])
            matched += [last[0], inner]
        elif inner and steps_of(inner)[axis] == 1:
            parts.append((inner, inner.attrs["starts"][axis], inner.attrs["ends"][axis]))
        else:
            parts.append(value)
    if not matched:
        return None

    def build() -> Expr:
        out: list[Value] = []
        for part in parts:
            if isinstance(part, Value):
                out.append(part)
                continue
            slice_, start, end = part
            starts, ends = list(slice_.attrs["starts"]), list(slice_.attrs["ends"])
            starts[axis], ends[axis] = start, end
            steps = slice_.attrs["steps"]
            x = rw.expr(slice_.inputs[0])
            out.append(x.apply("slice", starts=starts, ends=ends, steps=steps).value)
        return _joined(rw, out, axis)

    return Match(build, matched=list(dict.fromkeys(matched)))


def _follows(last: tuple[Node, Dim, Dim], inner: Node, axis: int) -> bool:
    first, _, end = last
    if first.inputs[0] is not inner.inputs[0] or inner.attrs["starts"][axis] != end:
        return False
    if steps_of(first) != steps_of(inner):
        return False
    rank = inner.output.type.rank
    return all(
        first.attrs[key][i] == inner.attrs[key][i]
        for key in ("starts", "ends")
        for i in range(rank)
        if i != axis
    )


@rule("pad", why="nothing is added")
def pad_of_nothing(node: Node, rw: Rewriter) -> Match | None:
    return Match(node.inputs[0]) if all(p == 0 for p in node.attrs["padding"]) else None


@rule("conv", why="a convolution pads with zeros itself")
def conv_of_pad(node: Node, rw: Rewriter) -> Match | None:
    pad = made_by(node.inputs[0], "pad")
    if not pad or pad.attrs["mode"] != "constant" or pad.attrs["value"] != 0:
        return None
    rank = pad.output.type.rank
    extra = pad.attrs["padding"]
    if any(extra[i] != 0 for i in (0, 1, rank, rank + 1)):
        return None  # batch or channels
    n = rank - 2
    if not all(isinstance(p, int) for p in extra):
        return None
    own = tuple(node.attrs["padding"]) or (0,) * n
    own = own * n if len(own) == 1 else own
    both = own if len(own) == 2 * n else own * 2
    sides = (*extra[2:rank], *extra[rank + 2 :])
    padding = tuple(a + b for a, b in zip(both, sides, strict=True))
    x, weight = pad.inputs[0], node.inputs[1]
    attrs = {**node.attrs, "padding": padding}
    return Match(lambda: rw.expr(x).apply("conv", rw.expr(weight), **attrs), matched=[pad])


def _cut(rw: Rewriter, x: Value, axis: int, start: Dim, end: Dim) -> Expr:
    starts: list[Dim] = [0] * x.type.rank
    ends = list(x.type.shape)
    starts[axis], ends[axis] = start, end
    out: Expr = rw.expr(x).apply("slice", starts=starts, ends=ends)
    return out


def _joined(rw: Rewriter, parts: Sequence[Value], axis: int) -> Expr:
    first = rw.expr(parts[0])
    if len(parts) == 1:
        return first
    out: Expr = first.apply("concat", *[rw.expr(p) for p in parts[1:]], axis=axis)
    return out
