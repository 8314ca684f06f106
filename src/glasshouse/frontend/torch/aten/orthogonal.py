"""How ATen's QR factorisation is spelled: reflections, one column after the other.

A reflection is kept as LAPACK keeps it: below the diagonal, with a 1 on it that is not stored, and
its factor beside the matrix. So signs are LAPACK's, and results that hold reflections are equal.
"""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import apply, aten
from glasshouse.frontend.torch.aten.small_solve import SMALL
from glasshouse.frontend.torch.aten.solve import mark, picked, sizes, steps, swapped
from glasshouse.ir.dim import product
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import expanded, reshaped

MANY_STEPS, MUCH = 32, 2048
"""Rows from which reflections are always LAPACK's, and elements from which they are where there are
more than a few rows: each step goes over all matrices of a batch (64 of 32 rows took 32 times as
long)."""


@aten("geqrf", steps=SMALL)
def geqrf(a: Any) -> Any:
    """The triangle with the reflections below it, and their factors."""
    rows, columns = sizes(a)
    if rows > SMALL and (rows > MANY_STEPS or math.prod(map(int, a.shape)) >= MUCH):
        raise Unsupported("reflections of so many rows are LAPACK's")
    count = min(rows, columns)
    factors = full_near(a, (*a.shape[:-2], count), 0.0, a.dtype)
    if product(a.shape) == 0:
        return a, factors

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
        return rest, apply("where", place, composite.squeeze(factor, [-1]), factors)

    found = steps(count, column, a, factors)
    return found[0], found[1]


def _product(a: Any, factors: Any, columns: int) -> Any:
    """The first columns of the product of all reflections."""
    rows, stored = sizes(a)
    count = int(factors.shape[-1])
    places = reshaped(arange_near(a, rows), (rows, 1))
    one = places.apply("equal", arange_near(a, columns)).cast(a.dtype)
    start = expanded(one, (*a.shape[:-2], rows, columns))
    if product(start.shape) == 0 or count == 0:
        return start

    def reflect(number: Any, out: Any, a: Any, factors: Any) -> Any:
        step = count - 1 - number  # the last one is the first to act
        places = reshaped(arange_near(out, rows), (rows, 1))
        arrow = picked(a, mark(out, stored, step), -1)
        arrow = apply("where", places > step, arrow, 0.0)
        arrow = apply("where", places.apply("equal", step), 1.0, arrow)
        factor = composite.unsqueeze(picked(factors, mark(out, count, step), -1), -1)
        seen = (swapped(arrow)).apply("matmul", out)
        return out - factor * arrow.apply("matmul", seen), a, factors

    return steps(count, reflect, start, a, factors)[0]


@aten("linalg_householder_product", "orgqr", steps=SMALL)
def householder_product(a: Any, factors: Any) -> Any:
    return _product(a, factors, sizes(a)[1])


@aten("ormqr", steps=SMALL)
def ormqr(a: Any, factors: Any, b: Any, left: bool = True, transpose: bool = False) -> Any:
    q = _product(a, factors, sizes(a)[0])
    q = swapped(q) if transpose else q
    return q.apply("matmul", b) if left else b.apply("matmul", q)


@aten("linalg_qr", steps=SMALL)
def qr(a: Any, mode: str = "reduced") -> Any:
    rows, columns = sizes(a)
    if mode not in ("reduced", "complete", "r"):
        raise Unsupported(f"QR with the mode {mode}")
    both, factors = geqrf(a)
    kept = rows if mode == "complete" else min(rows, columns)
    triangle = composite.narrow(both, -2, 0, kept).apply("triangle", upper=True)
    if mode == "r":
        return full_near(a, (0,), 0.0, a.dtype), triangle
    return _product(both, factors, kept), triangle
