"""Fourier transforms along an axis; complex numbers are pairs along a last axis.

None of them scales. A real signal's transform is given by its first half; the gradient of each is
another of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, INT, STR
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32, float64
from glasshouse.ir.op import Kind, Op
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.declare import op
from glasshouse.ops.elementwise import equal, logical_or, where
from glasshouse.ops.pieces import cut, pad
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of

FORMS = ("complex", "real", "half")


def _infer(x: TensorType, *, axis: int, form: str, inverse: bool, size: int) -> TensorType:
    if form not in FORMS:
        raise ShapeError(f"there is no form {form!r}; there are {', '.join(FORMS)}")
    if x.dtype not in (float32, float64):
        raise TypeMismatch(f"transforms are of float32 or float64, not of {x.dtype}")
    pairs = form != "real"
    if pairs and (x.rank < 2 or x.shape[-1] != 2):
        raise ShapeError("complex numbers are pairs along the last axis")
    lines = x.shape[:-1] if pairs else x.shape
    if not lines:
        raise ShapeError("a transform needs an axis")
    at = axis_of(axis, len(lines))
    length = lines[at]
    if not isinstance(length, int) or length < 1:
        raise ShapeError(f"the transform's length is {length}, and must be a positive number")
    if form != "complex" and inverse != (form == "half"):
        raise ShapeError("real signals are transformed forwards, halves backwards")

    def with_length(n: Dim) -> tuple[Dim, ...]:
        return tuple(n if a == at else d for a, d in enumerate(lines))

    if form == "complex":
        return x
    if form == "real":
        return tensor_type(x.dtype, (*with_length(length // 2 + 1), 2))
    if size // 2 + 1 != length or size < 1:
        raise ShapeError(f"a signal of {size} elements has {size // 2 + 1} in its half: {length}")
    return tensor_type(x.dtype, with_length(size))


def _ref(x: Array, *, axis: int, form: str, inverse: bool, size: int) -> Array:
    wide = x.astype(np.float64)
    if form == "real":
        found = np.fft.rfft(wide, axis=axis)
        return np.stack([found.real, found.imag], -1)
    given = wide[..., 0] + 1j * wide[..., 1]
    if form == "half":
        out: Array = np.fft.irfft(given, size, axis, norm="forward")
        return out
    found = (
        np.fft.ifft(given, axis=axis, norm="forward") if inverse else np.fft.fft(given, axis=axis)
    )
    return np.stack([found.real, found.imag], -1)


def _vjp(g: Any, x: Any, y: Any, *, axis: int, form: str, inverse: bool, size: int) -> tuple[Any]:
    if form == "complex":
        return (fft(g, axis=axis, inverse=not inverse),)
    rank = x.ndim if form == "real" else x.ndim - 1
    at = axis_of(axis, rank)
    if form == "real":
        n, kept = x.shape[at], g.shape[at]
        behind = [0] * g.ndim
        behind[at] = n - kept
        whole = fft(pad(g, padding=[0] * g.ndim + behind), axis=at, inverse=True)
        return (reshaped(cut(whole, rank, 0, 1), x.shape),)
    # All but the first, and the middle where there is one, stand for two.
    place = arange_near(g, size // 2 + 1)
    two, one = (full_near(g, (), v, g.dtype) for v in (2.0, 1.0))
    alone = logical_or(equal(place, 0), equal(place * 2, size))
    weight = reshaped(where(alone, one, two), (size // 2 + 1, *[1] * (rank - at)))
    return (fft(g, axis=at, form="real") * weight,)


fft: Op = op(
    "fft", kind=Kind.OPAQUE, family="fourier", infer=_infer, ref=_ref, vjp=_vjp,
    doc="The Fourier transform along an axis, not scaled. `complex`: pairs to pairs; `real`: a "
    "signal to the first half of its transform, as pairs; `half`: such a half back to the signal "
    "of `size` elements, what is imaginary at its ends being ignored. The axis of pairs does not "
    "count.",
    axis=INT(-1), form=STR("complex"), inverse=BOOL(False), size=INT(0),
)  # fmt: skip
