"""Solvers of small matrices, element by element.

Up to `SMALL` rows there is no loop: a Kalman filter solves 2 x 2 systems by the thousand, and as
arithmetic on elements these fuse with all around them, where a scan would cost a call each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.frontend.torch.aten.registry import apply, is_static
from glasshouse.ops import composite
from glasshouse.ops.create import full_near
from glasshouse.ops.pieces import concat

SMALL = 4
"""Rows: elimination of 4 takes 30 products, and the code grows with the third power."""


def is_small(a: Any) -> bool:
    """Whether a solver of these matrices is written out."""
    return is_static(*a.shape) and 0 < int(a.shape[-1]) <= SMALL and 0 not in a.shape


def _rows(x: Any) -> list[Any]:
    return [composite.narrow(x, -2, i, 1) for i in range(int(x.shape[-2]))]


def _elements(a: Any) -> list[list[Any]]:
    return [[composite.narrow(row, -1, j, 1) for j in range(int(a.shape[-1]))] for row in _rows(a)]


def _less(total: Any, factors: Sequence[Any], others: Sequence[Any]) -> Any:
    """What is left of a total without a sum of products."""
    for factor, other in zip(factors, others, strict=True):
        total = total - factor * other
    return total


def small_solution(a: Any, b: Any) -> Any:
    """x for a x = b, by elimination; of the rows that are left, the largest pivot comes next."""
    left, right = _elements(a), _rows(b)
    size = len(left)
    for c in range(size):
        for r in range(c + 1, size):
            swap = abs(left[r][c]) > abs(left[c][c])
            pairs = list(zip(left[c], left[r], strict=True))
            left[c] = [apply("where", swap, y, x) for x, y in pairs]
            left[r] = [apply("where", swap, x, y) for x, y in pairs]
            above, below = right[c], right[r]
            right[c], right[r] = (
                apply("where", swap, below, above), apply("where", swap, above, below)
            )  # fmt: skip
        for r in range(c + 1, size):
            share = left[r][c] / left[c][c]
            left[r] = [x - share * y for x, y in zip(left[r], left[c], strict=True)]
            right[r] = right[r] - share * right[c]
    return small_triangle(left, right, True)


def small_triangle(a: Sequence[Sequence[Any]], b: Sequence[Any], upper: bool) -> Any:
    """The same where a is a triangle, given by elements, and b by rows."""
    size = len(b)
    found: dict[int, Any] = {}
    for i in reversed(range(size)) if upper else range(size):
        known = list(found)
        found[i] = _less(b[i], [a[i][j] for j in known], [found[j] for j in known]) / a[i][i]
    return concat(*[found[i] for i in range(size)], axis=-2)


def triangle_solution(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """`small_triangle` of whole matrices; a `unit` triangle has ones on its diagonal."""
    rows = _elements(a)
    if unit:
        one = full_near(a, rows[0][0].shape, 1.0, a.dtype)
        rows = [[one if i == j else x for j, x in enumerate(row)] for i, row in enumerate(rows)]
    return small_triangle(rows, _rows(b), upper)


def small_factor(a: Any) -> Any:
    """The lower triangle whose product with its transpose is a; reads the lower triangle."""
    given = _elements(a)
    size = len(given)
    low: list[list[Any]] = [[] for _ in range(size)]
    for j in range(size):
        for i in range(j, size):
            left = _less(given[i][j], low[i][:j], low[j][:j])
            low[i].append(left.apply("sqrt") if i == j else left / low[j][j])
    nothing = full_near(a, low[0][0].shape, 0.0, a.dtype)
    rows = [concat(*row, *[nothing] * (size - len(row)), axis=-1) for row in low]
    return concat(*rows, axis=-2)
