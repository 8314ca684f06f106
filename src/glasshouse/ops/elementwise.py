"""Arithmetic, comparison and logic: one output element from the operands' at its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError, TypeMismatch
from glasshouse.ir.attrs import BOOL, DTYPE, NUMBER, Attr
from glasshouse.ir.dtype import Category, DType, bool_
from glasshouse.ir.op import Kind, NoGradient, Op, Operands
from glasshouse.ir.sources import CONSTANT
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import (
    broadcast,
    broadcast_shapes,
    broadcast_to_bool,
    same_shape,
    unbroadcast,
)

_STEPS = NoGradient("its output is not differentiable")


# ------------------------------------------------------------------------------------- shape rules
def _not_bool(*types: TensorType, **_: Any) -> TensorType:
    out = broadcast(*types)
    if out.dtype is bool_:
        raise TypeMismatch("it is not defined for bool; cast to an integer type first")
    return out


def _integers(*types: TensorType, **_: Any) -> TensorType:
    out = broadcast(*types)
    if out.dtype.category is not Category.INT:
        raise TypeMismatch(f"it takes integers, not {out.dtype}")
    return out


def _bits(*types: TensorType, **_: Any) -> TensorType:
    out = broadcast(*types)
    if out.dtype.is_float:
        raise TypeMismatch(f"it takes integers or bool, not {out.dtype}")
    return out


def _to_bool(x: TensorType) -> TensorType:
    return tensor_type(bool_, x.shape)


_UNARY: dict[str, Any] = {"kind": Kind.ELEMENTWISE, "family": "elementwise", "infer": same_shape}
_BINARY: dict[str, Any] = {
    **_UNARY, "infer": broadcast, "inputs": ("x", "y"), "operands": Operands.COMMON,
}  # fmt: skip
_NUMBERS: dict[str, Any] = {**_BINARY, "infer": _not_bool}
_COMPARE: dict[str, Any] = {**_BINARY, "infer": broadcast_to_bool, "vjp": _STEPS}
_BITWISE: dict[str, Any] = {**_BINARY, "infer": _bits, "vjp": NoGradient("it takes no floats")}


# -------------------------------------------------------------------------------------- arithmetic
add = op(
    "add", narrows=True,
    **_BINARY, ref=np.add, doc="x + y; for bool, either of them",
    vjp=lambda g, x, y, z: (unbroadcast(g, x), unbroadcast(g, y)),
)  # fmt: skip
subtract = op(
    "subtract", narrows=True, onnx="Sub",
    **_NUMBERS, ref=np.subtract, doc="x - y",
    vjp=lambda g, x, y, z: (unbroadcast(g, x), unbroadcast(-g, y)),
)  # fmt: skip
multiply = op(
    "multiply", narrows=True,
    **_BINARY, ref=np.multiply, doc="x * y; for bool, both of them",
    vjp=lambda g, x, y, z: (unbroadcast(g * y, x), unbroadcast(g * x, y)),
)  # fmt: skip


def _divide_vjp(g: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any]:
    share = g / y
    return unbroadcast(share, x), unbroadcast(-share * z, y)


divide = op(
    "divide", cost=4, onnx="Div",
    **{**_BINARY, "operands": Operands.FLOAT}, ref=np.divide, vjp=_divide_vjp,
    doc="x / y, always floating: integers become float32",
)  # fmt: skip
BY_ZERO = "an integer was divided by zero"


def _divisor(x: Array, y: Array) -> Array:
    """y, unless an integer would be divided by a zero in it."""
    if y.dtype.kind in "iu" and x.size and not y.all():
        raise ExecutionError(BY_ZERO)
    return y


floor_divide = op(
    "floor_divide", cost=6,
    **_NUMBERS, ref=lambda x, y: np.floor_divide(x, _divisor(x, y)),
    vjp=lambda g, x, y, z: (None, None),
    doc="x / y rounded towards minus infinity, as Python's //; an integer by 0 is an error",
)  # fmt: skip


def _remainder_ref(x: Array, y: Array) -> Array:
    out: Array = np.remainder(x, _divisor(x, y))
    if out.dtype.kind != "f":
        return out
    return np.where(out == 0, np.copysign(out, x), out)  # the sign of a zero is PyTorch's


remainder = op(
    "remainder", cost=8,
    **_NUMBERS, ref=_remainder_ref,
    doc="x - y * floor(x / y), with the sign of y, as Python's %; an integer by 0 is an error",
    vjp=lambda g, x, y, z: (unbroadcast(g, x), unbroadcast(-g * (x // y), y)),
)  # fmt: skip


def _power_ref(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        out: Array = np.power(x, y)
        return out
    # 1 / x**-y rounded towards zero: only 1 and -1 leave something.
    odd = np.where(y % 2 == 0, 1, -1)
    below = np.where(x == 1, 1, np.where(x == -1, odd, 0)).astype(x.dtype)
    return np.where(y < 0, below, np.power(x, np.maximum(y, 0)))


def _number_in(handle: Any) -> float | None:
    """The number that a handle stands for, when it is a constant with one element."""
    node = handle.value.node
    data = node.attrs.get("data") if node.op is CONSTANT else None
    return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def _power_vjp(g: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any]:
    exponent = _number_in(y)
    if exponent is not None:
        slope = x if exponent == 2 else x ** (exponent - 1)
        return (None if exponent == 0 else unbroadcast(g * slope * exponent, x)), None
    # x**0 is 1 and 0**y is 0 (for y > 0): there the formulas would say 0 * inf.
    gx = where(equal(y, 0.0), 0.0, y * x ** (y - 1.0)) * g
    gy = where(equal(x, 0.0) & (y >= 0.0), 0.0, z * x.apply("log")) * g
    return unbroadcast(gx, x), unbroadcast(gy, y)


power = op(
    "power", cost=30, onnx="Pow",
    **_NUMBERS, ref=_power_ref, vjp=_power_vjp,
    doc="x to the power of y; for integers with negative y, rounded towards zero",
)  # fmt: skip


def _extreme_vjp(g: Any, x: Any, y: Any, beaten: Any) -> tuple[Any, Any]:
    """`beaten(a, b)`: a gives way to b. With NaN neither does, and both get the gradient."""
    shared = where(equal(x, y), g * 0.5, g)
    gx, gy = where(beaten(x, y), 0.0, shared), where(beaten(y, x), 0.0, shared)
    return unbroadcast(gx, x), unbroadcast(gy, y)


maximum = op(
    "maximum", narrows=True,
    **_BINARY, ref=np.maximum, vjp=lambda g, x, y, z: _extreme_vjp(g, x, y, less),
    doc="The larger of x and y; NaN if either is NaN. Equal operands share the gradient",
)  # fmt: skip
minimum = op(
    "minimum", narrows=True,
    **_BINARY, ref=np.minimum, vjp=lambda g, x, y, z: _extreme_vjp(g, x, y, greater),
    doc="The smaller of x and y; NaN if either is NaN. Equal operands share the gradient",
)  # fmt: skip
negative = op(
    "negative",
    narrows=True,
    onnx="Neg",
    **{**_UNARY, "infer": _not_bool},
    ref=np.negative,
    vjp=lambda g, x, y: (-g,),
    doc="-x",
)
absolute = op(
    "absolute", narrows=True, never_negative=True, onnx="Abs",
    **{**_UNARY, "infer": _not_bool}, ref=np.absolute,
    vjp=lambda g, x, y: (g * x.apply("sign"),), doc="|x|; its gradient at 0 is 0",
)  # fmt: skip
sign = op(
    "sign", **{**_UNARY, "infer": _not_bool}, vjp=lambda g, x, y: (None,),
    ref=lambda x: np.where(x > 0, 1, np.where(x < 0, -1, 0)),
    doc="1, 0 or -1; 0 for NaN, as in PyTorch",
)  # fmt: skip

# -------------------------------------------------------------------------------------- comparison
less: Op = op("less", **_COMPARE, ref=np.less, doc="x < y")
less_equal = op("less_equal", **_COMPARE, ref=np.less_equal, doc="x <= y")
greater: Op = op("greater", **_COMPARE, ref=np.greater, doc="x > y")
greater_equal = op("greater_equal", **_COMPARE, ref=np.greater_equal, doc="x >= y")
equal = op("equal", onnx="Equal", **_COMPARE, ref=np.equal, doc="x == y; NaN equals nothing")
not_equal = op("not_equal", **_COMPARE, ref=np.not_equal, doc="x != y; NaN differs from everything")
isnan = op("isnan", **{**_UNARY, "infer": _to_bool}, ref=np.isnan, vjp=_STEPS, doc="x is NaN")
isinf = op(
    "isinf", **{**_UNARY, "infer": _to_bool}, ref=np.isinf, vjp=_STEPS, doc="x is inf or -inf"
)

# ----------------------------------------------------------------------------------- logic and bits
logical_and = op("logical_and", **_COMPARE, ref=np.logical_and, doc="x and y are not 0")
logical_or = op("logical_or", **_COMPARE, ref=np.logical_or, doc="x or y is not 0")
logical_xor = op("logical_xor", **_COMPARE, ref=np.logical_xor, doc="one of x and y is not 0")
logical_not = op(
    "logical_not", **{**_UNARY, "infer": _to_bool}, ref=np.logical_not, vjp=_STEPS, doc="x is 0"
)
bitwise_and = op("bitwise_and", **_BITWISE, ref=np.bitwise_and, doc="x & y")
bitwise_or = op("bitwise_or", **_BITWISE, ref=np.bitwise_or, doc="x | y")
bitwise_xor = op("bitwise_xor", **_BITWISE, ref=np.bitwise_xor, doc="x ^ y")
bitwise_not = op(
    "bitwise_not", **{**_UNARY, "infer": _bits}, ref=np.invert,
    vjp=NoGradient("it takes no floats"), doc="~x; for bool, not x",
)  # fmt: skip
left_shift = op(
    "left_shift", **{**_BITWISE, "infer": _integers}, ref=np.left_shift,
    doc="x << y; 0 where y is negative or not below the number of bits",
)  # fmt: skip
right_shift = op(
    "right_shift", **{**_BITWISE, "infer": _integers}, ref=np.right_shift,
    doc="x >> y, keeping the sign; where y is negative or too large, 0 or (for x < 0) -1",
)  # fmt: skip


# ---------------------------------------------------------------------------------------- selection
def _where_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if condition.dtype is not bool_:
        raise TypeMismatch(f"the condition must be bool, not {condition.dtype}")
    return tensor_type(broadcast(x, y).dtype, broadcast_shapes([condition.shape, x.shape, y.shape]))


where: Op = op(
    "where", narrows=True, onnx="Where",
    **{**_UNARY, "infer": _where_type}, inputs=("condition", "x", "y"),
    operands=Operands.BRANCHES, ref=np.where, doc="x where the condition holds, else y",
    vjp=lambda g, c, x, y, z: (
        None, unbroadcast(where(c, g, 0.0), x), unbroadcast(where(c, 0.0, g), y),
    ),
)  # fmt: skip


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    return tensor_type(dtype, x.shape)


cast = op(
    "cast", **{**_UNARY, "infer": _cast_type}, ref=lambda x, *, dtype: x.astype(dtype.carrier),
    vjp=lambda g, x, y, *, dtype: (g.cast(x.dtype) if x.dtype.is_float else None,),
    doc="x with another element type; floats lose their fraction when they become integers",
    dtype=DTYPE,
)  # fmt: skip


def _clip_type(
    x: TensorType, *, low: float | None, high: float | None, flat_bounds: bool
) -> TensorType:
    if x.dtype is bool_:
        raise TypeMismatch("it is not defined for bool")
    for bound in (low, high):
        if bound is not None and not x.dtype.is_float and bound != math.floor(bound):
            raise TypeMismatch(f"the bound {bound} is no {x.dtype}; cast x to a floating type")
    return x


def _clip_ref(x: Array, *, low: float | None, high: float | None, flat_bounds: bool) -> Array:
    out = x
    if low is not None:
        out = np.maximum(out, np.asarray(bound_in(low, x.dtype), x.dtype))
    return out if high is None else np.minimum(out, np.asarray(bound_in(high, x.dtype), x.dtype))


def bound_in(bound: float, dtype: np.dtype[Any]) -> float:
    """The bound of a clip as a number of the type of x; one outside its range acts as the end of
    the range."""
    if dtype.kind == "f":
        return bound
    limits = np.iinfo(dtype)
    return int(min(max(int(bound), limits.min), limits.max))


def _clip_vjp(
    g: Any, x: Any, y: Any, *, low: float | None, high: float | None, flat_bounds: bool
) -> tuple[Any]:
    inside = [x > low if flat_bounds else x >= low] if low is not None else []
    inside += [x < high if flat_bounds else x <= high] if high is not None else []
    if not inside:
        return (g,)
    return (where(inside[0] if len(inside) == 1 else inside[0] & inside[1], g, 0.0),)


def _optional_number(given: Any) -> Any:
    return None if given is None else NUMBER.convert(given)


_OPT_NUMBER = Attr("number?", _optional_number, None)
clip = op(
    "clip", cost=2, narrows=True,
    **{**_UNARY, "infer": _clip_type}, ref=_clip_ref, vjp=_clip_vjp,
    doc="x, at least `low` and at most `high`; NaN stays NaN, and high wins when low > high",
    low=_OPT_NUMBER, high=_OPT_NUMBER,
    flat_bounds=BOOL(False, "no gradient where x is a bound itself, as hardtanh has it"),
)  # fmt: skip
