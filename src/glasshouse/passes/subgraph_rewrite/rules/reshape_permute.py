"""How chains of reshapes and permutes become one, and how constants pass through them.

A `rearrange` is a permute and a reshape; taken apart, its halves meet their neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.ir.dim import product
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.types import Shape
from glasshouse.ops.shape import inverse
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import (
    Array,
    array_of,
    is_constant,
    made_by,
    single_use,
    with_constant,
)
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

_VIEWS = ("reshape", "permute")


def order_of(node: Node) -> tuple[int, ...]:
    """The axes of a permute, none of them negative."""
    axes = node.attrs["axes"]
    return tuple(axis_of(a, len(axes)) for a in axes)


@rule("reshape", why="it has that shape already")
def reshape_to_same(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    return Match(x) if x.type == node.output.type else None


@rule("reshape", why="only the last shape matters")
def reshape_of_reshape(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "reshape")
    if not inner:
        return None
    x = inner.inputs[0]
    return Match(lambda: rw.expr(x).apply("reshape", shape=node.attrs["shape"]), matched=[inner])


@rule("permute", why="the order stays")
def permute_to_same(node: Node, rw: Rewriter) -> Match | None:
    order = order_of(node)
    return Match(node.inputs[0]) if order == tuple(range(len(order))) else None


@rule("permute", why="two orders make one")
def permute_of_permute(node: Node, rw: Rewriter) -> Match | None:
    inner = made_by(node.inputs[0], "permute")
    if not inner:
        return None
    first, second, x = order_of(inner), order_of(node), inner.inputs[0]
    axes = tuple(first[a] for a in second)
    return Match(lambda: rw.expr(x).apply("permute", axes=axes), matched=[inner])


@rule("permute", why="only axes of size 1 move, so the elements stay in order")
def permute_to_reshape(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    moving = [a for a in order_of(node) if x.type.shape[a] != 1]
    if moving != sorted(moving):
        return None
    return Match(lambda: rw.expr(x).apply("reshape", shape=node.output.type.shape))


@rule("rearrange", why="a rearrange is a permute and a reshape")
def rearrange_apart(node: Node, rw: Rewriter) -> Match | None:
    x = node.inputs[0]
    order = tuple(axis_of(a, x.type.rank) for group in node.attrs["plan"] for a in group)
    return Match(
        lambda: (
            rw.expr(x).apply("permute", axes=order).apply("reshape", shape=node.output.type.shape)
        )
    )


@rule("reshape", "permute", "expand", "slice", "split", "concat", "flip", "roll",
      "windows",
      why="elements that are all equal stay equal wherever they move")  # fmt: skip
def move_of_full(node: Node, rw: Rewriter) -> Match | None:
    if len(node.outputs) != 1 or not node.inputs:
        return None
    sources = [made_by(v, "full") for v in node.inputs]
    values = {s.attrs["value"] for s in sources if s}
    if None in sources or len(values) != 1:
        return None
    type = node.output.type
    full = sources[0].op if sources[0] else node.op
    attrs = {"shape": type.shape, "value": values.pop(), "dtype": type.dtype}
    return Match(
        lambda: rw.expr(full.emit(rw, [], attrs).output), matched=[s for s in sources if s]
    )


@rule("matmul", why="matmul reads transposed operands at no cost")
def matmul_of_transposed(node: Node, rw: Rewriter) -> Match | None:
    operands = list(node.inputs)
    flags = [node.attrs["transpose_x"], node.attrs["transpose_y"]]
    matched: list[Node] = []
    for i, value in enumerate(node.inputs):
        inner = made_by(value, "permute")
        rank = value.type.rank
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        if inner and rank >= 2 and order_of(inner) == swapped:
            operands[i] = inner.inputs[0]
            flags[i] = not flags[i]
            matched.append(inner)
    if not matched:
        return None
    return Match(
        lambda: rw.expr(operands[0]).apply(
            "matmul", rw.expr(operands[1]), transpose_x=flags[0], transpose_y=flags[1]
        ),
        matched=matched,
    )


@rule("permute", why="a product transposed is the product of its operands transposed, swapped")
def permute_of_matmul(node: Node, rw: Rewriter) -> Match | None:
    """Not of weights: as the second operand they are prepared once."""
    inner = made_by(node.inputs[0], "matmul")
    rank = node.output.type.rank
    if not inner or order_of(node) != (*range(rank - 2), rank - 1, rank - 2):
        return None
    x, y = inner.inputs
    if not single_use(rw.graph, inner.output) or not x.type.rank == y.type.rank == rank:
        return None
    if is_constant(x) or is_constant(y):
        return None
    flags = {
        "transpose_x": not inner.attrs["transpose_y"],
        "transpose_y": not inner.attrs["transpose_x"],
    }
    return Match(lambda: rw.expr(y).apply("matmul", rw.expr(x), **flags), matched=[inner])


@rule("reshape", why="each matrix is multiplied alone, however they are counted")
def reshape_of_matmul(node: Node, rw: Rewriter) -> Match | None:
    """Where an operand was counted that way before: heads that were joined with the batch.

    Rows that were joined for one matrix of weights leave that as it is.
    """
    inner = made_by(node.inputs[0], "matmul")
    shape = node.output.type.shape
    if not inner or len(shape) < 3 or shape[-2:] != inner.output.type.shape[-2:]:
        return None
    lead = inner.output.type.shape[:-2]
    if any(v.type.shape[:-2] != lead for v in inner.inputs):
        return None
    wanted = [(*shape[:-2], *v.type.shape[-2:]) for v in inner.inputs]
    sources = [made_by(v, "reshape") for v in inner.inputs]
    if not single_use(rw.graph, inner.output) or not any(
        s and s.inputs[0].type.shape == w for s, w in zip(sources, wanted, strict=True)
    ):
        return None

    def counted() -> Any:
        x, y = (rw.expr(v) for v in inner.inputs)
        by = y.apply("reshape", shape=wanted[1]) if lead else y
        return x.apply("reshape", shape=wanted[0]).apply("matmul", by, **inner.attrs)

    return Match(counted, matched=[inner])


# ------------------------------------------------------------------ constants move towards weights
@rule("add", "multiply", why="next to the weights the constant can be folded into them")
def constant_before_view(node: Node, rw: Rewriter) -> Match | None:
    found = with_constant(node)
    view = made_by(found[0], *_VIEWS) if found else None
    if not found or not view or not single_use(rw.graph, view.output):
        return None
    if view.output.type != node.output.type or not ends_in_weights(rw.graph, view.inputs[0]):
        return None
    data = array_of(found[1])
    moved = None if data is None else _behind(view, data)
    if moved is None:
        return None
    x, attrs, name = view.inputs[0], view.attrs, view.op.name
    dtype = found[1].type.dtype
    return Match(
        lambda: (
            rw.expr(x).apply(node.op.name, rw.expr(rw.constant(moved, dtype))).apply(name, **attrs)
        ),
        matched=[view],
    )


def ends_in_weights(graph: Graph, value: Value) -> bool:
    """Whether a value is made with constant weights, up to views and further constants."""
    for _ in range(8):
        node = value.node
        if not single_use(graph, value):
            return False
        if node.op.name in ("matmul", "conv"):
            return is_constant(node.inputs[1])
        plain = node.op.name in ("add", "multiply") and is_constant(node.inputs[1])
        if not plain and node.op.name not in _VIEWS:
            return False
        value = node.inputs[0]
    return False


def _behind(view: Node, data: Array) -> Array | None:
    """What is combined after a view, as it must be combined before it; None if it cannot be."""
    if data.size == 1:
        return data.reshape(())
    before, after = view.inputs[0].type.shape, view.output.type.shape
    data = data.reshape((1,) * (len(after) - data.ndim) + data.shape)
    if view.op.name == "permute":
        return np.ascontiguousarray(data.transpose(inverse(order_of(view))))
    return _before_reshape(data, before, after)


def _before_reshape(data: Array, before: Shape, after: Shape) -> Array | None:
    """A block of last axes that the reshape regroups among themselves can be regrouped back."""
    lead = next(i for i, size in enumerate(data.shape) if size != 1)
    if data.shape[lead:] != after[lead:]:
        return None  # repeated along an axis inside the block
    for cut in range(len(before) + 1):
        inner = before[cut:]
        if product(before[:cut]) == product(after[:lead]) and product(inner) == data.size:
            return data.reshape([int(d) for d in inner if isinstance(d, int)])
    return None
