"""The ops that join tensors, cut parts out of them and put borders around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import DIMS, INT, INTS, NUMBER, STR
from glasshouse.ir.dim import Dim, bounds, dim_min, floor_div
from glasshouse.ir.op import Kind, Operands
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.shape import flip, reshaped, same_count
from glasshouse.ops.shapes import axis_of, require_equal

_PIECES: dict[str, Any] = {"kind": Kind.INJECTIVE, "family": "shape"}


# ----------------------------------------------------------------------------------- concat, split
def _concat(*xs: TensorType, axis: int) -> TensorType:
    if not xs:
        raise ShapeError("there is nothing to join")
    rank = xs[0].rank
    if rank == 0:
        raise ShapeError("scalars have no axis to join along; reshape them to [1] or stack them")
    at = axis_of(axis, rank)
    shape = list(xs[0].shape)
    for x in xs[1:]:
        if x.dtype is not xs[0].dtype:
            raise TypeMismatch(f"operands have different element types: {xs[0].dtype}, {x.dtype}")
        if x.rank != rank:
            raise ShapeError(f"operands have {rank} and {x.rank} dimensions")
        for i in range(rank):
            if i == at:
                shape[i] = shape[i] + x.shape[i]
            else:
                what = f"sizes differ at axis {i}, operands are joined along axis {at}"
                shape[i] = require_equal(shape[i], x.shape[i], what)
    return tensor_type(xs[0].dtype, shape)


def _concat_vjp(g: Any, *rest: Any, axis: int) -> Sequence[Any]:
    xs = rest[:-1]
    if len(xs) == 1:
        return (g,)
    at = axis_of(axis, g.ndim)
    return tuple(split(g, axis=at, sizes=[x.shape[at] for x in xs]))


concat = op(
    "concat", narrows=True,
    **_PIECES, infer=_concat, ref=lambda *xs, axis: np.concatenate(xs, axis),
    vjp=_concat_vjp, inputs=("*xs",), operands=Operands.COMMON,
    doc="Tensors joined along an axis.", axis=INT,
)  # fmt: skip


def _split(x: TensorType, *, axis: int, sizes: tuple[Dim, ...]) -> tuple[TensorType, ...]:
    at = axis_of(axis, x.rank)
    if x.rank == 0 or not sizes:
        raise ShapeError(f"cannot split into sizes {list(sizes)}")
    total: Dim = 0
    for size in sizes:
        if bounds(size)[1] < 0:
            raise ShapeError(f"a part of size {size}")
        total = total + size
    if not same_count(total, x.shape[at]):
        raise ShapeError(f"parts {list(sizes)} make {total}, axis {at} has {x.shape[at]}")
    return tuple(tensor_type(x.dtype, (*x.shape[:at], s, *x.shape[at + 1 :])) for s in sizes)


def _split_ref(x: Array, *, axis: int, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    if sum(sizes) != x.shape[axis]:
        raise ShapeError(f"parts {list(sizes)} make {sum(sizes)}, axis {axis} has {x.shape[axis]}")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _split_vjp(gs: Any, x: Any, *ys: Any, axis: int, sizes: tuple[Dim, ...]) -> tuple[Any]:
    if len(ys) == 1:
        return (gs[0] if isinstance(gs, (tuple, list)) else gs,)
    parts = [zeros_like_type(y) if g is None else g for g, y in zip(gs, ys, strict=True)]
    return (reshaped(concat(*parts, axis=axis), x.shape),)


split = op(
    "split", narrows=True,
    **_PIECES, infer=_split, ref=_split_ref, vjp=_split_vjp,
    doc="A tensor cut along an axis into parts of these sizes, which must add up.",
    axis=INT, sizes=DIMS,
)  # fmt: skip


# ------------------------------------------------------------------------------------------- slice
def _slice(x: TensorType, *, starts: Shape, ends: Shape, steps: tuple[int, ...]) -> TensorType:
    if len(starts) != x.rank or len(ends) != x.rank or (steps and len(steps) != x.rank):
        raise ShapeError(f"starts, ends and steps need one entry for each of {x.rank} dimensions")
    out: list[Dim] = []
    for i, (size, start, end) in enumerate(zip(x.shape, starts, ends, strict=True)):
        step = steps[i] if steps else 1
        if step < 1:
            raise ShapeError(f"step {step} at axis {i} is not positive; flip reverses an axis")
        if bounds(start)[1] < 0 or bounds(end - start)[1] < 0 or bounds(size - end)[1] < 0:
            raise ShapeError(f"[{start}:{end}] does not lie inside axis {i} of size {size}")
        out.append(floor_div(end - start + (step - 1), step))
    return tensor_type(x.dtype, out)


def _slice_ref(
    x: Array, *, starts: tuple[int, ...], ends: tuple[int, ...], steps: tuple[int, ...]
) -> Array:
    for i, (size, start, end) in enumerate(zip(x.shape, starts, ends, strict=True)):
        if not 0 <= start <= end <= size:
            raise ShapeError(f"[{start}:{end}] does not lie inside axis {i} of size {size}")
    cuts = zip(starts, ends, steps or (1,) * x.ndim, strict=True)
    return x[tuple([slice(*cut) for cut in cuts])]


def _slice_vjp(
    g: Any, x: Any, y: Any, *, starts: Shape, ends: Shape, steps: tuple[int, ...]
) -> tuple[Any]:
    for axis, step in enumerate(steps):
        if step > 1:
            # Zeros between the elements: [m] -> [m, 1] -> [m, step] -> [m * step], cut to fit.
            before, count, after = g.shape[:axis], g.shape[axis], g.shape[axis + 1 :]
            apart = reshaped(g, (*before, count, 1, *after))
            last = [0] * apart.ndim
            last[axis + 1] = step - 1
            spread = reshaped(
                pad(apart, padding=[0] * apart.ndim + last), (*before, count * step, *after)
            )
            room = dim_min(count * step, x.shape[axis] - starts[axis])
            g = cut(spread, axis, 0, room)
    after_ends = [s - b - n for s, b, n in zip(x.shape, starts, g.shape, strict=True)]
    return (padded(g, [*starts, *after_ends]),)


slice_ = op(
    "slice", view="part", narrows=True,
    **_PIECES, infer=_slice, ref=_slice_ref, vjp=_slice_vjp,
    doc="Elements from `starts` (included) to `ends` (excluded) in `steps`, one entry for each "
    "axis; 0 <= start <= end <= size.",
    starts=DIMS, ends=DIMS, steps=INTS((), "all 1 when empty"),
)  # fmt: skip


def cut(x: Any, axis: int, start: Dim, end: Dim) -> Any:
    """`start:end` along one axis; the handle itself where that is all of it."""
    if start == 0 and end == x.shape[axis]:
        return x
    starts: list[Dim] = [0] * x.ndim
    ends = list(x.shape)
    starts[axis], ends[axis] = start, end
    return slice_(x, starts=starts, ends=ends)


# --------------------------------------------------------------------------------------------- pad
_MODES = ("constant", "reflect", "edge")


def _pad(x: TensorType, *, padding: Shape, mode: str, value: float) -> TensorType:
    if mode not in _MODES:
        raise TypeMismatch(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if len(padding) != 2 * x.rank:
        raise ShapeError(
            f"padding needs {2 * x.rank} entries (all begins, then all ends), got {len(padding)}"
        )
    out: list[Dim] = []
    for i, size in enumerate(x.shape):
        begin, end = padding[i], padding[x.rank + i]
        for part in (begin, end):
            if bounds(part)[1] < 0:
                raise ShapeError(f"padding {part} at axis {i} is negative; slice cuts elements off")
            if mode == "reflect" and bounds(part - size)[0] >= 0 and part != 0:
                raise ShapeError(
                    f"reflecting {part} elements needs more than the {size} of axis {i}"
                )
            if mode == "edge" and size == 0 and part != 0:
                raise ShapeError(f"axis {i} is empty and has no edge to repeat")
        out.append(begin + size + end)
    return tensor_type(x.dtype, out)


def _pad_ref(x: Array, *, padding: tuple[int, ...], mode: str, value: float) -> Array:
    widths = list(zip(padding[: x.ndim], padding[x.ndim :], strict=True))
    if not widths:
        return x
    if mode == "constant":
        return np.pad(x, widths, constant_values=value)
    return np.pad(x, widths, "edge" if mode == "edge" else "reflect")


def _pad_vjp(g: Any, x: Any, y: Any, *, padding: Shape, mode: str, value: float) -> tuple[Any]:
    rank = x.ndim
    for axis in range(rank):
        begin, end, size = padding[axis], padding[rank + axis], x.shape[axis]
        total = g.shape[axis]
        inner = cut(g, axis, begin, begin + size)
        if mode != "constant" and begin != 0:
            inner = inner + _returned(cut(g, axis, 0, begin), axis, size, mode, at_begin=True)
        if mode != "constant" and end != 0:
            tail = cut(g, axis, begin + size, total)
            inner = inner + _returned(tail, axis, size, mode, at_begin=False)
        g = inner
    return (g,)


def _returned(border: Any, axis: int, size: Dim, mode: str, at_begin: bool) -> Any:
    """What a border of the gradient adds to the elements that the border was copied from."""
    if mode == "edge":
        border = border.apply("sum", axes=[axis], keepdims=True)
        inset: Dim = 0
    else:
        border = flip(border, axes=[axis])
        inset = 1
    rest = size - inset - border.shape[axis]
    before, after = (inset, rest) if at_begin else (rest, inset)
    padding: list[Dim] = [0] * (2 * border.ndim)
    padding[axis], padding[border.ndim + axis] = before, after
    return padded(border, padding)


pad = op(
    "pad", narrows=True,
    **_PIECES, infer=_pad, ref=_pad_ref, vjp=_pad_vjp,
    doc="Elements added at the begins and ends of axes: a value, the mirrored inside (without the "
    "border element itself), or the border element again.",
    padding=DIMS, mode=STR("constant"), value=NUMBER(0.0),
)  # fmt: skip


def padded(x: Any, padding: Sequence[Dim]) -> Any:
    """The handle with zeros around it, or itself where nothing is added."""
    return x if all(p == 0 for p in padding) else pad(x, padding=tuple(padding))
