"""Products of groups of rows, each group with a matrix of its own, as experts of a mixture have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL
from glasshouse.ir.dim import bounds
from glasshouse.ir.dtype import int64
from glasshouse.ir.op import Kind
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.declare import op
from glasshouse.ops.elementwise import where
from glasshouse.ops.matmul import matmul
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import require_equal


def _infer(x: TensorType, w: TensorType, ends: TensorType, *, turned: bool) -> TensorType:
    if x.dtype is not w.dtype or not x.dtype.is_float or ends.dtype.is_float:
        raise TypeMismatch(f"rows of {x.dtype}, matrices of {w.dtype} and ends of {ends.dtype}")
    if x.rank != 2 or w.rank != 3 or ends.rank != 1:
        raise ShapeError(f"rows [row, depth], matrices [group, ...] and ends [group], not {x}, {w}")
    if bounds(w.shape[0])[1] < 1:
        raise ShapeError("rows without a group")
    require_equal(w.shape[0], ends.shape[0], "one end for each group")
    depth, columns = w.shape[1:][::-1] if turned else w.shape[1:]
    require_equal(x.shape[1], depth, "the inner sizes differ")
    return tensor_type(x.dtype, (x.shape[0], columns))


def groups(rows: int, ends: Array) -> Iterator[tuple[int, int, int]]:
    """(group, first row, row behind the last) of all groups that have rows."""
    begin = 0
    for group, end in enumerate(ends.tolist()):
        last = group + 1 == len(ends)
        end = rows if last else min(end, rows)
        if end > begin:
            yield group, begin, end
            begin = end


def _ref(x: Array, w: Array, ends: Array, *, turned: bool) -> Array:
    each = widened(w.swapaxes(1, 2) if turned else w)
    out = np.zeros((x.shape[0], each.shape[2]), each.dtype)
    for group, begin, end in groups(x.shape[0], ends):
        out[begin:end] = widened(x[begin:end]) @ each[group]
    return out


def _vjp(g: Any, x: Any, w: Any, ends: Any, y: Any, *, turned: bool) -> tuple[Any, Any, None]:
    """Of the matrices: every one meets all rows, those of others being zero."""
    rows, count = x.shape[0], w.shape[0]
    places = reshaped(arange_near(x, rows), (rows, 1))
    begun = ends.cast(int64).apply("less_equal", places).cast(int64).apply("sum", axes=[1])
    group = begun.apply("minimum", arange_near(x, count, count - 1))
    mine = reshaped(arange_near(x, count), (count, 1)).apply("equal", group)
    zero = full_near(g, (), 0, g.dtype)
    kept = where(reshaped(mine, (count, rows, 1)), reshaped(g, (1, *g.shape)), zero)
    one = reshaped(x, (1, *x.shape))
    by_w = matmul(kept, one, transpose_x=True) if turned else matmul(one, kept, transpose_x=True)
    return grouped_matmul(g, w, ends, turned=not turned), by_w, None


grouped_matmul = op(
    "grouped_matmul", kind=Kind.OPAQUE, family="matmul", infer=_infer, ref=_ref, vjp=_vjp,
    inputs=("x", "w", "ends"),
    doc="Rows of x up to ends[0] times w[0], those from there up to ends[1] times w[1], and so on; "
    "the last group has all that are left. Half floats are summed in float32.",
    turned=BOOL(False, "matrices are [group, column, depth] instead of [group, depth, column]"),
)  # fmt: skip
