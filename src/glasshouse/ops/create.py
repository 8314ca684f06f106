"""The ops that make a tensor from nothing but attributes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import DIMS, NUMBER, OPT_DTYPE, Attr
from glasshouse.ir.dim import Dim, SymDim, dim_max, floor_div
from glasshouse.ir.dtype import DType, bool_, float32, int64
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op

_CREATE: dict[str, Any] = {
    "kind": Kind.INJECTIVE, "family": "create", "inputs": (),
    "vjp": NoGradient("it has no operands"),
}  # fmt: skip


def _scalar(given: Any) -> Any:
    return given if isinstance(given, SymDim) else NUMBER.convert(given)


SCALAR = Attr("number or size", _scalar)


def default_dtype(*values: Any) -> DType:
    """bool, int64 or float32: the weakest that holds all of these Python numbers and sizes."""
    if any(isinstance(v, float) for v in values):
        return float32
    return bool_ if all(isinstance(v, bool) for v in values) else int64


def _full(*, shape: Shape, value: Any, dtype: DType | None) -> TensorType:
    for size in shape:
        if isinstance(size, int) and size < 0:
            raise ShapeError(f"size {size} in shape {list(shape)} is negative")
    return tensor_type(dtype or default_dtype(value), shape)


def _full_ref(*, shape: tuple[int, ...], value: Any, dtype: DType | None) -> Array:
    return np.full(shape, value, (dtype or default_dtype(value)).carrier)


full = op(
    "full", **_CREATE, infer=_full, ref=_full_ref, doc="A tensor whose elements are all `value`.",
    shape=DIMS, value=SCALAR, dtype=OPT_DTYPE,
)  # fmt: skip


def _count(start: Any, stop: Any, step: Any) -> Dim:
    if step == 0:
        raise ShapeError("step is 0")
    if isinstance(start, SymDim) or isinstance(stop, SymDim):
        if not isinstance(step, int) or isinstance(start, float) or isinstance(stop, float):
            raise TypeMismatch(f"sizes and fractions do not mix: {start}, {stop}, {step}")
        span: Dim = stop - start if step > 0 else start - stop
        return dim_max(0, floor_div(span + (abs(step) - 1), abs(step)))
    return int(max(0, math.ceil((stop - start) / step)))


def _arange(*, start: Any, stop: Any, step: Any, dtype: DType | None) -> TensorType:
    return tensor_type(dtype or default_dtype(start, stop, step, 0), (_count(start, stop, step),))


def _arange_ref(*, start: Any, stop: Any, step: Any, dtype: DType | None) -> Array:
    # start + i * step in float64, as PyTorch computes it, so that the last element is no sum of
    # rounding errors.
    wanted = (dtype or default_dtype(start, stop, step, 0)).carrier
    exact = isinstance(start, int) and isinstance(step, int)
    count = _count(start, stop, step)
    assert isinstance(count, int)  # the executor has put numbers in the place of symbols
    steps: Array = np.arange(count, dtype=np.int64 if exact else np.float64) * step
    out: Array = start + steps
    return out.astype(wanted)


arange = op(
    "arange", **_CREATE, infer=_arange, ref=_arange_ref,
    doc="start, start + step, ... below (for a negative step, above) stop.",
    start=SCALAR(0), stop=SCALAR, step=NUMBER(1), dtype=OPT_DTYPE,
)  # fmt: skip


def full_near(handle: Any, shape: Shape, value: Any, dtype: DType) -> Any:
    """A `full` in the graph that `handle` belongs to."""
    node = full.emit(handle.builder, [], {"shape": shape, "value": value, "dtype": dtype})
    return handle.builder.wrap(node.output)


def arange_near(handle: Any, stop: Dim, start: Dim = 0, step: int = 1, dtype: DType = int64) -> Any:
    """An `arange` in the graph that `handle` belongs to."""
    attrs = {"start": start, "stop": stop, "step": step, "dtype": dtype}
    return handle.builder.wrap(arange.emit(handle.builder, [], attrs).output)


def zeros_like_type(handle: Any) -> Any:
    """Zeros of the handle's shape and element type."""
    return full_near(handle, handle.shape, 0, handle.dtype)
