"""Decides arithmetic, comparison and logic: one output element from the operands' at its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.ir.attrs import DTYPE
from glasshouse.ir.dtype import DType
from glasshouse.ir.op import Kind, NoGradient, Operands
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import broadcast, broadcast_to_bool, same_shape, unbroadcast

_EW: dict[str, Any] = {"kind": Kind.ELEMENTWISE, "family": "elementwise"}
_BINARY: dict[str, Any] = {
    **_EW, "infer": broadcast, "inputs": ("x", "y"), "operands": Operands.COMMON,
}  # fmt: skip
_COMPARE: dict[str, Any] = {
    **_BINARY, "infer": broadcast_to_bool, "vjp": NoGradient("its output is not differentiable"),
}  # fmt: skip


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    return tensor_type(dtype, x.shape)


add = op(
    "add", **_BINARY, ref=np.add, doc="x + y",
    vjp=lambda g, x, y, z: (unbroadcast(g, x), unbroadcast(g, y)),
)  # fmt: skip
subtract = op(
    "subtract", **_BINARY, ref=np.subtract, doc="x - y",
    vjp=lambda g, x, y, z: (unbroadcast(g, x), unbroadcast(-g, y)),
)  # fmt: skip
multiply = op(
    "multiply", **_BINARY, ref=np.multiply, doc="x * y",
    vjp=lambda g, x, y, z: (unbroadcast(g * y, x), unbroadcast(g * x, y)),
)  # fmt: skip
greater = op("greater", **_COMPARE, ref=np.greater, doc="x > y")
negative = op("negative", **_EW, infer=same_shape, ref=np.negative, vjp=lambda g, x, y: (-g,), doc="-x")
relu = op(
    "relu", **_EW, infer=same_shape, ref=lambda x: np.maximum(x, 0), doc="max(x, 0)",
    vjp=lambda g, x, y: (g * (x > 0),),
)  # fmt: skip
cast = op(
    "cast", **_EW, infer=_cast_type, ref=lambda x, *, dtype: x.astype(dtype.carrier),
    vjp=lambda g, x, y, *, dtype: (g.cast(x.dtype) if x.dtype.is_float else None,),
    doc="x with another element type", dtype=DTYPE,
)  # fmt: skip
