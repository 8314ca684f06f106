"""Quotients and remainders of integers that are rounded towards zero, as C has them.

The core rounds towards minus infinity. Magnitudes would not do: the least integer has none.
"""

from __future__ import annotations

from typing import Any


def trunc_divide(x: Any, y: Any) -> Any:
    """x / y without its fraction."""
    _, beyond = _floored(x, y)
    return x // y + beyond.cast(x.dtype)


def trunc_remainder(x: Any, y: Any) -> Any:
    """x - y * trunc_divide(x, y): it has the sign of x."""
    rest, beyond = _floored(x, y)
    return beyond.apply("where", rest - y, rest)


def _floored(x: Any, y: Any) -> tuple[Any, Any]:
    """The remainder with the sign of y, and where rounding down went away from zero."""
    rest = x % y
    opposite = x.apply("bitwise_xor", y) < 0
    return rest, rest.apply("not_equal", 0).apply("logical_and", opposite)
