"""How ATen's arithmetic, comparison and logic are spelled."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.frontend.torch.aten.registry import (
    Spelling,
    apply,
    aten,
    common,
    is_handle,
    number,
    scalar,
)
from glasshouse.frontend.torch.dtypes import is_integral
from glasshouse.ir.dtype import UNSIGNED, Category, bool_, float32, float64, int64
from glasshouse.ops import composite
from glasshouse.ops.composite.division import trunc_divide, trunc_remainder
from glasshouse.ops.control import body_of, while_loop
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import broadcast_shapes


def _binary(op: str, to_float: bool = False) -> Spelling:
    return lambda x, y: apply(op, *common(x, y, to_float=to_float))


for _name, _op in {
    "maximum": "maximum", "minimum": "minimum", "max.other": "maximum", "min.other": "minimum",
    "floor_divide": "floor_divide", "remainder": "remainder",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "eq": "equal", "ne": "not_equal", "less": "less", "less_equal": "less_equal",
    "greater": "greater", "greater_equal": "greater_equal", "not_equal": "not_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "__lshift__": "left_shift", "__rshift__": "right_shift",
}.items():  # fmt: skip
    aten(_name)(_binary(_op))
aten("atan2", "arctan2")(_binary("atan2", to_float=True))


def _scaled(y: Any, alpha: Any) -> Any:
    if is_handle(alpha):  # a number that was computed
        return y * alpha.cast(y.dtype)
    if alpha == 1 or y is None:
        return y
    return y * number(alpha, y.dtype) if is_handle(y) else y * alpha


@aten("add")
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = common(x, y)
    return apply("add", x, _scaled(y, alpha))


@aten("sub", "subtract")
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = common(x, y)
    return apply("subtract", x, _scaled(y, alpha))


@aten("rsub")
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = common(x, y)
    return apply("subtract", y, _scaled(x, alpha))


@aten("mul", "multiply")
def mul(x: Any, y: Any) -> Any:
    return apply("multiply", *common(x, y))


@aten("div", "divide", "true_divide")
def div(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return apply("divide", *common(x, y, to_float=True))
    x, y = common(x, y)
    if rounding_mode == "floor":
        return apply("floor_divide", x, y)
    if is_integral(x.dtype if is_handle(x) else y.dtype):
        return trunc_divide(
            x if is_handle(x) else scalar(y, x, y.dtype), y
        )  # not through a float, which cannot hold them all
    return apply("divide", x, y).apply("trunc")


@aten("fmod")
def fmod(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if is_integral(x.dtype if is_handle(x) else y.dtype):
        return trunc_remainder(x if is_handle(x) else scalar(y, x, y.dtype), y)
    rest = apply("remainder", abs(x) if is_handle(x) else math.fabs(x), abs(y))
    of_zero = apply("subtract", x, rest)  # which has a sign that no comparison shows
    rest = apply("where", apply("less", x, 0), -rest, rest)
    return apply("where", apply("equal", x, 0), of_zero, rest)


@aten("float_power")
def float_power(x: Any, y: Any) -> Any:
    return power(*common(x, y, dtype=float64))


@aten("pow")
def power(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    if not is_handle(y):
        if y == 2:
            return x * x
        if y == 0.5 and not is_integral(x.dtype):
            return x.apply("sqrt")
        if y == 1:
            return x
    return apply("power", x, y)


@aten("addcmul")
def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    x, a, b = common(x, a, b)
    return x + _scaled(a * b, value)


@aten("addcdiv")
def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    x, a, b = common(x, a, b)
    return x + _scaled(a / b, value)


@aten("lerp")
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return composite.lerp(*common(x, end, weight))


@aten("neg", "negative")
def neg(x: Any) -> Any:
    return -x


@aten("abs", "absolute")
def absolute(x: Any) -> Any:
    return x if x.dtype is bool_ else abs(x)


@aten("sign", "sgn")
def sign(x: Any) -> Any:
    return x if x.dtype is bool_ else x.apply("sign")


@aten("positive")
def positive(x: Any) -> Any:
    return x


aten("bitwise_not")(lambda x: x.apply("bitwise_not"))
aten("logical_not")(lambda x: x.apply("logical_not"))
aten("square")(lambda x: x * x)
aten("reciprocal")(lambda x: apply("divide", 1.0, common(x, to_float=True)[0]))


@aten("clamp", "clip")
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    x, low, high = common(x, low, high)
    if not is_handle(low) and not is_handle(high):
        if x.dtype in UNSIGNED:  # a bound below zero wraps, as it does in PyTorch
            low, high = (b if b is None or b >= 0 else b % 2**x.dtype.bits for b in (low, high))
        return x.apply("clip", low=low, high=high)
    if low is not None:  # x itself at a bound: it has the gradient there
        x = apply("where", x >= low, x, apply("maximum", x, low))
    return x if high is None else apply("where", x <= high, x, apply("minimum", x, high))


aten("clamp_min")(clamp)
aten("clamp_max")(lambda x, high: clamp(x, None, high))


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition: Any, x: Any, y: Any) -> Any:
    if is_handle(x) or is_handle(y):
        x, y = common(x, y)
    elif isinstance(x, float) or isinstance(y, float):
        x, y = float(x), float(y)
    return apply("where", condition.cast(bool_), x, y)


@aten("fmax")
def fmax(x: Any, y: Any) -> Any:
    return _number_of("greater_equal", x, y)


@aten("fmin")
def fmin(x: Any, y: Any) -> Any:
    return _number_of("less_equal", x, y)


def _number_of(comparison: str, x: Any, y: Any) -> Any:
    """x where it compares like this with y, and beside NaN the number; of equals it is x that has
    the gradient."""
    x, y = common(x, y)
    first = apply(comparison, x, y)
    if not is_integral(x.dtype):
        first = apply("logical_or", first, y.apply("isnan"))
    return apply("where", first, x, y)


@aten("hypot")
def hypot(x: Any, y: Any) -> Any:
    """Scaled by the larger one, so that squares neither overflow nor vanish."""
    x, y = (abs(v) for v in common(x, y))
    high, low = apply("maximum", x, y), apply("minimum", x, y)
    endless = apply("logical_or", x.apply("isinf"), y.apply("isinf"))
    flat = apply("logical_or", high.apply("equal", 0.0), endless)
    part = low / apply("where", flat, 1.0, high)
    out = apply("where", flat, high + low, high * (part * part + 1.0).apply("sqrt"))
    return apply("where", endless, math.inf, out)  # as in C: infinity wins over NaN


@aten("xlogy", "special_xlogy")
def xlogy(x: Any, y: Any) -> Any:
    x, y = common(x, y, to_float=True)
    zero = apply("equal", x, 0.0) if is_handle(x) else None
    if is_handle(y):  # of 1 where x is 0: neither value nor gradient asks for it
        log = (y if zero is None else apply("where", zero, 1.0, y)).apply("log")
    else:
        log = math.log(y)
    if zero is None:
        return log * float(x) if x else apply("where", y.apply("isnan"), y, 0.0)
    product = apply("where", zero, 0.0, apply("multiply", x, log))
    return apply("where", y.apply("isnan"), y, product) if is_handle(y) else product


@aten("copysign")
def copysign(x: Any, y: Any) -> Any:
    x, y = common(x, y, to_float=True)
    size = abs(x)
    if not is_handle(y):
        return size if math.copysign(1.0, y) > 0 else -size
    # A zero has a sign, which only its reciprocal shows.
    below = apply("where", y.apply("equal", 0.0), apply("divide", 1.0, y), y) < 0.0
    return apply("where", below, -size, size)


@aten("heaviside")
def heaviside(x: Any, values: Any) -> Any:
    step = (x > 0).cast(x.dtype)
    return apply("where", x.apply("equal", 0), values, step)


@aten("isclose")
def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    x, y = common(x, y)
    same = x.apply("equal", y)
    if equal_nan and not is_integral(x.dtype):
        same = same | (x.apply("isnan") & y.apply("isnan"))
    if is_integral(x.dtype):
        x, y = x.cast(float32), y.cast(float32)
    apart = abs(x - y)
    near = apart <= abs(y) * rtol + atol
    return same | (near & (apart < math.inf))


@aten("dist")
def dist(x: Any, y: Any, p: float = 2.0) -> Any:
    from glasshouse.ops.composite import norm

    x, y = common(x, y)
    return norm(x - y, p)


@aten("logaddexp")
def logaddexp(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    high = apply("maximum", x, y)
    # Both infinite alike: their difference is no number.
    finite = abs(high) < math.inf
    apart = apply("where", finite, x - y, 0.0)
    return apply("where", finite, high + (-abs(apart)).apply("exp").apply("log1p"), high)


@aten("logaddexp2")
def logaddexp2(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    return logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


@aten("gcd")
def gcd(x: Any, y: Any) -> Any:
    """Euclid's algorithm on all elements, until none has a rest."""
    x, y = (abs(v) for v in common(x, y))
    shape = broadcast_shapes([x.shape, y.shape])
    x, y = expanded(x, shape), expanded(y, shape)

    def rest(a: Any, b: Any) -> Any:
        some = b.apply("not_equal", 0)
        safe = apply("where", some, b, full_near(b, (), 1, b.dtype))
        return apply("where", some, b, a), apply("where", some, a % safe, b)

    def goes_on(a: Any, b: Any) -> Any:
        return b.apply("not_equal", 0).apply("any")

    loop = while_loop(x, y, test=body_of(goes_on, x, y), body=body_of(rest, x, y))
    return loop[0]


@aten("lcm")
def lcm(x: Any, y: Any) -> Any:
    x, y = common(x, y)
    shared = gcd(x, y)
    safe = apply("maximum", shared, full_near(shared, (), 1, shared.dtype))
    return abs(apply("floor_divide", x, safe) * y)


def as_index(x: Any) -> Any:
    """Indices in a type that the core ops take."""
    return x if x.dtype.category is Category.INT and x.dtype.bits >= 32 else x.cast(int64)
