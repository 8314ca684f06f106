"""How ATen's gamma functions and inverse and scaled error functions are spelled.

Series are cut, and polynomials fitted, where the rest is below the precision of float32; what holds
to float64 says so. A polynomial is in a variable from -1 to 1, coefficients from the constant up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import apply, aten, common
from glasshouse.ir.dtype import float64

# B(2k) for k = 1, 2, ...: what the series of Stirling, and of Euler and Maclaurin, are made of.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
_SHIFT = 8
"""Arguments are raised by this much before a series is used: the rest is below 1e-13 then."""

# log(erfcx(x) / t) in 2t - 1, for t = 2 / (2 + x).
_ERFCX = (
    -0.671794091, 0.672643154, 0.0473438874, -0.0468936405, -0.00988001924, 0.00880882534,
    0.00179406622, -0.00228876522, -0.000227910959, 0.000573766367, 8.00073707e-06, -8.72838093e-05,
)  # fmt: skip
# erfinv(x) / x for w = -log(1 - x²): in w / 2.5 - 1 up to w = 5, then in sqrt(w) from there to 6.
_ERFINV_NEAR = (
    1.50140936, 0.616601896, -0.026108686, -0.019589822, 0.00852917636, -0.000428089022,
    -0.000845545939, 0.000209060582, 3.5531379e-05,
)  # fmt: skip
_ERFINV_FAR = (
    3.95895378, 1.9003371, 0.00348777172, -0.00506900899, 0.00316801987, -0.00108758918,
    0.00140136741, -0.00334099977, 0.0028535141, -0.000790389553,
)  # fmt: skip


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """c[0] + x (c[1] + x (c[2] + ...))."""
    out = x * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        out = out * x + c
    return out


def single(x: Any) -> Any:
    """x as a float of at most 32 bits, which is as far as the fits here go."""
    x = common(x, to_float=True)[0]
    if x.dtype is float64:
        raise Unsupported("the fit of this function holds to the precision of float32")
    return x


# ------------------------------------------------------------------------------------------- gamma
def _reflected(x: Any) -> tuple[Any, Any]:
    """Whether x is below 1/2, and 1 - x there: an argument for which series hold."""
    low = x < 0.5
    return low, apply("where", low, 1.0 - x, x)


def _is_pole(x: Any) -> Any:
    return (x <= 0.0) & x.apply("floor").apply("equal", x)


def _sine(x: Any) -> Any:
    """|sin(pi x)|, exact in where it is zero."""
    return abs(((x - x.apply("round")) * math.pi).apply("sin"))


_EULER = 0.5772156649015329


def _zeta_less_one(s: int) -> float:
    """2^-s + 3^-s + ...: many terms, and the others by Euler and Maclaurin, to float64."""
    n = 200.0
    rest = n ** (1 - s) / (s - 1) + n**-s / 2 + s * n ** (-s - 1) / 12
    rest -= s * (s + 1) * (s + 2) * n ** (-s - 3) / 720
    return sum(float(i) ** -s for i in range(2, 200)) + rest


# log(gamma(2 + u)) / u by Taylor; below |u| = 1/2 a term is a quarter of the one before it.
_ABOUT_TWO = [1 - _EULER, *((-1) ** k * _zeta_less_one(k) / k for k in range(2, 27))]


def _lgamma_near_its_zeros(y: Any) -> tuple[Any, Any]:
    """Where y is between 1/2 and 5/2, and the value there: of one close to 0, differences of
    logarithms would leave nothing."""
    one = y < 1.5
    inside = (y > 0.5) & (y < 2.5)
    u = apply("where", inside, y - apply("where", one, 1.0, 2.0), 0.0)
    about = u * polynomial(u, _ABOUT_TWO)
    return inside, about - apply("where", one, u, 0.0).apply("log1p")


@aten("lgamma", "special_gammaln")
def lgamma(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    low, y = _reflected(x)
    high, product = y + float(_SHIFT), y
    for i in range(1, _SHIFT):
        product = product * (y + float(i))
    # Far out, the product of the steps overflows and the series needs no steps.
    far = y > 1e4
    z = apply("where", far, y, high)
    square = 1.0 / (z * z)
    rest = polynomial(square, [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]) / z
    series = (z - 0.5) * z.apply("log") - z + 0.5 * math.log(2 * math.pi) + rest
    out = series - apply("where", far, 1.0, product).apply("log")
    near, value = _lgamma_near_its_zeros(y)
    out = apply("where", near, value, out)
    out = apply("where", y < math.inf, out, y)
    sine = _sine(x)
    safe = apply("where", low & sine.apply("not_equal", 0.0), sine, 1.0)
    out = apply("where", low, math.log(math.pi) - safe.apply("log") - out, out)
    return apply("where", _is_pole(x) | x.apply("isinf"), math.inf, out)


@aten("digamma", "special_digamma", "special_psi")
def digamma(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    low, y = _reflected(x)
    z = y + float(_SHIFT)
    square = 1.0 / (z * z)
    out = z.apply("log") - 0.5 / z
    out = out - polynomial(square, [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]) * square
    for i in range(_SHIFT):
        out = out - 1.0 / (y + float(i))
    pole = _is_pole(x)
    turn = apply("where", low & pole.apply("logical_not"), x - x.apply("round"), 0.25) * math.pi
    out = apply("where", low, out - math.pi / turn.apply("tan"), out)
    at_zero = apply("where", x.apply("equal", 0.0), -1.0 / x, math.nan)  # the sign of the zero
    return apply("where", pole, at_zero, out)


@aten("polygamma", "special_polygamma")
def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma: a sum of powers, by its integral and corrections."""
    if n == 0:
        return digamma(x)
    x = common(x, to_float=True)[0]
    low, y = _reflected(x)
    s = n + 1
    z = y + float(_SHIFT)
    total = z ** (1.0 - s) * (1.0 / (s - 1)) + z ** float(-s) * 0.5
    for i in range(_SHIFT):
        total = total + (y + float(i)) ** float(-s)
    factor = float(s)
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + z ** float(1 - s - 2 * k) * (b * factor / math.factorial(2 * k))
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    out = total * ((-1.0) ** (n + 1) * math.factorial(n))
    pole = _is_pole(x)
    turn = apply("where", low & pole.apply("logical_not"), x - x.apply("round"), 0.25) * math.pi
    # psi_n(1 - x) - (-1)^n psi_n(x) = (-1)^n pi d^n cot(pi x) / dx^n
    cotangent = 1.0 / turn.apply("tan")
    slope = polynomial(cotangent, _cotangent_slope(n)) * math.pi ** (n + 1)
    out = apply("where", low, out * (-1.0) ** n - slope, out)
    return apply("where", pole, math.inf if n % 2 else math.nan, out)


