"""Dense matrices taken apart, and systems whose matrix is a triangle; all axes but the last two are
a batch.

Where a factorisation fails it says so by its diagonal, as IEEE arithmetic has it: a pivot of 0, or
a root that is not above 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, INT
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32, float64, int32, int64
from glasshouse.ir.op import Kind, NoGradient, Op
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.matmul import matmul
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.reflection_loops import gradients, householder_loop, reflections_loop
from glasshouse.ops.shape import expanded, permuted, reshaped
from glasshouse.ops.shapes import require_equal


def _matrix(x: TensorType) -> tuple[Dim, Dim]:
    """Rows and columns."""
    if x.dtype not in (float32, float64):
        raise TypeMismatch(f"matrices are of float32 or float64 here, not of {x.dtype}")
    if x.rank < 2:
        raise ShapeError(f"a matrix has two axes, {x} has {x.rank}")
    return x.shape[-2], x.shape[-1]


def _square(x: TensorType) -> Dim:
    rows, columns = _matrix(x)
    return require_equal(rows, columns, "the matrix is not square")


def _least(rows: Dim, columns: Dim) -> int:
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError(f"a matrix of {rows} x {columns} is factored only where sizes are known")
    return min(rows, columns)


# ----------------------------------------------------------------------------------------------- LU
def _lu(a: TensorType, *, pivot: bool) -> tuple[TensorType, TensorType]:
    return a, tensor_type(int32, (*a.shape[:-2], _least(*_matrix(a))))


def _lu_ref(a: Array, *, pivot: bool) -> tuple[Array, Array]:
    both = np.array(a, np.float64)
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    pivots = np.zeros((*a.shape[:-2], count), np.int32)
    with np.errstate(all="ignore"):
        for at in np.ndindex(*a.shape[:-2]):
            m = both[at]
            for j in range(count):
                size = np.abs(m[j:, j])
                best = j
                if pivot and not np.isnan(size[0]):
                    best += int(np.argmax(np.where(np.isnan(size), -1.0, size)))
                pivots[(*at, j)] = best + 1
                m[[j, best]] = m[[best, j]]
                if m[j, j] != 0:
                    m[j + 1 :, j] /= m[j, j]
                m[j + 1 :, j + 1 :] -= np.outer(m[j + 1 :, j], m[j, j + 1 :])
    return both, pivots


def _lu_vjp(gs: Any, a: Any, both: Any, pivots: Any, *, pivot: bool) -> tuple[Any]:
    """Rows stay exchanged as they are: a small change of a matrix changes no pivot.

    With n = min(rows, columns), of factors [L; M] and [U, V] (n x n first) the gradient by
    [L; M] [U, V] is L^-T (lower(L^T gL - gV V^T) + upper(gU U^T - M^T gM)) U^-T in its first n x n,
    with L^-T gV beside it, or gM U^-T below.
    """
    g, last = gs[0], a.ndim - 1
    rows, columns = int(a.shape[-2]), int(a.shape[-1])
    n = min(rows, columns)
    part, factors = (cut(cut(x, last - 1, 0, n), last, 0, n) for x in (g, both))
    low = part.apply("triangle", diagonal=-1)
    low = low + matmul(factors.apply("triangle", diagonal=-1), low, transpose_x=True)
    high = part.apply("triangle", upper=True)
    high = matmul(high, factors.apply("triangle", upper=True), transpose_y=True)
    more: list[Any] = []
    if columns > n:
        beside, held = (cut(x, last, n, columns) for x in (g, both))
        low = low - matmul(beside, held, transpose_y=True)
        more = [triangle_solve(_turned(factors), beside, upper=True, unit=True)]
    elif rows > n:
        below, held = (cut(x, last - 1, n, rows) for x in (g, both))
        high = high - matmul(held, below, transpose_x=True)
        more = [_turned(triangle_solve(factors, _turned(below), upper=True))]
    inner = low.apply("triangle", diagonal=-1) + high.apply("triangle", upper=True)
    inner = triangle_solve(_turned(factors), inner, upper=True, unit=True)
    found = _turned(triangle_solve(factors, _turned(inner), upper=True))
    found = concat(found, *more, axis=last if columns > n else last - 1) if more else found
    if not pivot:
        return (found,)
    places = row_order(pivots, rows=rows).apply("sort", axis=-1)[1]
    indices = expanded(reshaped(places, (*places.shape, 1)), found.shape)
    return (found.apply("gather", indices, axis=last - 1),)


lu: Op = op(
    "lu", kind=Kind.OPAQUE, family="factor", infer=_lu, ref=_lu_ref,
    vjp=_lu_vjp,
    doc="L (below the diagonal, with ones on it that are not stored) and U in one matrix, and the "
    "row that each step exchanged its own with, counted from 1: that of the largest pivot, the "
    "first of equals.",
    pivot=BOOL(True, "False: no rows are exchanged"),
)  # fmt: skip


def _row_order(pivots: TensorType, *, rows: int) -> TensorType:
    if pivots.rank < 1 or not isinstance(pivots.shape[-1], int) or pivots.shape[-1] > rows:
        raise ShapeError(f"{pivots} names no exchanges of {rows} rows")
    if pivots.dtype is not int32:
        raise TypeMismatch(f"pivots are int32, not {pivots.dtype}")
    return tensor_type(int64, (*pivots.shape[:-1], rows))


def _row_order_ref(pivots: Array, *, rows: int) -> Array:
    order = np.empty((*pivots.shape[:-1], rows), np.int64)
    order[...] = np.arange(rows)
    for at in np.ndindex(*pivots.shape[:-1]):
        for i, other in enumerate(pivots[at]):
            order[at][[i, other - 1]] = order[at][[other - 1, i]]
    return order


row_order: Op = op(
    "row_order", kind=Kind.OPAQUE, family="factor", infer=_row_order, ref=_row_order_ref,
    vjp=NoGradient("whole numbers"),
    doc="The order of rows after the exchanges that the pivots of `lu` name: row i of the product "
    "of its triangles is row order[i] of the matrix.",
    rows=INT,
)  # fmt: skip


# ---------------------------------------------------------------------------------------- triangles
def _solve(a: TensorType, b: TensorType, *, upper: bool, unit: bool) -> TensorType:
    size = _square(a)
    if a.dtype is not b.dtype or a.rank != b.rank:
        raise TypeMismatch(f"matrix {a} and right side {b} differ in type or axes")
    for one, other in zip(a.shape[:-2], b.shape[:-2], strict=True):
        require_equal(one, other, "batches differ")
    require_equal(size, b.shape[-2], "the right side has not as many rows as the matrix")
    return b


def _solve_ref(a: Array, b: Array, *, upper: bool, unit: bool) -> Array:
    m, x = a.astype(np.float64), b.astype(np.float64)
    rows = range(a.shape[-1])
    with np.errstate(all="ignore"):
        for i in reversed(rows) if upper else rows:
            known = slice(i + 1, None) if upper else slice(0, i)
            x[..., i, :] -= (m[..., i, known, None] * x[..., known, :]).sum(-2)
            if not unit:
                x[..., i, :] /= m[..., i, i, None]
    return x


def _solve_vjp(g: Any, a: Any, b: Any, x: Any, *, upper: bool, unit: bool) -> tuple[Any, Any]:
    back = triangle_solve(_turned(a), g, upper=not upper, unit=unit)
    outer = matmul(back, x, transpose_y=True).apply("negative")
    diagonal = (1 if upper else -1) if unit else 0
    return outer.apply("triangle", upper=upper, diagonal=diagonal), back


def _turned(x: Any) -> Any:
    return permuted(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


triangle_solve: Op = op(
    "triangle_solve", kind=Kind.OPAQUE, family="factor", infer=_solve, ref=_solve_ref,
    vjp=_solve_vjp, inputs=("a", "b"),
    doc="x for a x = b, where only the lower (or upper) triangle of a is read; with `unit` its "
    "diagonal counts as ones.",
    upper=BOOL(False), unit=BOOL(False),
)  # fmt: skip


# ----------------------------------------------------------------------------------------- Cholesky
def _cholesky(a: TensorType) -> TensorType:
    _square(a)
    return a


def _cholesky_ref(a: Array) -> Array:
    low = np.tril(a.astype(np.float64))
    with np.errstate(all="ignore"):
        for j in range(a.shape[-1]):
            low[..., j, j] = np.sqrt(low[..., j, j])
            low[..., j + 1 :, j] /= low[..., j, j, None]
            column = low[..., j + 1 :, j]
            low[..., j + 1 :, j + 1 :] -= np.tril(column[..., :, None] * column[..., None, :])
    return low


def _cholesky_vjp(g: Any, a: Any, low: Any) -> tuple[Any]:
    """By the lower triangle, which is all that is read."""
    half = matmul(low, g, transpose_x=True).apply("triangle")
    half = half - half.apply("triangle").apply("triangle", upper=True) * 0.5
    left = triangle_solve(_turned(low), half, upper=True)
    whole = triangle_solve(_turned(low), _turned(left), upper=True)
    both = whole + _turned(whole)
    lower = both.apply("triangle")
    return (lower - lower.apply("triangle", upper=True) * 0.5,)


cholesky: Op = op(
    "cholesky", kind=Kind.OPAQUE, family="factor", infer=_cholesky, ref=_cholesky_ref,
    vjp=_cholesky_vjp,
    doc="The lower triangle whose product with its transpose is a symmetric matrix, of which the "
    "lower triangle is read.",
)  # fmt: skip


# ----------------------------------------------------------------------------------------------- QR
def _householder(a: TensorType) -> tuple[TensorType, TensorType]:
    return a, tensor_type(a.dtype, (*a.shape[:-2], _least(*_matrix(a))))


def _householder_ref(a: Array) -> tuple[Array, Array]:
    both = np.array(a, np.float64)
    count = min(a.shape[-2:])
    factors = np.zeros((*a.shape[:-2], count))
    for at in np.ndindex(*a.shape[:-2]):
        m = both[at]
        for j in range(count):
            head, tail = m[j, j], m[j + 1 :, j].copy()
            if not np.any(tail != 0):
                continue
            turned = -np.copysign(np.hypot(head, np.linalg.norm(tail)), head if head else 1.0)
            factors[(*at, j)] = factor = (turned - head) / turned
            arrow = np.concatenate([[1.0], tail / (head - turned)])
            m[j:, j + 1 :] -= factor * np.outer(arrow, arrow @ m[j:, j + 1 :])
            m[j, j], m[j + 1 :, j] = turned, arrow[1:]
    return both, factors


householder: Op = op(
    "householder", kind=Kind.OPAQUE, family="factor", infer=_householder, ref=_householder_ref,
    vjp=lambda gs, a, *_: tuple(gradients(householder_loop, (a,), tuple(gs))),
    doc="The upper triangle R, with the reflections that lead to it below the diagonal (each has "
    "a 1 on it that is not stored), and their factors.",
)  # fmt: skip


def _reflections(both: TensorType, factors: TensorType, *, columns: int) -> TensorType:
    rows, stored = _matrix(both)
    if factors.rank != both.rank - 1 or factors.dtype is not both.dtype:
        raise ShapeError(f"{factors} are no factors of the reflections in {both}")
    if _least(rows, stored) < int(str(factors.shape[-1])):
        raise ShapeError(f"{both} holds fewer reflections than there are factors: {factors}")
    return tensor_type(both.dtype, (*both.shape[:-2], rows, columns))


def _reflections_ref(both: Array, factors: Array, *, columns: int) -> Array:
    rows, count = both.shape[-2], factors.shape[-1]
    out = np.zeros((*both.shape[:-2], rows, columns))
    out[...] = np.eye(rows, columns)
    for at in np.ndindex(*both.shape[:-2]):
        for j in reversed(range(count)):
            arrow = np.concatenate([np.zeros(j), [1.0], both[at][j + 1 :, j]])
            out[at] -= factors[at][j] * np.outer(arrow, arrow @ out[at])
    return out


def _reflections_vjp(g: Any, both: Any, factors: Any, q: Any, *, columns: int) -> tuple[Any, ...]:
    def loop(both: Any, factors: Any) -> Any:
        return reflections_loop(both, factors, columns)

    return tuple(gradients(loop, (both, factors), (g,)))


reflections: Op = op(
    "reflections", kind=Kind.OPAQUE, family="factor", infer=_reflections, ref=_reflections_ref,
    vjp=_reflections_vjp,
    inputs=("both", "factors"),
    doc="The first columns of the product of the reflections that `householder` gives.",
    columns=INT,
)  # fmt: skip
