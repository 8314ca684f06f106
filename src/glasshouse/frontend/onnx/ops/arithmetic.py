"""How ONNX's arithmetic, comparison, logic and casts are spelled.

ONNX does not promote: both operands have one type. Whole numbers divide towards zero, in the core
towards minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import core, spell
from glasshouse.ir.dtype import UNSIGNED, DType, bool_, float8_e4m3fn, float8_e5m2, float32, float64
from glasshouse.ops.composite.division import trunc_divide, trunc_remainder
from glasshouse.ops.shape import reshaped

core(
    Neg="negative", Not="logical_not", Exp="exp", Log="log", Sqrt="sqrt", Sin="sin", Cos="cos",
    Tan="tan", Asin="asin", Acos="acos", Atan="atan", Sinh="sinh", Cosh="cosh", Tanh="tanh",
    Asinh="asinh", Acosh="acosh", Atanh="atanh", Erf="erf", Floor="floor", Ceil="ceil",
    Round="round", IsNaN="isnan", BitwiseNot="bitwise_not",
)  # fmt: skip


def operands(c: OnnxCall) -> tuple[Any, Any]:
    """Two operands that broadcast; opset 6 says with an attribute where the second one aligns."""
    x, y = c[0], c[1]
    axis = c.attr("axis")
    if c.opset < 7 and c.attr("broadcast", 0) and axis is not None and y.ndim:
        after = x.ndim - (axis % x.ndim) - y.ndim
        y = reshaped(y, (*y.shape, *[1] * after))
    return x, y


def _binary(op: str) -> Callable[[OnnxCall], Any]:
    def spelling(c: OnnxCall) -> Any:
        x, y = operands(c)
        return x.apply(op, y)

    return spelling


for _name, _op in {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Equal": "equal", "Less": "less",
    "LessOrEqual": "less_equal", "Greater": "greater", "GreaterOrEqual": "greater_equal",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}.items():  # fmt: skip
    spell(_name)(_binary(_op))


@spell("Abs")
def absolute(c: OnnxCall) -> Any:
    return c[0] if c.type(0).dtype in (*UNSIGNED, bool_) else c[0].apply("absolute")


@spell("Sign")
def sign(c: OnnxCall) -> Any:
    return c[0].apply("sign")


@spell("Div")
def divide(c: OnnxCall) -> Any:
    x, y = operands(c)
    if x.dtype.is_float:
        return x / y
    return x // y if x.dtype in UNSIGNED else trunc_divide(x, y)


@spell("Mod")
def mod(c: OnnxCall) -> Any:
    x, y = operands(c)
    if not c.attr("fmod", 0):
        return x % y
    if not x.dtype.is_float:
        return x % y if x.dtype in UNSIGNED else trunc_remainder(x, y)
    # The sign of the dividend: the remainder of the magnitudes with the sign put back.
    size = abs(x) % abs(y)
    return (x < 0).apply("where", -size, size)


@spell("Pow")
def power(c: OnnxCall) -> Any:
    x, y = operands(c)
    if x.dtype is y.dtype:
        return x**y
    wide = x.cast(float64) ** y.cast(float64) if y.dtype.is_float and not x.dtype.is_float else None
    return wide.cast(x.dtype) if wide is not None else x ** y.cast(x.dtype)


@spell("Reciprocal")
def reciprocal(c: OnnxCall) -> Any:
    return 1.0 / c[0]


def _folded(op: str) -> Callable[[OnnxCall], Any]:
    return lambda c: reduce(lambda x, y: x.apply(op, y), c.handles())


spell("Sum")(_folded("add"))
spell("Max")(_folded("maximum"))
spell("Min")(_folded("minimum"))
spell("Mean")(lambda c: _folded("add")(c) / float(len(c)))


@spell("Clip")
def clip(c: OnnxCall) -> Any:
    x = c[0]
    if c.opset < 11:
        return x.apply("clip", low=c.attr("min"), high=c.attr("max"))
    for place, op in ((1, "maximum"), (2, "minimum")):
        if c.has(place):
            bound = c.value(place)
            if bound is not None and bound.size == 1 and bound.dtype != object:
                number = bound.reshape(-1)[0].item()
                x = x.apply("clip", **{"low" if op == "maximum" else "high": number})
            else:
                x = x.apply(op, reshaped(c[place], ()))
    return x


@spell("BitShift")
def shift(c: OnnxCall) -> Any:
    return c[0].apply("left_shift" if c.attr("direction") == "LEFT" else "right_shift", c[1])


@spell("IsInf")
def isinf(c: OnnxCall) -> Any:
    x = c[0]
    up, down = c.attr("detect_positive", 1), c.attr("detect_negative", 1)
    if up and down:
        return x.apply("isinf")
    if not up and not down:
        return c.full(x.shape, False, bool_)
    return x.apply("equal", float("inf") if up else float("-inf"))


@spell("Where")
def where(c: OnnxCall) -> Any:
    return c[0].apply("where", c[1], c[2])


# -------------------------------------------------------------------------------------------- casts
@spell("Cast")
def cast(c: OnnxCall) -> Any:
    return converted(c[0], c.dtype("to"), c.attr("saturate", 1))


@spell("CastLike")
def cast_like(c: OnnxCall) -> Any:
    return converted(c[0], c.item(1).dtype, c.attr("saturate", 1))


def converted(x: Any, dtype: DType, saturate: int = 1) -> Any:
    """A cast. What a float8 cannot hold is its largest number; without `saturate` it is infinite,
    or NaN where the type has no infinity. The core's cast does the one or the other."""
    if dtype is float8_e5m2 and saturate:
        wide = x.cast(float32)
        return wide.apply("clip", low=-57344.0, high=57344.0).cast(dtype)
    if dtype is float8_e4m3fn and not saturate:  # half a step beyond its largest, 448
        wide = x.cast(float32)
        return (wide.apply("absolute") > 464.0).apply("where", float("nan"), wide).cast(dtype)
    return x.cast(dtype)


@spell("BitCast")
def bit_cast(c: OnnxCall) -> Any:
    wanted = c.dtype("to")
    if wanted is c.item(0).dtype:
        return c[0]
    raise Unsupported("bits read as another element type")


@spell("Identity")
def identity(c: OnnxCall) -> Any:
    return c.items[0]


@spell("Dropout")
def dropout(c: OnnxCall) -> Any:
    """Nothing at inference; the mask, where it is asked for, is all True."""
    training = c.value(2) if c.has(2) else np.zeros((), np.bool_)
    ratio = c.value(1) if c.has(1) else np.asarray(c.attr("ratio", 0.5))
    if training is None or (bool(training) and (ratio is None or float(ratio) != 0)):
        raise Unsupported("dropout in training draws other numbers than ONNX's")
    if c.outputs == 1:
        return c.items[0]
    mask_type = bool_ if c.opset >= 10 else c.item(0).dtype
    return c.items[0], c.full(c.type(0).shape, 1 if mask_type is not bool_ else True, mask_type)
