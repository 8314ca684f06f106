"""How ATen's LU factorisation, and what follows from it, is spelled: inverse, determinant.

Rows are exchanged for the one with the largest pivot, the first of equals, as LAPACK does.
"""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.frontend.torch.aten.small_solve import SMALL, is_small, small_solution
from glasshouse.frontend.torch.aten.solve import (
    first_trouble,
    identity,
    sizes,
    solved,
    swapped,
)
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int32
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import broadcast_shapes


def eliminated(a: Any, pivoting: bool = True) -> tuple[Any, Any]:
    """Both triangles in one matrix, and the row that each step exchanged its own with, from 1."""
    rows, columns = sizes(a)
    if product(a.shape) == 0:
        return a, full_near(a, (*a.shape[:-2], min(rows, columns)), 1, int32)
    both, pivots = a.apply("lu", pivot=pivoting)
    return both, pivots


def _sign(pivots: Any, dtype: Any) -> Any:
    """Of the permutation: -1 for an odd number of exchanges."""
    places = arange_near(pivots, pivots.shape[-1], dtype=int32) + 1
    moved = pivots.apply("not_equal", places).cast(int32).apply("sum", axes=[-1])
    return (1 - (moved & 1) * 2).cast(dtype)


def _trouble(both: Any) -> Any:
    return first_trouble(composite.diagonal(both, 0, -2, -1).apply("equal", 0.0))


def _ordered(b: Any, order: Any) -> Any:
    return b.apply("gather", expanded(composite.unsqueeze(order, -1), b.shape), axis=-2)


def _factored_solution(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """x for a x = b, and the factors of a."""
    both, pivots = eliminated(a)
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    order = _order_of(pivots, sizes(a)[0])
    if is_small(a) and 0 not in b.shape:
        return small_solution(a, b), both, pivots
    return _from_both(both, expanded(order, (*batch, order.shape[-1])), b), both, pivots


def _from_both(both: Any, order: Any, b: Any) -> Any:
    b = expanded(b, (*order.shape[:-1], *b.shape[-2:]))
    return solved(both, solved(both, _ordered(b, order), False, unit=True), True)


@aten("linalg_inv_ex", steps=SMALL)
def inv_ex(a: Any, *, check_errors: bool = False) -> Any:
    found, both, _ = _factored_solution(a, identity(a))
    return found, _trouble(both)


@aten("_linalg_det", steps=SMALL)
def det(a: Any) -> Any:
    both, pivots = eliminated(a)
    diagonal = composite.diagonal(both, 0, -2, -1)
    return diagonal.apply("prod", axes=[-1]) * _sign(pivots, a.dtype), both, pivots


@aten("_linalg_slogdet", steps=SMALL)
def slogdet(a: Any) -> Any:
    both, pivots = eliminated(a)
    left = composite.diagonal(both, 0, -2, -1)
    signs = left.apply("sign").apply("prod", axes=[-1]) * _sign(pivots, a.dtype)
    return signs, abs(left).apply("log").apply("sum", axes=[-1]), both, pivots


@aten("_linalg_solve_ex", steps=SMALL)
def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    columns = composite.unsqueeze(b, -1) if vector else b
    if not left and not vector:
        out = swapped(_factored_solution(swapped(a), swapped(columns))[0])
        both, pivots = eliminated(a)  # for gradients; else nobody reads them
    else:
        out, both, pivots = _factored_solution(a, columns)
    found = composite.squeeze(out, [-1]) if vector else out
    return found, both, pivots, _trouble(both)


@aten("linalg_lu_factor_ex", steps=SMALL)
def lu_factor_ex(a: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    both, pivots = eliminated(a, pivot)
    return both, pivots, _trouble(both)


@aten("linalg_lu", steps=SMALL)
def lu(a: Any, *, pivot: bool = True) -> Any:
    """P, L and U, whose product is a; without pivots P is empty."""
    both, pivots = eliminated(a, pivot)
    if not pivot:
        return full_near(a, (0,), 0, a.dtype), *_triangles(both)
    return _permutation(_order_of(pivots, sizes(a)[0]), a), *_triangles(both)


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
    if product(pivots.shape) == 0:
        return expanded(arange_near(pivots, rows), (*pivots.shape[:-1], rows))
    return pivots.apply("row_order", rows=rows)


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
