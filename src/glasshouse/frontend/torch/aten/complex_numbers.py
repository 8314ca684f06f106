"""How functions of complex numbers are spelled: by their real and imaginary parts.

They are looked up before the spellings of real numbers where an operand is complex. All are made of
core ops, so they have gradients; the gradient by both parts is PyTorch's complex gradient. Where a
real formula has no gradient at zero (a root, an angle) the gradient is zero there, as PyTorch's.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten import arithmetic
from glasshouse.frontend.torch.aten.registry import (
    IN_CONTEXT,
    TABLE,
    Spelling,
    apply,
    common,
    complex_aten,
    is_handle,
)
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.dtypes import default_float
from glasshouse.ops import composite
from glasshouse.ops.create import full_near
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import axis_of, broadcast_shapes

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


def _joined(real: Any, imaginary: Any) -> Complex:
    """The complex tensor of parts of which one may be a number, or be broadcast."""
    near = real if is_handle(real) else imaginary
    both = [p if is_handle(p) else _filled(near, p) for p in (real, imaginary)]
    both = list(common(*both))
    shape = broadcast_shapes([p.shape for p in both])
    return joined(*(expanded(p, shape) for p in both))


def _filled(near: Any, value: float) -> Any:
    """A part that is a number everywhere. It is not made of the other part, of which an infinity
    would become a NaN and a negative number a negative zero, which turns an angle."""
    dtype = near.dtype if near.dtype.is_float else default_float()
    return full_near(near, near.shape, value, dtype)


# ------------------------------------------------------------------------------------- arithmetic
@complex_aten("add")
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(mul(y, alpha) if alpha != 1 else y)
    return _joined(_plus(a, c), _plus(b, d))


@complex_aten("sub", "subtract")
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(mul(y, alpha) if alpha != 1 else y)
    return _joined(_minus(a, c), _minus(b, d))


@complex_aten("rsub")
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return sub(y, x, alpha)


@complex_aten("mul", "multiply")
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
    return _joined(_minus(_times(a, c), _times(b, d)), _plus(_times(a, d), _times(b, c)))


_SCALES = {"float16": (1e2, 1e-2, 16), "float64": (1e120, 1e-120, 700)}
"""Sizes from which on, and below which, squares are taken of scaled numbers, and by which power of
two."""


def _scale(c: Any, d: Any) -> Any:
    """A power of two by which squares of c and d neither overflow nor vanish; it has no gradient,
    since only comparisons read the numbers."""
    high, low, power = _SCALES.get(c.dtype.name, (1e15, 1e-15, 80))
    size = apply("maximum", abs(c), abs(d))
    one = apply("where", size < low, 2.0**power, 1.0)
    return apply("where", size > high, 2.0**-power, one).cast(c.dtype)


@complex_aten("reciprocal")
def reciprocal(x: Complex) -> Complex:
    c, d = x.parts()
    scale = _scale(c, d)
    c, d = c * scale, d * scale
    whole = scale / (c * c + d * d)
    zero = _is_zero(c, d)
    return joined(
        apply("where", zero, math.inf, c * whole), apply("where", zero, math.nan, -(d * whole))
    )


@complex_aten("div", "divide", "true_divide")
def div(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        raise Unsupported("a rounded quotient of complex numbers")
    if isinstance(y, complex) and y:
        return mul(x, 1.0 / y)
    if isinstance(y, complex):  # both parts over zero
        return div(x if isinstance(x, Complex) else _joined(x, 0.0), 0.0)
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
    zero = _is_zero(*y.parts())
    none = apply("where", zero, 0.0, 1.0).cast(y.dtype)
    over = [apply("divide", *common(p, none)) for p in parts_of(x)]
    return _joined(*(apply("where", zero, o, f) for o, f in zip(over, found, strict=True)))


@complex_aten("neg", "negative")
def neg(x: Complex) -> Complex:
    return joined(*(-p for p in x.parts())) if x.is_apart else Complex(-x.pairs)


@complex_aten("positive")
def positive(x: Complex) -> Complex:
    return x


@complex_aten("square")
def square(x: Complex) -> Any:
    return mul(x, x)


@complex_aten("addcmul")
def addcmul(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    return add(x, mul(y, z), value)


@complex_aten("addcdiv")
def addcdiv(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    return add(x, div(y, z), value)


@complex_aten("lerp")
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return add(x, mul(sub(end, x), weight))


# -------------------------------------------------------------------------------- size and angle
@complex_aten("abs", "absolute")
def absolute(x: Complex) -> Any:
    a, b = x.parts()
    scale = _scale(a, b)
    c, d = a * scale, b * scale
    total = c * c + d * d
    zero = total.apply("equal", 0.0)
    size = apply("where", zero, 1.0, total).apply("sqrt") / scale
    size = apply("where", zero, 0.0, size)
    return apply("where", a.apply("isinf") | b.apply("isinf"), math.inf, size)  # as in C: not NaN


def _is_zero(a: Any, b: Any) -> Any:
    return a.apply("equal", 0.0) & b.apply("equal", 0.0)


def _signbit(x: Any) -> Any:
    """Of zeros too, whose sign only their reciprocal shows."""
    return apply("where", x.apply("equal", 0.0), apply("divide", 1.0, x), x) < 0.0


@complex_aten("angle")
def angle(x: Complex) -> Any:
    a, b = x.parts()
    zero = _is_zero(a, b)
    # At zero the signs of the zeros decide, which have no gradient.
    below, turned = (apply("divide", 1.0, apply("where", zero, p, 1.0)) < 0.0 for p in (a, b))
    half = apply("where", turned, -math.pi, math.pi).cast(a.dtype)
    at_zero = apply("where", below, half, apply("where", turned, -0.0, 0.0).cast(a.dtype))
    inside = apply("where", zero, 0.0, b).apply("atan2", apply("where", zero, 1.0, a))
    return apply("where", zero, at_zero, inside)


@complex_aten("sgn")
def sgn(x: Complex) -> Complex:
    size = absolute(x)
    zero = size.apply("equal", 0.0)
    unit = div(x, apply("where", zero, 1.0, size))
    return joined(*(apply("where", zero, 0.0, part) for part in unit.parts()))


@complex_aten("log")
def log(x: Complex) -> Complex:
    return joined(absolute(x).apply("log"), angle(x))


@complex_aten("log2")
def log2(x: Complex) -> Any:
    return mul(log(x), 1.0 / math.log(2.0))


@complex_aten("log10")
def log10(x: Complex) -> Any:
    return mul(log(x), 1.0 / math.log(10.0))


@complex_aten("log1p")
def log1p(x: Complex) -> Any:
    """Of small numbers by |1 + x|^2 - 1, in which nothing cancels."""
    a, b = x.parts()
    whole = log(add(x, 1.0)).parts()
    small = (abs(a) < 0.25) & (abs(b) < 0.25)
    a, b = (apply("where", small, p, 0.0) for p in (a, b))
    near = (a * (a + 2.0) + b * b).apply("log1p") * 0.5
    return joined(apply("where", small, near, whole[0]), whole[1])


@complex_aten("sqrt")
def sqrt(x: Complex) -> Complex:
    """Through the half that does not cancel: of |x| + |real part|."""
    a, b = x.parts()
    zero = _is_zero(a, b)
    safe = joined(apply("where", zero, 1.0, a), b)
    root = ((absolute(safe) + abs(safe.parts()[0])) * 0.5).apply("sqrt")
    other = b / (root * 2.0)
    left = a < 0.0
    turned = apply("where", _signbit(b), -root, root)
    real = apply("where", left, abs(other), root)
    return joined(apply("where", zero, 0.0, real), apply("where", left, turned, other))


@complex_aten("rsqrt")
def rsqrt(x: Complex) -> Any:
    return reciprocal(sqrt(x))


# ------------------------------------------------------------------------------- of the exponential
@complex_aten("exp")
def exp(x: Complex) -> Complex:
    a, b = x.parts()
    size = a.apply("exp")
    return joined(size * b.apply("cos"), size * b.apply("sin"))


@complex_aten("expm1")
def expm1(x: Complex) -> Complex:
    """exp(a) cos(b) - 1 without cancelling: expm1(a) cos(b) - 2 sin(b/2)^2."""
    a, b = x.parts()
    half = (b * 0.5).apply("sin")
    real = a.apply("expm1") * b.apply("cos") - half * half * 2.0
    return joined(real, a.apply("exp") * b.apply("sin"))


@complex_aten("exp2")
def exp2(x: Complex) -> Any:
    return exp(mul(x, math.log(2.0)))


@complex_aten("sin")
def sin(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("sin") * b.apply("cosh"), a.apply("cos") * b.apply("sinh"))


@complex_aten("cos")
def cos(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("cos") * b.apply("cosh"), -(a.apply("sin") * b.apply("sinh")))


@complex_aten("sinh")
def sinh(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("sinh") * b.apply("cos"), a.apply("cosh") * b.apply("sin"))


@complex_aten("cosh")
def cosh(x: Complex) -> Complex:
    a, b = x.parts()
    return joined(a.apply("cosh") * b.apply("cos"), a.apply("sinh") * b.apply("sin"))


@complex_aten("tanh")
def tanh(x: Complex) -> Complex:
    """By the real tangent, which does not overflow."""
    a, b = x.parts()
    t, c, s = a.apply("tanh"), b.apply("cos"), b.apply("sin")
    below = c * c + s * s * t * t
    return joined(t / below, (1.0 - t * t) * s * c / below)


@complex_aten("tan")
def tan(x: Complex) -> Any:
    a, b = x.parts()
    c, d = tanh(joined(-b, a)).parts()
    return joined(d, -c)


@complex_aten("sigmoid")
def sigmoid(x: Complex) -> Any:
    """By the hyperbolic tangent of half of it, which has no overflow."""
    c, d = tanh(mul(x, 0.5)).parts()
    return joined(c * 0.5 + 0.5, d * 0.5)


@complex_aten("silu")
def silu(x: Complex) -> Any:
    return mul(x, sigmoid(x))


_MOST = 8
"""Powers that are products; others go by the logarithm."""


@complex_aten("pow")
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
        return joined(_filled(x.parts()[0], 1.0), _filled(x.parts()[0], 0.0))
    if isinstance(x, (int, float, complex)):
        if x == 0:
            raise Unsupported("a power of zero with a complex exponent")
        return exp(mul(y, cmath.log(x)))
    base = x if isinstance(x, Complex) else _joined(x, 0.0)
    zero = _is_zero(*base.parts())
    a, b = base.parts()
    safe = joined(apply("where", zero, 1.0, a), b)
    c, d = exp(mul(log(safe), y)).parts()
    if isinstance(y, (Complex, complex)) or is_handle(y):
        return joined(apply("where", zero, 0.0, c), apply("where", zero, 0.0, d))
    at_zero = 0.0 if y > 0 else math.nan
    return joined(apply("where", zero, at_zero, c), apply("where", zero, at_zero, d))


# ----------------------------------------------------------------------------------- comparisons
def _both(x: Any, y: Any) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    if not is_handle(a):
        (a, b), (c, d) = (c, d), (a, b)
    return apply("equal", *common(a, c)), apply("equal", *common(b, d))


@complex_aten("eq")
def eq(x: Any, y: Any) -> Any:
    real, imaginary = _both(x, y)
    return real & imaginary


@complex_aten("ne", "not_equal")
def ne(x: Any, y: Any) -> Any:
    return eq(x, y).apply("logical_not")


def _either(op: str) -> Callable[[Complex], Any]:
    return lambda x: x.parts()[0].apply(op) | x.parts()[1].apply(op)


complex_aten("isnan")(_either("isnan"))
complex_aten("isinf")(_either("isinf"))


@complex_aten("isfinite")
def isfinite(x: Complex) -> Any:
    a, b = x.parts()
    return (abs(a) < math.inf) & (abs(b) < math.inf)


@complex_aten("where")
def where(condition: Any, x: Any, y: Any) -> Complex:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return _joined(arithmetic.where(condition, a, c), arithmetic.where(condition, b, d))


@complex_aten("masked_fill", "masked_fill_")
def masked_fill(x: Complex, mask: Any, value: Any) -> Any:
    return where(mask, value, x)


# --------------------------------------------------------------------------------------- products
@complex_aten("prod")
def prod(x: Complex, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Complex:
    """Halves multiplied with each other, until one is left."""
    if dtype is not None:
        raise Unsupported("a product of complex numbers in another type")
    flat = x if dim is not None else Complex(composite.reshape(x.pairs, [-1, 2]))
    axis = 0 if dim is None else axis_of(dim, x.ndim)
    size = _length(flat, axis)
    while size > 1:
        half = size // 2
        both = mul(_cut(flat, axis, 0, half), _cut(flat, axis, half, 2 * half))
        rest = [_cut(flat, axis, 2 * half, size).pairs] if size % 2 else []
        flat = Complex(concat(both.pairs, *rest, axis=axis)) if rest else both
        size = half + size % 2
    if keepdim and dim is None:
        return Complex(composite.reshape(flat.pairs, [1] * x.ndim + [2]))
    return flat if keepdim else Complex(composite.squeeze(flat.pairs, axis))


@complex_aten("cumprod")
def cumprod(x: Complex, dim: int, dtype: Any = None) -> Complex:
    """Each element times the product that ends before it, over spans that double."""
    if dtype is not None:
        raise Unsupported("products of complex numbers in another type")
    axis, span = axis_of(dim, x.ndim), 1
    size = _length(x, axis)
    while span < size:
        met = mul(_cut(x, axis, span, size), _cut(x, axis, 0, size - span))
        x = Complex(concat(_cut(x, axis, 0, span).pairs, met.pairs, axis=axis))
        span *= 2
    return x


def _length(x: Complex, axis: int) -> int:
    size = x.shape[axis] if x.ndim else None
    if not isinstance(size, int) or size == 0:
        raise Unsupported("a product over no axis, none or a number of elements that is not known")
    return size


def _cut(x: Complex, axis: int, start: int, stop: int) -> Complex:
    return Complex(cut(x.pairs, axis, start, stop))


# ------------------------------------------------------------------------------------- by parts
def _by_parts(name: str) -> Spelling:
    """An op that moves or adds up elements does so with both parts alike."""

    def call(*args: Any, **kwargs: Any) -> Any:
        spelling = TABLE.get(f"aten::{name}")
        if spelling is None or spelling in IN_CONTEXT:
            raise Unsupported(f"{name} of complex numbers")
        both = [
            spelling(*([_part(i, a) for a in args]), **{k: _part(i, a) for k, a in kwargs.items()})
            for i in range(2)
        ]
        return _joined(*both)

    return call


def _part(place: int, given: Any) -> Any:
    return parts_of(given)[place] if isinstance(given, (Complex, complex)) else given


for _name in (
    "cumsum", "index_select", "gather", "take", "roll", "flip", "tile", "repeat", "trace", "nansum",
    "diagonal_copy", "diag_embed", "slice_scatter", "select_scatter", "diagonal_scatter",
    "select_backward", "slice_backward", "index_add", "index_copy", "scatter_add", "masked_scatter",
    "take_along_dim", "index_put",
):  # fmt: skip
    complex_aten(_name)(_by_parts(_name))