def _cotangent_slope(n: int) -> list[float]:
    """The n-th derivative of cot as a polynomial in cot, whose derivative is -1 - cot²."""
    found = [0.0, 1.0]
    for _ in range(n):
        slope = [i * c for i, c in enumerate(found)][1:]
        found = [-a - b for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return found


# ------------------------------------------------------------------------------------------- error
def _scaled_tail(x: Any) -> Any:
    """exp(x²) erfc(x) for x of at least 0."""
    t = 2.0 / (x + 2.0)
    return t * polynomial(t * 2.0 - 1.0, _ERFCX).apply("exp")


@aten("special_erfcx")
def erfcx(x: Any) -> Any:
    x = single(x)
    tail = _scaled_tail(abs(x))
    below = x < 0.0
    square = apply("where", below, x, 0.0)
    return apply("where", below, (square * square).apply("exp") * 2.0 - tail, tail)


@aten("special_ndtr")
def ndtr(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    return ((x * math.sqrt(0.5)).apply("erf") + 1.0) * 0.5


@aten("special_log_ndtr")
def log_ndtr(x: Any) -> Any:
    """Of the tail where erf is close to -1, which the logarithm would see nothing of."""
    x = single(x)
    low = x < -1.0
    tail = _scaled_tail(-apply("where", low, x, -1.0) * math.sqrt(0.5)) * 0.5
    far = apply("where", low, x, 0.0)
    near = apply("where", low, 0.0, x) * -math.sqrt(0.5)
    # log(1 - erfc / 2): erfc is small where x is large.
    upper = _scaled_tail(abs(near)) * (-(near * near)).apply("exp")
    upper = apply("where", near < 0.0, upper, 2.0 - upper) * 0.5
    return apply("where", low, tail.apply("log") - far * far * 0.5, (-upper).apply("log1p"))


def _inverse(x: Any, rest: Any) -> Any:
    """erfinv(x), given 1 - x² without what is lost when it is computed from an x near 1."""
    inside = rest > 0.0
    w = -(apply("where", inside, rest, 1.0).apply("log"))
    root = apply("maximum", w, 5.0).apply("sqrt")
    near = polynomial(apply("minimum", w, 5.0) * 0.4 - 1.0, _ERFINV_NEAR)
    span = 6.0 - math.sqrt(5.0)
    far = polynomial((root - math.sqrt(5.0)) * (2.0 / span) - 1.0, _ERFINV_FAR)
    return apply("where", w < 5.0, near, far) * x


def _end(x: Any) -> Any:
    """What erfinv is from 1 and -1 on."""
    high = apply("where", x.apply("equal", 1.0), math.inf, math.nan)
    return apply("where", x.apply("equal", -1.0), -math.inf, high)


@aten("erfinv", "special_erfinv")
def erfinv(x: Any) -> Any:
    x = single(x)
    out = _inverse(x, (1.0 - x) * (x + 1.0))
    return apply("where", abs(x) < 1.0, out, _end(x))


@aten("special_ndtri")
def ndtri(p: Any) -> Any:
    p = single(p)
    x = p * 2.0 - 1.0
    out = _inverse(x, p * (1.0 - p) * 4.0) * math.sqrt(2.0)
    return apply("where", abs(x) < 1.0, out, _end(x))


@aten("special_spherical_bessel_j0")
def spherical_bessel_j0(x: Any) -> Any:
    x = common(x, to_float=True)[0]
    some = x.apply("not_equal", 0.0)
    safe = apply("where", some, x, 1.0)
    out = apply("where", abs(x) < math.inf, safe.apply("sin") / safe, 0.0)
    return apply("where", some, out, 1.0)
