"""How ATen's functions of one real number are spelled."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.frontend.torch.aten.registry import Spelling, apply, aten, common
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.dtypes import is_integral
from glasshouse.ir.dtype import NARROW, bool_
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import broadcast_shapes


def _real(op: str, **attrs: Any) -> Spelling:
    return lambda x: common(x, to_float=True)[0].apply(op, **attrs)


for _name in (
    "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid",
):  # fmt: skip
    aten(_name)(_real(_name))
for _name, _op in {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "special_erf": "erf", "special_expit": "sigmoid",
    "special_expm1": "expm1", "special_log1p": "log1p",
}.items():  # fmt: skip
    aten(_name)(_real(_op))


def _rounded(op: str) -> Spelling:
    return lambda x: x if is_integral(x.dtype) else x.apply(op)


for _name in ("floor", "ceil", "trunc"):
    aten(_name)(_rounded(_name))
aten("fix")(_rounded("trunc"))


@aten("round", "special_round")
def round_(x: Any, decimals: int = 0) -> Any:
    if decimals == 0 or is_integral(x.dtype):
        return x if is_integral(x.dtype) else x.apply("round")
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return (x * scale).apply("round") / scale
    return (x / scale).apply("round") * scale


@aten("frexp")
def frexp(x: Any) -> Any:
    """x as a number from 1/2 to 1, and the power of two that it is multiplied with."""
    some = x.apply("not_equal", 0.0) & (abs(x) < math.inf)
    safe = apply("where", some, x, 1.0)
    # Divided by half of that power, which is never infinite, and halved.
    power = (abs(safe).apply("log") * (1.0 / math.log(2.0))).apply("floor")
    half = abs(safe / apply("power", 2.0, power))
    # The logarithm may be rounded to the wrong side of a whole number.
    power = power + (half >= 2.0).cast(x.dtype) - (half < 1.0).cast(x.dtype)
    mantissa = safe / apply("power", 2.0, power) * 0.5
    return apply("where", some, mantissa, x), apply("where", some, power + 1.0, 0.0).cast("int32")


@aten("frac")
def frac(x: Any) -> Any:
    return x - x.apply("trunc")


@aten("exp2", "special_exp2")
def exp2(x: Any) -> Any:
    return apply("power", 2.0, common(x, to_float=True)[0])


def _log(base: float) -> Spelling:
    return lambda x: common(x, to_float=True)[0].apply("log") * (1.0 / math.log(base))


aten("log2")(_log(2.0))
aten("log10")(_log(10.0))


@aten("erfc", "special_erfc")
def erfc(x: Any) -> Any:
    return 1.0 - common(x, to_float=True)[0].apply("erf")


@aten("angle")
def angle(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    return apply("where", x < 0.0, math.pi, apply("where", x.apply("isnan"), x, 0.0))


@aten("logit", "special_logit")
def logit(x: Any, eps: float | None = None) -> Any:
    x = common(x, to_float=True)[0]
    if eps is not None:
        x = x.apply("clip", low=eps, high=1.0 - eps)
    return (x / (1.0 - x)).apply("log")


@aten("sinc", "special_sinc")
def sinc(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    zero = x.apply("equal", 0.0)
    # Half floats hold pi to three digits, which 30 half turns multiply.
    wide = x.cast("float32") if x.dtype in NARROW else x
    angle = apply("where", zero, 1.0, wide) * math.pi
    return apply("where", zero, 1.0, angle.apply("sin") / angle).cast(x.dtype)


aten("deg2rad")(lambda x: common(x, to_float=True)[0] * (math.pi / 180.0))
aten("rad2deg")(lambda x: common(x, to_float=True)[0] * (180.0 / math.pi))


@aten("isnan")
def isnan(x: Any) -> Any:
    return x.apply("not_equal", x) if is_integral(x.dtype) else x.apply("isnan")


@aten("isinf")
def isinf(x: Any) -> Any:
    return x.apply("not_equal", x) if is_integral(x.dtype) else x.apply("isinf")


@aten("isfinite")
def isfinite(x: Any) -> Any:
    return x.apply("equal", x) if is_integral(x.dtype) else abs(x) < math.inf


aten("isposinf")(lambda x: x.apply("equal", math.inf))
aten("isneginf")(lambda x: x.apply("equal", -math.inf))


@aten("signbit")
def signbit(x: Any) -> Any:
    if x.dtype is bool_ or is_integral(x.dtype):
        return x.cast("int64") < 0
    return apply("where", x.apply("equal", 0.0), apply("divide", 1.0, x), x) < 0.0


@aten("nan_to_num")
def nan_to_num(
    x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    if is_integral(x.dtype):
        return x
    largest = {"float64": 1.7976931348623157e308, "float16": 65504.0}.get(
        x.dtype.name, 3.3895313892515355e38 if x.dtype.name == "bfloat16" else 3.4028234663852886e38
    )
    out = apply("where", x.apply("isnan"), 0.0 if nan is None else float(nan), x)
    high = largest if posinf is None else float(posinf)
    low = -largest if neginf is None else float(neginf)
    out = apply("where", x.apply("equal", math.inf), high, out)
    return apply("where", x.apply("equal", -math.inf), low, out)


@aten("entr", "special_entr")
def entr(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    some = x > 0.0
    logs = apply("where", some, x, 1.0).apply("log")
    inside = apply("where", some, -(x * logs), 0.0)
    return apply("where", x < 0.0, -math.inf, apply("where", x.apply("isnan"), x, inside))


@aten("polar")
def polar(size: Any, angle: Any) -> Any:
    return joined(size * angle.apply("cos"), size * angle.apply("sin"))


@aten("complex")
def complex_(real: Any, imaginary: Any) -> Any:
    shape = broadcast_shapes([real.shape, imaginary.shape])
    return joined(expanded(real, shape), expanded(imaginary, shape))


aten("real")(lambda x: x.parts()[0] if isinstance(x, Complex) else x)
aten("imag")(lambda x: x.parts()[1])
aten("view_as_real")(lambda x: x.pairs)
aten("view_as_complex")(Complex)


@aten("conj", "_conj", "conj_physical", "_conj_physical")
def conj(x: Any) -> Any:
    if not isinstance(x, Complex):
        return x
    a, b = x.parts()
    return joined(a, -b)
