"""Elementary functions of float64 against 80-bit numbers and mpmath, on every instruction set.

Error in units in the last place, NaN, infinities, denormals, lanes that do not count.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]
Wide = np.longdouble
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2e-308, 1.79e308, -1.79e308, 1.0]


def apply(load: Loader, name: str, *arrays: np.ndarray) -> np.ndarray:
    out = np.empty_like(arrays[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    getattr(load("math_double"), f"map_{name}")(ctypes.c_long(out.size), *pointers)
    return out


def every_kind_of_double(rng: np.random.Generator) -> np.ndarray:
    """All exponents and both signs, and many where functions bend; an odd number of them."""
    bits = rng.integers(0, 2**64, 40_001, dtype=np.uint64).view(np.float64)
    near = [rng.uniform(-reach, reach, 20_000) for reach in (1.0, 8.0, 40.0, 750.0, 1e5)]
    return np.concatenate([bits, *near, 1 + rng.uniform(-1e-3, 1e-3, 2_000), SPECIAL])


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float64)
        far = np.abs(got.astype(Wide) - want) / np.spacing(np.abs(rounded)).astype(Wide)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0.0, far).astype(np.float64)


BOUNDS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    # name: meaning, largest ULP error, results below this size in magnitude may be 0
    "exp": (np.exp, 1.0, 0.0),
    "expm1": (np.expm1, 2.0, 0.0),
    "log": (np.log, 1.0, 0.0),
    "log1p": (np.log1p, 2.5, 0.0),
    "tanh": (np.tanh, 3.0, 0.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 2.5, 3e-308),
    "silu": (lambda x: x / (1 + np.exp(-x)), 3.0, 1e-304),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), 3.5, 0.0),
    "sin": (np.sin, 2.5, 0.0),
    "cos": (np.cos, 2.5, 0.0),
}


@pytest.mark.parametrize("name", list(BOUNDS))
def test_error_stays_within_the_stated_bound(
    load: Loader, isa: str, name: str, rng: np.random.Generator
) -> None:
    meaning, bound, flush = BOUNDS[name]
    x = every_kind_of_double(rng)
    if isa == "plain" and name in ("sin", "cos"):
        x = x[
            ~(abs(x) > 1e3)
        ]  # without fused multiply-adds a turn's parts are not exact further out
    got = apply(load, name, x)
    with np.errstate(all="ignore"):
        want = meaning(x.astype(Wide))
    error = ulps(got, want)
    error[(np.abs(want) < flush) & (got == 0)] = 0
    worst = int(np.nanargmax(error))
    more = 1.0 if isa == "plain" else 0.0  # two roundings where others have one
    assert error[worst] <= bound + more, (
        f"{name}({x[worst]!r}): {got[worst]!r}, not {want[worst]!r}"
    )
    assert not np.isnan(error).any()


def test_erf_and_gelu(load: Loader, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(-7, 7, 600), rng.uniform(-1.2, 1.2, 300), SPECIAL])
    with mpmath.workdps(30):
        want = np.array([Wide(mpmath.nstr(mpmath.erf(float(v)), 25)) for v in x])
    assert ulps(apply(load, "erf", x), want).max() <= 2.0
    from scipy import special

    with np.errstate(all="ignore"):
        gelu = 0.5 * x * (1 + special.erf(x * np.sqrt(0.5)))
    np.testing.assert_allclose(apply(load, "gelu", x), gelu, rtol=1e-13, atol=2e-15)


@pytest.mark.parametrize("name", ["relu", "abs", "floor", "ceil", "rint", "trunc", "sqrt"])
def test_exact_functions(load: Loader, name: str, rng: np.random.Generator) -> None:
    x = every_kind_of_double(rng)[::7].copy()
    with np.errstate(all="ignore"):
        want = np.maximum(x, 0) if name == "relu" else getattr(np, name)(x)
    np.testing.assert_array_equal(apply(load, name, x), want)


@pytest.mark.parametrize("name", ["max", "min", "copysign", "pow", "less"])
def test_two_operands_in_every_lane(load: Loader, name: str) -> None:
    values = np.array([np.nan, -np.inf, -1.0, 0.0, 2.0, np.inf, 0.5])
    x, y = (a.ravel().copy() for a in np.meshgrid(values, values))
    names = {"max": np.maximum, "min": np.minimum, "copysign": np.copysign, "pow": np.power}
    with np.errstate(all="ignore"):
        want = np.where(x < y, x, -1.0) if name == "less" else names[name](x, y)
    np.testing.assert_array_equal(apply(load, name, x, y), want)


def test_powers_of_floats(load: Loader, rng: np.random.Generator) -> None:
    """Over the whole range of results, near 1, and where a lane is no usual number."""
    wide = np.exp2(rng.uniform(-125, 127, 4000))
    x = np.concatenate([wide, 1 + rng.normal(0, 1e-3, 4000), [0, -2, 1e-42, np.inf, np.nan, 3]])
    y = np.concatenate([
        rng.uniform(-160, 140, 4000) / np.log2(wide), rng.normal(0, 3e4, 4000),
        [2, 3, 0.5, -1, 1, np.inf],
    ])  # fmt: skip
    x, y = x.astype(np.float32), y.astype(np.float32)
    got = np.empty_like(x)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, got)]
    load("math_double").map_pow_float(ctypes.c_long(len(x)), *pointers)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
        near = want.astype(np.float32)
        place = np.spacing(np.abs(near)).astype(np.float64)
        finite = np.isfinite(near)
        off = np.abs(got.astype(np.float64) - want)[finite] / place[finite]
    assert off.max() <= 0.52
    np.testing.assert_array_equal(got[~finite], near[~finite])


def test_one_element_in_all_lanes_keeps_its_sign(load: Loader) -> None:
    for value in (-0.0, 0.0, -np.inf, 5e-324):
        found = apply(load, "splat", np.full(19, value))
        assert (found == value).all()
        assert (np.signbit(found) == np.signbit(value)).all()


@pytest.mark.parametrize("n", range(1, 17))
def test_a_last_vector_of_any_length_holds_what_lies_in_memory(
    load: Loader, n: int, rng: np.random.Generator
) -> None:
    x, room = rng.standard_normal(n), np.full(n + 8, 77.0)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, room)]
    load("math_double").map_abs(ctypes.c_long(n), *pointers)
    np.testing.assert_array_equal(room, [*np.abs(x), *[77.0] * 8])


def test_conversions_and_reductions(load: Loader, rng: np.random.Generator) -> None:
    lib = load("math_double")
    x = every_kind_of_double(rng)[::9].copy()
    narrow = np.empty(x.size, np.float32)
    with np.errstate(all="ignore"):
        lib.to_float(ctypes.c_long(x.size), *(ctypes.c_void_p(a.ctypes.data) for a in (x, narrow)))
        np.testing.assert_array_equal(narrow, x.astype(np.float32))
    wide = np.empty(x.size)
    lib.from_float(ctypes.c_long(x.size), *(ctypes.c_void_p(a.ctypes.data) for a in (narrow, wide)))
    np.testing.assert_array_equal(wide, narrow.astype(np.float64))
    width = lib.width()
    for spoiled in (False, True):
        v = rng.uniform(0.5, 1.5, width)
        if spoiled:
            v[width - 1] = np.nan
        out = np.empty(4)
        lib.lanes(ctypes.c_void_p(v.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        np.testing.assert_allclose(out, [v.sum(), v.prod(), v.max(), v.min()], rtol=1e-14)
