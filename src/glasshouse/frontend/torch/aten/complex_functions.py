"""Functions of complex numbers: sizes, angles, roots, logarithms, exponentials, powers.

Where a real formula has no gradient at zero (a root, an angle) the gradient is zero there, as
PyTorch's.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.complex_arithmetic import (
    add,
    div,
    filled,
    is_zero,
    joined_parts,
    mul,
    reciprocal,
    scale_of,
)
from glasshouse.frontend.torch.aten.registry import (
    apply,
    complex_math,
    is_handle,
)
from glasshouse.frontend.torch.complex import Complex, joined


# -------------------------------------------------------------------------------- size and angle
@complex_math("abs", "absolute")
def absolute(x: Complex) -> Any:
    a, b = x.parts()
    scale = scale_of(a, b)
    c, d = a * scale, b * scale
    total = c * c + d * d
    zero = total.apply("equal", 0.0)
    size = apply("where", zero, 1.0, total).apply("sqrt") / scale
    size = apply("where", zero, 0.0, size)
    return apply("where", a.apply("isinf") | b.apply("isinf"), math.inf, size)  # as in C: not NaN


def _signbit(x: Any) -> Any:
    """Of zeros too, whose sign only their reciprocal shows."""
    return apply("where", x.apply("equal", 0.0), apply("divide", 1.0, x), x) < 0.0


@complex_math("angle")
def angle(x: Complex) -> Any:
    a, b = x.parts()
    zero = is_zero(a, b)
    # At zero the signs of the zeros decide, which have no gradient.
    below, turned = (apply("divide", 1.0, apply("where", zero, p, 1.0)) < 0.0 for p in (a, b))
    half = apply("where", turned, -math.pi, math.pi).cast(a.dtype)
    at_zero = apply("where", below, half, apply("where", turned, -0.0, 0.0).cast(a.dtype))
    inside = apply("where", zero, 0.0, b).apply("atan2", apply("where", zero, 1.0, a))
    return apply("where", zero, at_zero, inside)


@complex_math("sgn")
def sgn(x: Complex) -> Complex:
    size = absolute(x)
    zero = size.apply("equal", 0.0)
    unit = div(x, apply("where", zero, 1.0, size))
    return joined(*(apply("where", zero, 0.0, part) for part in unit.parts()))


@complex_math("log")
def log(x: Complex) -> Complex:
    return joined(absolute(x).apply("log"), angle(x))


@complex_math("log2")
def log2(x: Complex) -> Any:
    return mul(log(x), 1.0 / math.log(2.0))


@complex_math("log10")
def log10(x: Complex) -> Any:
    return mul(log(x), 1.0 / math.log(10.0))


@complex_math("log1p")
def log1p(x: Complex) -> Any:
    """Of small numbers by |1 + x|^2 - 1, in which nothing cancels."""
    a, b = x.parts()
    whole = log(add(x, 1.0)).parts()
    small = (abs(a) < 0.25) & (abs(b) < 0.25)
    a, b = (apply("where", small, p, 0.0) for p in (a, b))
    near = (a * (a + 2.0) + b * b).apply("log1p") * 0.5
    return joined(apply("where", small, near, whole[0]), whole[1])


@complex_math("sqrt")
def sqrt(x: Complex) -> Complex:
    """Through the half that does not cancel: of |x| + |real part|."""
    a, b = x.parts()
    zero = is_zero(a, b)
    safe = joined(apply("where", zero, 1.0, a), b)
    root = ((absolute(safe) + abs(safe.parts()[0])) * 0.5).apply("sqrt")
    other = b / (root * 2.0)
    left = a < 0.0
    turned = apply("where", _signbit(b), -root, root)
    real = apply("where", left, abs(other), root)
    return joined(apply("where", zero, 0.0, real), apply("where", left, turned, other))


@complex_math("rsqrt")
def rsqrt(x: Complex) -> Any:
    return reciprocal(sqrt(x))


# ------------------------------------------------------------------------------- of the exponential
@complex_math("exp")
def exp(x: Complex) -> Complex:
    a, b = x.parts()
    size = a.apply("exp")
    return joined(size * b.apply("cos"), size * b.apply("sin"))


@complex_math("expm1")
def expm1(x: Complex) -> Complex:
    """exp(a) cos(b) - 1 without cancelling: expm1(a) cos(b) - 2 sin(b/2)^2."""
    a, b = x.parts()
    half = (b * 0.5).apply("sin")
    real = a.apply("expm1") * b.apply("cos") - half * half * 2.0
    return joined(real, a.apply("exp") * b.apply("sin"))


@complex_math("exp2")
def exp2(x: Complex) -> Any:
    return exp(mul(x, math.log(2.0)))


@complex_math("sin")
def sin(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("sin") * b.apply("cosh"), a.apply("cos") * b.apply("sinh"))


@complex_math("cos")
def cos(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("cos") * b.apply("cosh"), -(a.apply("sin") * b.apply("sinh")))


@complex_math("sinh")
def sinh(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("sinh") * b.apply("cos"), a.apply("cosh") * b.apply("sin"))


@complex_math("cosh")
def cosh(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("cosh") * b.apply("cos"), a.apply("sinh") * b.apply("sin"))


@complex_math("tanh")
def tanh(x: Complex) -> Complex:
    """By the real tangent, which does not overflow."""
    a, b = x.parts()
    t, c, s = a.apply("tanh"), b.apply("cos"), b.apply("sin")
    below = c * c + s * s * t * t
    return joined(t / below, (1.0 - t * t) * s * c / below)


@complex_math("tan")
def tan(x: Complex) -> Any:
    a, b = x.parts()
    c, d = tanh(joined(-b, a)).parts()
    return joined(d, -c)


@complex_math("sigmoid")
def sigmoid(x: Complex) -> Any:
    """By the hyperbolic tangent of half of it, which has no overflow."""
    c, d = tanh(mul(x, 0.5)).parts()
    return joined(c * 0.5 + 0.5, d * 0.5)


@complex_math("silu")
def silu(x: Complex) -> Any:
    return mul(x, sigmoid(x))


_MOST = 8
"""Powers that are products; others go by the logarithm."""


@complex_math("pow")
def power(x: Any, y: Any) -> Any:
    if isinstance(y, float) and y.is_integer():
        y = int(y)
    if isinstance(x, Complex) and isinstance(y, int) and abs(y) <= _MOST and y:
        out = x
        for _ in range(abs(y) - 1):
            out = mul(out, x)
        return reciprocal(out) if y < 0 else out
    if isinstance(x, Complex) and y == 0.5:
        return sqrt(x)
    if isinstance(x, Complex) and y == 0:
        return joined(filled(x.parts()[0], 1.0), filled(x.parts()[0], 0.0))
    if isinstance(x, (int, float, complex)):
        if x == 0:
            raise Unsupported("a power of zero with a complex exponent")
        return exp(mul(y, cmath.log(x)))
    base = x if isinstance(x, Complex) else joined_parts(x, 0.0)
    zero = is_zero(*base.parts())
    a, b = base.parts()
    safe = joined(apply("where", zero, 1.0, a), b)
    c, d = exp(mul(log(safe), y)).parts()
    if isinstance(y, (Complex, complex)) or is_handle(y):
        return joined(apply("where", zero, 0.0, c), apply("where", zero, 0.0, d))
    at_zero = 0.0 if y > 0 else math.nan
    return joined(apply("where", zero, at_zero, c), apply("where", zero, at_zero, d))
