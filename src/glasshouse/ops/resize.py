"""How images are resized: each spatial axis on its own, as sums of the taps of `resize_taps.py`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, DIMS, FLOATS, STR
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.op import Kind
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array, add_rows, widened
from glasshouse.ops.declare import op
from glasshouse.ops.resize_taps import Tap, taps

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "align_corners", "asymmetric")

_RESIZE: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "resize", "mode": STR("nearest", ", ".join(MODES)),
    "coordinates": STR("half_pixel", ", ".join(COORDINATES)),
    "scales": FLOATS((), "output over input size, where it is not the ratio of the sizes"),
    "antialias": BOOL(False, "widen the filter as much as an axis shrinks, so that all counts"),
}  # fmt: skip


def _check(
    x: TensorType, size: Sequence[Dim], mode: str, coordinates: str, scales: Sequence[float],
    antialias: bool,
) -> None:  # fmt: skip
    if mode not in MODES or coordinates not in COORDINATES:
        raise TypeMismatch(
            f"mode {mode!r} must be one of {', '.join(MODES)}, coordinates {coordinates!r} one of "
            f"{', '.join(COORDINATES)}"
        )
    if antialias and (mode == "nearest" or coordinates == "asymmetric"):
        raise TypeMismatch(f"no antialiasing of mode {mode!r} with coordinates {coordinates!r}")
    if not 3 <= x.rank <= 5 or len(size) != x.rank - 2:
        raise ShapeError(f"size {list(size)} for [batch, channels, 1 to 3 spatial axes], got {x}")
    if scales and (len(scales) != len(size) or min(scales) <= 0):
        raise ShapeError(f"scales {list(scales)} for size {list(size)}")
    if mode != "nearest" and not x.dtype.is_float:
        raise TypeMismatch(f"interpolation needs a floating type, not {x.dtype}; cast it first")
    for have, wanted in zip(x.shape[2:], size, strict=True):
        if bounds(wanted)[1] < 1 or bounds(have)[1] < 1:
            raise ShapeError(f"cannot resize {have} elements to {wanted}")


def _infer(
    x: TensorType, *, size: Sequence[Dim], mode: str, coordinates: str, scales: Sequence[float],
    antialias: bool,
) -> TensorType:  # fmt: skip
    _check(x, size, mode, coordinates, scales, antialias)
    return tensor_type(x.dtype, (*x.shape[:2], *size))


def _share(x: Array, tap: Tap, axis: int) -> Array:
    """The part of `x`, whose axis has an element for each of the tap's; 0 where it takes none."""
    at, factor = tap
    if factor is None:
        return x
    shape = [1] * x.ndim
    shape[axis] = factor.size
    part = x * factor.astype(x.dtype).reshape(shape)
    return part if at.min(initial=0) >= 0 else np.where((at < 0).reshape(shape), 0, part)


def _ref(
    x: Array, *, size: Sequence[int], mode: str, coordinates: str, scales: Sequence[float],
    antialias: bool,
) -> Array:  # fmt: skip
    out = x if mode == "nearest" else widened(x)
    for i, count in enumerate(size):
        axis, whole = 2 + i, out
        scale = scales[i] if scales else None
        found = taps(x.shape[axis], count, mode, coordinates, scale, antialias)
        parts = (_share(np.take(whole, tap[0], axis), tap, axis) for tap in found)
        out = functools.reduce(np.add, parts)
    return out


def _grad_ref(
    g: Array, *, size: Sequence[int], mode: str, coordinates: str, scales: Sequence[float],
    antialias: bool,
) -> Array:  # fmt: skip
    out = widened(g)
    for i, length in enumerate(size):
        axis = 2 + i
        count = out.shape[axis]
        rows = np.moveaxis(out, axis, 0)
        total = np.zeros((length, rows[0].size if count else 0), out.dtype)
        flat = rows.reshape(count, total.shape[1])
        scale = scales[i] if scales else None
        for tap in taps(length, count, mode, coordinates, scale, antialias):
            add_rows(total, np.maximum(tap[0], 0), _share(flat, tap, 0))
        out = np.moveaxis(total.reshape(length, *rows.shape[1:]), 0, axis)
    return out


def _vjp(g: Any, x: Any, y: Any, *, size: Sequence[Dim], **attrs: Any) -> tuple[Any]:
    return (resize_grad(g, size=x.shape[2:], **attrs),)


resize = op(
    "resize", **_RESIZE, infer=_infer, ref=_ref, vjp=_vjp,
    doc="The spatial axes brought to `size`. Output element i lies at (i + 0.5) * s - 0.5 of the "
    "input (half_pixel), at i * s (asymmetric), or so that both ends meet (align_corners), with s "
    "the ratio of the sizes. nearest takes the element before that place (half_pixel: the one it "
    "is in; align_corners: the closest), linear mixes two, cubic four; with antialias, all "
    "whose centres the filter reaches once it is stretched by s, inside of the border.",
    size=DIMS,
)  # fmt: skip
resize_grad = op(
    "resize_grad", **_RESIZE, infer=_infer, ref=_grad_ref, inputs=("g",),
    vjp=lambda h, g, y, *, size, **attrs: (resize(h, size=g.shape[2:], **attrs),),
    doc="The gradient of resize for an input whose spatial axes have `size`.", size=DIMS,
)  # fmt: skip
