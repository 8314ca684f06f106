"""How ATen's LU factorisation, and what follows from it, is spelled: inverse, determinant.

Rows are exchanged for the one with the largest pivot, the first of equals, as LAPACK does.
"""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.registry import apply, aten
from glasshouse.frontend.torch.aten.small_solve import SMALL, is_small, small_solution
from glasshouse.frontend.torch.aten.solve import (
    identity,
    mark,
    no_trouble,
    picked,
    sizes,
    solved,
    steps,
    swapped,
)
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int32, int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import broadcast_shapes


def eliminated(a: Any, pivoting: bool = True) -> tuple[Any, Any, Any, Any]:
    """Both triangles in one matrix, the order that the rows were brought into, its sign, and the
    row that each step exchanged its own with."""
    rows, columns = sizes(a)
    count = min(rows, columns)
    order = expanded(arange_near(a, rows), a.shape[:-1])
    sign = full_near(a, a.shape[:-2], 1.0, a.dtype)
    if product(a.shape) == 0:
        return a, order, sign, full_near(a, (*a.shape[:-2], count), 1, int64)

    def column(number: Any, rest: Any, order: Any, sign: Any) -> Any:
        places = arange_near(rest, rows)
        row, here = places.apply("equal", number), mark(rest, columns, number)
        best = expanded(reshaped(number, (1,)), (*sign.shape, 1))
        if pivoting:
            size = apply("where", places >= number, abs(_slice(rest, here)), -1.0)
            best = size.apply("argmax", axis=-1, keepdims=True)
        other = apply("where", places.apply("equal", best), number, places)
        moved = apply("where", row, best, other)
        rest, order = _ordered(rest, moved), order.apply("gather", moved, axis=-1)
        swaps = reshaped(best, sign.shape).apply("not_equal", number)
        sign = apply("where", swaps, -sign, sign)
        top = picked(rest, row, -2)
        pivot = picked(top, here, -1)
        below = reshaped(places > number, (rows, 1))
        # A column of zeros is left as it is: what is below its pivot is zero already.
        safe = apply("where", pivot.apply("equal", 0.0), 1.0, pivot)
        share = apply("where", below, picked(rest, here, -1) / safe, 0.0)
        right = apply("where", arange_near(rest, columns) > number, top, 0.0)
        rest = rest - share * right
        return apply("where", here & below, share, rest), order, sign, reshaped(best, sign.shape)

    both, order, sign, pivots = steps(count, column, a, order, sign)
    return both, order, sign, composite.moveaxis(pivots, 0, -1) + 1


def _slice(x: Any, mark: Any) -> Any:
    return composite.squeeze(picked(x, mark, -1), [-1])


def _ordered(b: Any, order: Any) -> Any:
    return b.apply("gather", expanded(composite.unsqueeze(order, -1), b.shape), axis=-2)


def general_solution(a: Any, b: Any) -> Any:
    if is_small(a) and 0 not in b.shape:
        return small_solution(a, b)
    both, order, _, _ = eliminated(a)
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    return _from_both(both, expanded(order, (*batch, order.shape[-1])), b)


def _from_both(both: Any, order: Any, b: Any) -> Any:
    b = expanded(b, (*order.shape[:-1], *b.shape[-2:]))
    return solved(both, solved(both, _ordered(b, order), False, unit=True), True)


@aten("linalg_inv_ex", steps=SMALL)
def inv_ex(a: Any, *, check_errors: bool = False) -> Any:
    return general_solution(a, identity(a)), no_trouble(a)


@aten("_linalg_det", steps=SMALL)
def det(a: Any) -> Any:
    both, _, sign, pivots = eliminated(a)
    found = composite.diagonal(both, 0, -2, -1).apply("prod", axes=[-1]) * sign
    return found, both, pivots.cast(int32)


