"""Triangular systems by blocks, for targets without a kernel for them: a graph of products.

The inverse of a triangle: of all small ones on the diagonal at once, then of pairs of them.

Two neighbours A and D with C below A are one block, whose inverse is [A^-1, 0; -D^-1 C A^-1, D^-1]:
with each level of batched products the blocks are twice as large. A triangle of 32 rows takes three
levels, where going from row to row takes 32 steps that wait for each other.
"""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.registry import apply, scalar
from glasshouse.frontend.torch.aten.small_solve import SMALL, triangle_solution
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import concat
from glasshouse.ops.shape import expanded, reshaped

INVERTED = 64
"""Rows up to which a whole triangle is inverted; larger ones are solved in parts."""

BY_BLOCKS = 4 * INVERTED
"""Rows up to which a triangle is solved so."""


def solved_by_blocks(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """x for a x = b, a being a triangle: its upper left part first, or its lower right part."""
    size = int(a.shape[-1])
    if upper:
        turned = a.apply("flip", axes=[-2, -1])
        found = solved_by_blocks(turned, b.apply("flip", axes=[-2]), False, unit)
        return found.apply("flip", axes=[-2])
    if size <= INVERTED:
        return triangle_inverse(a, unit).apply("matmul", b)
    half = 1 << (size - 1).bit_length() - 1
    first = solved_by_blocks(_block(a, 0, 0, half), composite.narrow(b, -2, 0, half), False, unit)
    rest = composite.narrow(b, -2, half, size - half)
    rest = rest - _block(a, half, 0, size - half, half).apply("matmul", first)
    second = solved_by_blocks(_block(a, half, half, size - half), rest, False, unit)
    return concat(first, second, axis=-2)


def _block(a: Any, row: int, column: int, rows: int, columns: int | None = None) -> Any:
    part = composite.narrow(a, -2, row, rows)
    return composite.narrow(part, -1, column, rows if columns is None else columns)


def triangle_inverse(a: Any, unit: bool) -> Any:
    """The inverse of lower triangles; what stands above their diagonals is not read."""
    rows = int(a.shape[-1])
    size = SMALL
    while size < rows:
        size *= 2
    a = _grown(a.apply("triangle"), size)
    parts = _diagonal_blocks(a, SMALL, 0)
    found = triangle_solution(parts, _identity(parts, SMALL), False, unit)
    width = SMALL
    while width < size:
        pairs = reshaped(found, (*a.shape[:-2], size // width // 2, 2, width, width))
        first, second = (
            composite.squeeze(composite.narrow(pairs, -3, i, 1), [-3]) for i in range(2)
        )
        below = _diagonal_blocks(a, 2 * width, width)
        below = (second.apply("matmul", below).apply("matmul", first)).apply("negative")
        above = full_near(a, first.shape, 0.0, a.dtype)
        top, bottom = concat(first, above, axis=-1), concat(below, second, axis=-1)
        found = concat(top, bottom, axis=-2)
        width *= 2
    found = reshaped(found, (*a.shape[:-2], size, size))
    return composite.narrow(composite.narrow(found, -2, 0, rows), -1, 0, rows)


def _grown(a: Any, size: int) -> Any:
    """The triangle with ones on the diagonal behind it."""
    rows, batch = int(a.shape[-1]), a.shape[:-2]
    if rows == size:
        return a
    more = size - rows
    below = concat(
        full_near(a, (*batch, more, rows), 0.0, a.dtype),
        expanded(_identity(a, more), (*batch, more, more)),
        axis=-1,
    )
    right = full_near(a, (*batch, rows, more), 0.0, a.dtype)
    return concat(concat(a, right, axis=-1), below, axis=-2)


def _diagonal_blocks(a: Any, width: int, below: int) -> Any:
    """Blocks [..., n, w, w] on the diagonal; with `below`, of each its lower left quarter."""
    size, batch = int(a.shape[-1]), a.shape[:-2]
    count, side = size // width, width - below
    split = reshaped(a, (*batch, count, width, count, width))
    if below:
        split = composite.narrow(composite.narrow(split, -3, below, side), -1, 0, side)
    blocks = composite.diagonal(split, 0, -4, -2)
    return composite.moveaxis(blocks, -1, -3)


def _identity(near: Any, size: int) -> Any:
    places = arange_near(near, size)
    same = reshaped(places, (size, 1)).apply("equal", places)
    one, zero = (scalar(near, v, near.dtype) for v in (1.0, 0.0))
    return apply("where", same, one, zero)
