"""Operands that nobody means to give, of any shape and element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glasshouse.ir.dtype import as_dtype, finish

Array = np.ndarray[Any, Any]
_LIMITS = {  # greatest number, least normal one, least one
    "float64": (1.7976931348623157e308, 2.2250738585072014e-308, 5e-324),
    "float32": (3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45),
    "bfloat16": (3.3895313892515355e38, 1.1754943508222875e-38, 9.183549615799121e-41),
    "float16": (65504.0, 6.103515625e-05, 5.960464477539063e-08),
}


def least_normal(dtype: str) -> float:
    return _LIMITS[dtype][1]


def special(dtype: str) -> list[float]:
    """Every kind of number that a type has."""
    most, normal, least = _LIMITS[dtype]
    large = 1e30 if most > 1e30 else 1e4
    signed = [0.0, least, normal / 2, normal, 1e-30, 1e-4, 1.0, 2.5, 88.0, 1e3, large, most, np.inf]
    return [*signed, *(-v for v in signed), np.nan]


def _ordinary(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng([7, *shape]).uniform(-2.0, 2.0, shape)


def _all(value: Callable[[str], float]) -> Callable[[tuple[int, ...], str], Array]:
    return lambda shape, dtype: np.full(shape, value(dtype))


def _one(value: Callable[[str], float]) -> Callable[[tuple[int, ...], str], Array]:
    def fill(shape: tuple[int, ...], dtype: str) -> Array:
        out = _ordinary(shape)
        if out.size:
            out.reshape(-1)[out.size // 2] = value(dtype)
        return out

    return fill


def _mixed(shape: tuple[int, ...], dtype: str) -> Array:
    kinds = special(dtype)
    picked = np.random.default_rng([3, *shape]).integers(0, len(kinds), shape)
    return np.asarray(kinds)[picked]


def _finite(shape: tuple[int, ...], dtype: str) -> Array:
    out = _mixed(shape, dtype)
    return np.where(np.isfinite(out), out, -1.0)


def _large(dtype: str) -> float:
    return 1e30 if _LIMITS[dtype][0] > 1e30 else 1e4


FILLS: dict[str, Callable[[tuple[int, ...], str], Array]] = {
    "zeros": _all(lambda d: 0.0), "minus zeros": _all(lambda d: -0.0),
    "denormals": _all(lambda d: _LIMITS[d][1] / 4), "1e-30": _all(lambda d: 1e-30),
    "1e30": _all(_large), "-1e30": _all(lambda d: -_large(d)),
    "greatest": _all(lambda d: _LIMITS[d][0]), "least": _all(lambda d: -_LIMITS[d][0]),
    "inf": _all(lambda d: np.inf), "-inf": _all(lambda d: -np.inf), "nan": _all(lambda d: np.nan),
    "one nan": _one(lambda d: np.nan), "one inf": _one(lambda d: np.inf),
    "one -inf": _one(lambda d: -np.inf), "one 1e30": _one(_large), "one -1e30": _one(
        lambda d: -_large(d)
    ), "one greatest": _one(lambda d: _LIMITS[d][0]),
    "mixed": _mixed, "mixed finite": _finite,
}  # fmt: skip


def filled(fill: str, shape: tuple[int, ...], dtype: str) -> Array:
    """An array of hostile values as NumPy carries the type."""
    with np.errstate(all="ignore"):
        return finish(FILLS[fill](shape, dtype), as_dtype(dtype))