@aten("_linalg_slogdet", steps=SMALL)
def slogdet(a: Any) -> Any:
    both, _, sign, pivots = eliminated(a)
    left = composite.diagonal(both, 0, -2, -1)
    signs = left.apply("sign").apply("prod", axes=[-1]) * sign
    return signs, abs(left).apply("log").apply("sum", axes=[-1]), both, pivots.cast(int32)


@aten("_linalg_solve_ex", steps=SMALL)
def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    columns = composite.unsqueeze(b, -1) if vector else b
    if not left and not vector:
        out = swapped(general_solution(swapped(a), swapped(columns)))
    else:
        out = general_solution(a, columns)
    both, _, _, pivots = eliminated(a)  # for gradients; else nobody reads them
    found = composite.squeeze(out, [-1]) if vector else out
    return found, both, pivots.cast(int32), no_trouble(a)


@aten("linalg_lu_factor_ex", steps=SMALL)
def lu_factor_ex(a: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    both, _, _, pivots = eliminated(a, pivot)
    return both, pivots.cast(int32), no_trouble(a)


@aten("linalg_lu", steps=SMALL)
def lu(a: Any, *, pivot: bool = True) -> Any:
    """P, L and U, whose product is a; without pivots P is empty."""
    both, order, _, _ = eliminated(a, pivot)
    permutation = _permutation(order, a) if pivot else full_near(a, (0,), 0, a.dtype)
    return permutation, *_triangles(both)


def _permutation(order: Any, like: Any) -> Any:
    """Row i of the matrix stands at the place where the order names it."""
    rows = order.shape[-1]
    return (
        composite.unsqueeze(order, -2)
        .apply("equal", reshaped(arange_near(order, rows), (rows, 1)))
        .cast(like.dtype)
    )


def _triangles(both: Any) -> tuple[Any, Any]:
    rows, columns = sizes(both)
    count = min(rows, columns)
    low = composite.narrow(both.apply("triangle", diagonal=-1), -1, 0, count)
    places = reshaped(arange_near(both, rows), (rows, 1))
    low = low + places.apply("equal", arange_near(both, count)).cast(both.dtype)
    return low, composite.narrow(both.apply("triangle", upper=True), -2, 0, count)


def _order_of(pivots: Any, rows: int) -> Any:
    """The order of rows after the exchanges that pivots name, counted from 1."""
    batch, count = pivots.shape[:-1], pivots.shape[-1]
    order = expanded(arange_near(pivots, rows), (*batch, rows))
    if product(pivots.shape) == 0:
        return order

    def swap(number: Any, order: Any, pivots: Any) -> Any:
        places = arange_near(order, rows)
        here = mark(order, count, number)
        best = apply("where", here, pivots, full_near(order, (), 0, int64))
        best = best.apply("sum", axes=[-1], keepdims=True)
        other = apply("where", places.apply("equal", best), number, places)
        moved = apply("where", places.apply("equal", number), best, other)
        return order.apply("gather", moved, axis=-1), pivots

    return steps(int(count), swap, order, pivots.cast(int64) - 1)[0]


@aten("lu_unpack", steps=SMALL)
def lu_unpack(both: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    empty = full_near(both, (0,), 0, both.dtype)
    low, high = _triangles(both) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, low, high
    return _permutation(_order_of(pivots, sizes(both)[0]), both), low, high


@aten("linalg_lu_solve", steps=SMALL)
def lu_solve(both: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    if not left:
        return swapped(lu_solve(both, pivots, swapped(b), adjoint=not adjoint))
    batch = broadcast_shapes([both.shape[:-2], b.shape[:-2]])
    order = _order_of(pivots, sizes(both)[0])
    order = expanded(order, (*batch, order.shape[-1]))
    if not adjoint:
        return _from_both(both, order, b)
    turned = swapped(both)
    found = solved(turned, solved(turned, b, False), True, unit=True)
    if product(order.shape) == 0:
        return found
    return _ordered(found, order.apply("sort", axis=-1)[1])
