"""Reflections one column after the other, as loops: what gradients of `householder` and of
`reflections` are those of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dtype import int64
from glasshouse.ir.graph import Value
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.sources import INPUT
from glasshouse.ops.control import body_of
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pullback import pullback
from glasshouse.ops.scan import scan
from glasshouse.ops.shape import expanded, reshaped


def gradients(loop: Callable[..., Any], given: tuple[Any, ...], gs: tuple[Any, ...]) -> list[Any]:
    """Of what a loop makes of these operands, by each of them, for these cotangents of its results;
    None counts as zeros."""
    inner = GraphBuilder("reflections")
    made = loop(*[inner.input(x.type.dtype, x.type.shape) for x in given])
    graph = inner.finish(*(made if isinstance(made, tuple) else (made,)))
    seeds = [
        full_near(given[0], v.type.shape, 0.0, v.type.dtype) if g is None else g
        for g, v in zip(gs, graph.outputs, strict=True)
    ]
    back = pullback(graph)
    twin: dict[Value, Any] = dict(zip(back.inputs, (*given, *seeds), strict=True))
    builder = given[0].builder
    for node in back.nodes:
        if node.op is not INPUT:
            copy = node.op.emit(builder, [twin[v] for v in node.inputs], node.attrs)
            twin.update(zip(node.outputs, map(builder.wrap, copy.outputs), strict=True))
    return [twin[v] for v in back.outputs]


def apply(op: str, *args: Any, **attrs: Any) -> Any:
    near = next(a for a in args if hasattr(a, "builder"))
    return near.builder.wrap(REGISTRY[op].emit(near.builder, list(args), attrs).output)


def steps(size: int, body: Callable[..., Any], *state: Any) -> list[Any]:
    """The state after `body(number, *state)` for each number below `size`; and, stacked along a
    first axis, what else each of these calls gives."""

    def one(*held: Any) -> Any:
        return tuple(body(held[-1], *held[:-1]))

    numbers = arange_near(state[0], size)
    looped = body_of(one, *state, full_near(state[0], (), 0, int64))
    found = scan(*state, numbers, body=looped, carries=len(state))
    return list(found) if isinstance(found, (list, tuple)) else [found]


def mark(near: Any, size: int, number: Any) -> Any:
    """True at one place of an axis."""
    return arange_near(near, size).apply("equal", number)


def picked(x: Any, mark: Any, axis: int) -> Any:
    """The slice at a marked place, its axis kept."""
    shape = (mark.shape[0], 1) if axis == -2 else mark.shape
    return apply("where", reshaped(mark, shape), x, 0.0).apply("sum", axes=[axis], keepdims=True)


def householder_loop(a: Any) -> Any:
    """The triangle with the reflections below it, and their factors."""
    rows, columns = int(a.shape[-2]), int(a.shape[-1])
    count = min(rows, columns)
    factors = full_near(a, (*a.shape[:-2], count), 0.0, a.dtype)

    def column(number: Any, rest: Any, factors: Any) -> Any:
        here = mark(rest, columns, number)
        row = reshaped(mark(rest, rows, number), (rows, 1))
        below = reshaped(arange_near(rest, rows) > number, (rows, 1))
        whole = picked(rest, here, -1)
        first = apply("where", row, whole, 0.0).apply("sum", axes=[-2], keepdims=True)
        tail = apply("where", below, whole, 0.0)
        left = (tail * tail).apply("sum", axes=[-2], keepdims=True)
        some = left > 0.0  # else the column is as it should be, and nothing is reflected
        length = apply("where", some, first * first + left, 1.0).apply("sqrt")
        turned = apply("where", first < 0.0, length, -length)
        factor = apply("where", some, (turned - first) / turned, 0.0)
        arrow = apply("where", some, tail / apply("where", some, first - turned, 1.0), 0.0)
        reflection = apply("where", row, 1.0, arrow)
        moved = rest - factor * reflection * (reflection * rest).apply(
            "sum", axes=[-2], keepdims=True
        )
        stored = apply("where", row, apply("where", some, turned, first), whole)
        stored = apply("where", below, arrow, stored)
        later = arange_near(rest, columns) > number
        rest = apply("where", later, moved, apply("where", here, stored, rest))
        place = mark(factors, count, number)
        return rest, apply("where", place, reshaped(factor, factor.shape[:-1]), factors)

    found = steps(count, column, a, factors)
    return found[0], found[1]


def reflections_loop(a: Any, factors: Any, columns: int) -> Any:
    """The first columns of the product of all reflections."""
    rows, stored = int(a.shape[-2]), int(a.shape[-1])
    count = int(factors.shape[-1])
    places = reshaped(arange_near(a, rows), (rows, 1))
    one = places.apply("equal", arange_near(a, columns)).cast(a.dtype)
    start = expanded(one, (*a.shape[:-2], rows, columns))

    def reflect(number: Any, out: Any, a: Any, factors: Any) -> Any:
        step = count - 1 - number  # the last one is the first to act
        places = reshaped(arange_near(out, rows), (rows, 1))
        arrow = picked(a, mark(out, stored, step), -1)
        arrow = apply("where", places > step, arrow, 0.0)
        arrow = apply("where", places.apply("equal", step), 1.0, arrow)
        factor = picked(factors, mark(out, count, step), -1)
        factor = reshaped(factor, (*factor.shape, 1))
        seen = arrow.apply("matmul", out, transpose_x=True)
        return out - factor * arrow.apply("matmul", seen), a, factors

    return steps(count, reflect, start, a, factors)[0]
