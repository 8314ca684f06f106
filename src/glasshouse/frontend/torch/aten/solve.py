"""How ATen's exact solvers are spelled: triangles by blocks, elimination by a scan over columns.

Eigenvalues and singular values are iterations, with vectors of free signs: they stay opaque.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import apply, aten, is_static, scalar
from glasshouse.frontend.torch.aten.small_solve import (
    SMALL,
    is_small,
    small_factor,
    triangle_solution,
)
from glasshouse.frontend.torch.aten.triangle import INVERTED, triangle_inverse
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int32, int64
from glasshouse.ops import composite
from glasshouse.ops.control import body_of
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import concat
from glasshouse.ops.scan import scan
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import broadcast_shapes


def swapped(x: Any) -> Any:
    """Matrices transposed."""
    return composite.transpose(x, -2, -1)


def sizes(x: Any) -> tuple[int, int]:
    """Rows and columns."""
    if not is_static(*x.shape) or not x.dtype.is_float:
        raise Unsupported(f"a factorisation of {x.type}")
    return int(x.shape[-2]), int(x.shape[-1])


def no_trouble(x: Any) -> Any:
    """`info`: that no factorisation failed. Where one does, the result is not finite."""
    return full_near(x, x.shape[:-2], 0, int32)


def steps(size: int, body: Callable[..., Any], *state: Any) -> list[Any]:
    """The state after `body(number, *state)` for each number below `size`; and, stacked along a
    first axis, what else each of these calls gives."""

    def one(*held: Any) -> Any:
        return tuple(body(held[-1], *held[:-1]))

    numbers = arange_near(state[0], size)
    found = scan(
        *state, numbers, body=body_of(one, *state, scalar(state[0], 0, int64)), carries=len(state)
    )
    return list(found) if isinstance(found, (list, tuple)) else [found]


def mark(near: Any, size: int, number: Any) -> Any:
    """True at one place of an axis."""
    return arange_near(near, size).apply("equal", number)


def picked(x: Any, mark: Any, axis: int) -> Any:
    """The slice at a marked place, its axis kept."""
    shape = (mark.shape[0], 1) if axis == -2 else mark.shape
    return apply("where", reshaped(mark, shape), x, 0.0).apply("sum", axes=[axis], keepdims=True)


# -------------------------------------------------------------------------------------- triangular
def solved(a: Any, b: Any, upper: bool, unit: bool = False) -> Any:
    """x for a x = b, a being a triangle: its upper left part first, or its lower right part."""
    size = sizes(a)[0]
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    a, b = expanded(a, (*batch, *a.shape[-2:])), expanded(b, (*batch, *b.shape[-2:]))
    if product(b.shape) == 0:
        return b
    if is_small(a):
        return triangle_solution(a, b, upper, unit)
    if upper:
        flip = [-2, -1]
        turned = solved(a.apply("flip", axes=flip), b.apply("flip", axes=[-2]), False, unit)
        return turned.apply("flip", axes=[-2])
    if size <= INVERTED:
        return triangle_inverse(a, unit).apply("matmul", b)
    half = 1 << (size - 1).bit_length() - 1
    first = solved(_block(a, 0, 0, half), composite.narrow(b, -2, 0, half), False, unit)
    rest = composite.narrow(b, -2, half, size - half)
    rest = rest - _block(a, half, 0, size - half, half).apply("matmul", first)
    return concat(first, solved(_block(a, half, half, size - half), rest, False, unit), axis=-2)


def _block(a: Any, row: int, column: int, rows: int, columns: int | None = None) -> Any:
    part = composite.narrow(a, -2, row, rows)
    return composite.narrow(part, -1, column, rows if columns is None else columns)


@aten("linalg_solve_triangular", steps=4 * INVERTED)
def solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if left:
        return solved(a, b, upper, unitriangular)
    return swapped(solved(swapped(a), swapped(b), not upper, unitriangular))


@aten("triangular_solve", steps=4 * INVERTED)
def triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    clone = expanded(a, (*broadcast_shapes([a.shape[:-2], b.shape[:-2]]), *a.shape[-2:]))
    if transpose:
        return solved(swapped(a), b, not upper, unitriangular), clone
    return solved(a, b, upper, unitriangular), clone


# ---------------------------------------------------------------------------------------- Cholesky
def factor(a: Any) -> Any:
    """The lower triangle whose product with its transpose is a; reads the lower triangle."""
    size = sizes(a)[0]
    if product(a.shape) == 0:
        return a
    if is_small(a):
        return small_factor(a)
    low = a.apply("triangle")
    whole = low + swapped(a.apply("triangle", diagonal=-1))

    def column(number: Any, rest: Any, out: Any) -> Any:
        here = mark(rest, size, number)
        found = picked(rest, here, -1)
        found = found / picked(found, here, -2).apply("sqrt")
        later = reshaped(arange_near(rest, size) >= number, (size, 1))
        found = apply("where", later, found, 0.0)
        out = apply("where", here, found, out)
        return rest - found.apply("matmul", found, transpose_y=True), out

    return steps(size, column, whole, full_near(a, a.shape, 0.0, a.dtype))[1]


@aten("linalg_cholesky_ex", steps=SMALL)
def cholesky_ex(a: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    found = swapped(factor(swapped(a))) if upper else factor(a)
    return found, no_trouble(a)


@aten("cholesky", steps=SMALL)
def cholesky(a: Any, upper: bool = False) -> Any:
    return cholesky_ex(a, upper=upper)[0]


@aten("cholesky_solve", steps=4 * INVERTED)
def cholesky_solve(b: Any, triangle: Any, upper: bool = False) -> Any:
    low = swapped(triangle) if upper else triangle
    return solved(swapped(low), solved(low, b, False), True)


@aten("cholesky_inverse", steps=SMALL)
def cholesky_inverse(triangle: Any, upper: bool = False) -> Any:
    return cholesky_solve(identity(triangle), triangle, upper)


def identity(x: Any) -> Any:
    """Ones on the diagonal of square matrices like x."""
    size = x.shape[-1]
    rows = reshaped(arange_near(x, size), (size, 1))
    one = rows.apply("equal", arange_near(x, size)).cast(x.dtype)
    return expanded(one, (*x.shape[:-2], size, size))
