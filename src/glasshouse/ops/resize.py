"""How images are resized: which input elements make an output element, and with what part.

Each spatial axis is resized on its own. Along one, an output element is a sum of a few taps: one
input element (nearest), two (linear) or four (cubic), at the border the outermost one again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import DIMS, FLOATS, STR
from glasshouse.ir.dim import Dim, bounds
from glasshouse.ir.op import Kind
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array, add_rows, widened
from glasshouse.ops.declare import op

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "align_corners", "asymmetric")
_CUBIC = -0.75  # the slope parameter of the cubic kernel, as in PyTorch and OpenCV

_RESIZE: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "resize", "mode": STR("nearest", ", ".join(MODES)),
    "coordinates": STR("half_pixel", ", ".join(COORDINATES)),
    "scales": FLOATS((), "output over input size, where it is not the ratio of the sizes"),
}  # fmt: skip


def _check(
    x: TensorType, size: Sequence[Dim], mode: str, coordinates: str, scales: Sequence[float]
) -> None:
    if mode not in MODES or coordinates not in COORDINATES:
        raise TypeMismatch(
            f"mode {mode!r} must be one of {', '.join(MODES)}, coordinates {coordinates!r} one of "
            f"{', '.join(COORDINATES)}"
        )
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
    x: TensorType, *, size: Sequence[Dim], mode: str, coordinates: str, scales: Sequence[float]
) -> TensorType:
    _check(x, size, mode, coordinates, scales)
    return tensor_type(x.dtype, (*x.shape[:2], *size))


Tap = tuple[Array, Array | None]
"""Input indices and the factors they enter with; None is 1."""


def taps(length: int, count: int, mode: str, coordinates: str, scale: float | None) -> list[Tap]:
    """What each of `count` output elements takes from an axis of `length`."""
    step = length / count if scale is None else 1.0 / scale
    if coordinates == "align_corners":
        step = (length - 1) / (count - 1) if count > 1 else 0.0
    shift = 0.5 if coordinates == "half_pixel" else 0.0
    at = np.arange(count)
    if mode == "nearest":
        # In float32, as PyTorch has it: half a unit in the last place decides the element.
        near = (at.astype(np.float32) + np.float32(shift)) * np.float32(step)
        if coordinates == "align_corners":
            near = near + np.float32(0.5)
        return [(np.clip(np.floor(near).astype(np.int64), 0, length - 1), None)]
    place = (at + shift) * step - shift
    if mode == "linear":
        place = np.maximum(place, 0)
    first = np.floor(place)
    part = place - first
    if mode == "linear":
        factors = [1 - part, part]
        offset = 0
    else:
        factors = [_outer(part + 1), _inner(part), _inner(1 - part), _outer(2 - part)]
        offset = -1
    index = first.astype(np.int64)
    return [
        (np.clip(index + offset + i, 0, length - 1), factor) for i, factor in enumerate(factors)
    ]


def _inner(t: Array) -> Array:
    """The cubic kernel for distances up to 1."""
    out: Array = ((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1
    return out


def _outer(t: Array) -> Array:
    """The cubic kernel for distances from 1 to 2."""
    out: Array = ((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC
    return out


def _along(factor: Array, axis: int, like: Array) -> Array:
    shape = [1] * like.ndim
    shape[axis] = factor.size
    return factor.astype(like.dtype).reshape(shape)


def _ref(
    x: Array, *, size: Sequence[int], mode: str, coordinates: str, scales: Sequence[float]
) -> Array:
    out = x if mode == "nearest" else widened(x)
    for i, count in enumerate(size):
        axis = 2 + i
        whole = out
        parts = taps(x.shape[axis], count, mode, coordinates, scales[i] if scales else None)
        out = np.take(whole, parts[0][0], axis)
        if parts[0][1] is not None:
            out = sum(np.take(whole, at, axis) * _along(f, axis, whole) for at, f in parts)  # type: ignore[arg-type,assignment]  # all have factors
    return out


def _grad_ref(
    g: Array, *, size: Sequence[int], mode: str, coordinates: str, scales: Sequence[float]
) -> Array:
    out = widened(g)
    for i, length in enumerate(size):
        axis = 2 + i
        count = out.shape[axis]
        rows = np.moveaxis(out, axis, 0)
        total = np.zeros((length, rows[0].size if count else 0), out.dtype)
        for at, factor in taps(length, count, mode, coordinates, scales[i] if scales else None):
            flat = rows.reshape(count, total.shape[1])
            add_rows(
                total, at, flat if factor is None else flat * factor[:, None].astype(out.dtype)
            )
        out = np.moveaxis(total.reshape(length, *rows.shape[1:]), 0, axis)
    return out


def _vjp(g: Any, x: Any, y: Any, *, size: Sequence[Dim], **attrs: Any) -> tuple[Any]:
    return (resize_grad(g, size=x.shape[2:], **attrs),)


resize = op(
    "resize", **_RESIZE, infer=_infer, ref=_ref, vjp=_vjp,
    doc="The spatial axes brought to `size`. Output element i lies at (i + 0.5) * s - 0.5 of the "
    "input (half_pixel), at i * s (asymmetric), or so that both ends meet (align_corners), with s "
    "the ratio of the sizes. nearest takes the element before that place (half_pixel: the one it "
    "is in; align_corners: the closest), linear mixes two, cubic four.",
    size=DIMS,
)  # fmt: skip
resize_grad = op(
    "resize_grad", **_RESIZE, infer=_infer, ref=_grad_ref, inputs=("g",),
    vjp=lambda h, g, y, *, size, **attrs: (resize(h, size=g.shape[2:], **attrs),),
    doc="The gradient of resize for an input whose spatial axes have `size`.", size=DIMS,
)  # fmt: skip
