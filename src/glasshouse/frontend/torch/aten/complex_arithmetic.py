"""Arithmetic of complex numbers, spelled by their real and imaginary parts.

Spellings of complex numbers (functions are in `complex_functions.py`, what moves or compares
elements in `complex_tensors.py`) are looked up before those of real numbers where an operand is
complex. All are made of core ops, so they have gradients; the gradient by both parts is PyTorch's
complex gradient.
"""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import (
    apply,
    common,
    complex_math,
    is_handle,
)
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.dtypes import default_float
from glasshouse.ops import composite
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import broadcast_shapes

Parts = tuple[Any, Any]


def parts_of(x: Any) -> Parts:
    """Real and imaginary part of an operand; those of a real one or a number are a number."""
    if isinstance(x, Complex):
        return x.parts()
    if isinstance(x, complex):
        return x.real, x.imag
    return x, 0.0


def _apply(op: str, x: Any, y: Any) -> Any:
    if not is_handle(x) and not is_handle(y):
        return {"add": x + y, "subtract": x - y, "multiply": x * y}[op]
    return apply(op, *common(x, y))


def _plus(x: Any, y: Any) -> Any:
    if not is_handle(y) and y == 0:
        return x
    return y if not is_handle(x) and x == 0 else _apply("add", x, y)


def _minus(x: Any, y: Any) -> Any:
    return x if not is_handle(y) and y == 0 else _apply("subtract", x, y)


def _times(x: Any, y: Any) -> Any:
    if (not is_handle(x) and x == 0) or (not is_handle(y) and y == 0):
        return 0.0
    return _apply("multiply", x, y)


def joined_parts(real: Any, imaginary: Any) -> Complex:
    """The complex tensor of parts of which one may be a number, or be broadcast."""
    near = real if is_handle(real) else imaginary
    both = [p if is_handle(p) else filled(near, p) for p in (real, imaginary)]
    both = list(common(*both))
    shape = broadcast_shapes([p.shape for p in both])
    return joined(*(expanded(p, shape) for p in both))


def filled(near: Any, value: float) -> Any:
    """A part that is a number everywhere. It is not made of the other part, of which an infinity
    would become a NaN and a negative number a negative zero, which turns an angle."""
    dtype = near.dtype if near.dtype.is_float else default_float()
    return full_near(near, near.shape, value, dtype)


def is_zero(a: Any, b: Any) -> Any:
    return a.apply("equal", 0.0) & b.apply("equal", 0.0)


# ------------------------------------------------------------------------------------- arithmetic
@complex_math("add")
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(mul(y, alpha) if alpha != 1 else y)
    return joined_parts(_plus(a, c), _plus(b, d))


@complex_math("sub", "subtract")
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(mul(y, alpha) if alpha != 1 else y)
    return joined_parts(_minus(a, c), _minus(b, d))


@complex_math("rsub")
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return sub(y, x, alpha)


@complex_math("mul", "multiply")
def mul(x: Any, y: Any) -> Any:
    if isinstance(x, Complex) != isinstance(y, Complex):
        wide, factor = (x, y) if isinstance(x, Complex) else (y, x)
        if not isinstance(factor, complex) and wide.is_apart:
            return joined(*(apply("multiply", *common(p, factor)) for p in wide.parts()))
        if not isinstance(factor, complex):  # both parts at once
            factor = composite.unsqueeze(factor, -1) if is_handle(factor) else factor
            return Complex(apply("multiply", *common(wide.pairs, factor)))
    if not is_handle(x) and not is_handle(y) and not isinstance(x, Complex):
        return x * y if not isinstance(y, Complex) else mul(y, x)
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return joined_parts(_minus(_times(a, c), _times(b, d)), _plus(_times(a, d), _times(b, c)))


_SCALES = {"float64": (1e120, 1e-120, 700)}
"""Sizes from which on, and below which, squares are taken of scaled numbers, and by which power of
two."""


def scale_of(c: Any, d: Any) -> Any:
    """A power of two by which squares of c and d neither overflow nor vanish; it has no gradient,
    since only comparisons read the numbers."""
    high, low, power = _SCALES.get(c.dtype.name, (1e15, 1e-15, 80))
    size = apply("maximum", abs(c), abs(d))
    one = apply("where", size < low, 2.0**power, 1.0)
    return apply("where", size > high, 2.0**-power, one).cast(c.dtype)


@complex_math("reciprocal")
def reciprocal(x: Complex) -> Complex:
    c, d = x.parts()
    scale = scale_of(c, d)
    c, d = c * scale, d * scale
    whole = scale / (c * c + d * d)
    zero = is_zero(c, d)
    return joined(
        apply("where", zero, math.inf, c * whole), apply("where", zero, math.nan, -(d * whole))
    )


@complex_math("div", "divide", "true_divide")
def div(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        raise Unsupported("a rounded quotient of complex numbers")
    if isinstance(y, complex) and y:
        return mul(x, 1.0 / y)
    if isinstance(y, complex):  # both parts over zero
        return div(x if isinstance(x, Complex) else joined_parts(x, 0.0), 0.0)
    if isinstance(y, Complex):
        return _quotient(x, y)
    if x.is_apart:
        return joined(*(apply("divide", *common(p, y)) for p in x.parts()))
    y = composite.unsqueeze(y, -1) if is_handle(y) else y
    return Complex(apply("divide", *common(x.pairs, y)))


def _quotient(x: Any, y: Complex) -> Complex:
    """Over a zero, both parts are divided by it, as in PyTorch; the product with its reciprocal
    would be NaN."""
    found = mul(reciprocal(y), x).parts()
    zero = is_zero(*y.parts())
    none = apply("where", zero, 0.0, 1.0).cast(y.dtype)
    over = [apply("divide", *common(p, none)) for p in parts_of(x)]
    return joined_parts(*(apply("where", zero, o, f) for o, f in zip(over, found, strict=True)))


@complex_math("neg", "negative")
def neg(x: Complex) -> Complex:
    return joined(*(-p for p in x.parts())) if x.is_apart else Complex(-x.pairs)


@complex_math("positive")
def positive(x: Complex) -> Complex:
    return x


@complex_math("square")
def square(x: Complex) -> Any:
    return mul(x, x)


@complex_math("addcmul")
def addcmul(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    return add(x, mul(y, z), value)


@complex_math("addcdiv")
def addcdiv(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    return add(x, div(y, z), value)


@complex_math("lerp")
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return add(x, mul(sub(end, x), weight))
