"""How ATen's orthogonal polynomials are spelled: their recurrences, as far as data asks.

Every element has a degree of its own, so the loop runs to the highest and each keeps the polynomial
of its degree when it comes by. A degree below zero gives zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.frontend.torch.aten.registry import apply, aten, common, scalar
from glasshouse.ir.dtype import int64
from glasshouse.ops.control import body_of, while_loop
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import broadcast_shapes

First = Callable[[Any], Any]
"""x -> the polynomial of degree 1; that of degree 0 is 1."""
Next = Callable[[Any, Any, Any, Any], Any]
"""x, k, the polynomial of degree k and the one before -> the polynomial of degree k + 1."""


def _spelled(first: First, next_: Next) -> Any:
    def spelling(x: Any, n: Any) -> Any:
        near = x if hasattr(x, "builder") else n
        kind = common(x, n, to_float=True)
        dtype = next(v.dtype for v in kind if hasattr(v, "builder"))
        x, n = (scalar(near, v, dtype) for v in kind)
        shape = broadcast_shapes([x.shape, n.shape])
        x, n = expanded(x, shape), expanded(n, shape).apply("trunc").cast(int64)
        return _recurred(x, n, first, next_)

    return spelling


def _recurred(x: Any, n: Any, first: First, next_: Next) -> Any:
    def step(k: Any, before: Any, now: Any, found: Any, x: Any, n: Any) -> Any:
        found = apply("where", n.apply("equal", k), now, found)
        return k + 1, now, next_(x, k.cast(x.dtype), now, before), found, x, n

    def goes_on(k: Any, before: Any, now: Any, found: Any, x: Any, n: Any) -> Any:
        return (n >= k).apply("any")

    one = full_near(x, x.shape, 1.0, x.dtype)
    found = apply("where", n.apply("equal", 0), one, one * 0.0)
    state = (scalar(x, 1, int64), one, first(x), found, x, n)
    loop = while_loop(*state, test=body_of(goes_on, *state), body=body_of(step, *state))
    return loop[3]


def _twice(x: Any, k: Any, now: Any, before: Any) -> Any:
    return x * 2.0 * now - before


def _twice_shifted(x: Any, k: Any, now: Any, before: Any) -> Any:
    return (x * 4.0 - 2.0) * now - before


def _line(slope: float, start: float) -> First:
    return lambda x: x * slope + start


for _kind, _slope, _start in (("t", 1.0, 0.0), ("u", 2.0, 0.0), ("v", 2.0, -1.0), ("w", 2.0, 1.0)):
    aten(f"special_chebyshev_polynomial_{_kind}")(_spelled(_line(_slope, _start), _twice))
    aten(f"special_shifted_chebyshev_polynomial_{_kind}")(
        _spelled(_line(2.0 * _slope, _start - _slope), _twice_shifted)
    )
aten("special_hermite_polynomial_h")(
    _spelled(lambda x: x * 2.0, lambda x, k, now, before: (x * now - k * before) * 2.0)
)
aten("special_hermite_polynomial_he")(
    _spelled(lambda x: x, lambda x, k, now, before: x * now - k * before)
)
aten("special_laguerre_polynomial_l")(
    _spelled(
        lambda x: 1.0 - x,
        lambda x, k, now, before: ((k * 2.0 + 1.0 - x) * now - k * before) / (k + 1.0),
    )
)
aten("special_legendre_polynomial_p")(
    _spelled(
        lambda x: x,
        lambda x, k, now, before: ((k * 2.0 + 1.0) * x * now - k * before) / (k + 1.0),
    )
)
