"""Elementary functions against float64.

Error in units in the last place, NaN, infinities, denormals.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special as special

Loader = Callable[[str], ctypes.CDLL]
F32 = np.dtype(np.float32)


def apply(lib: ctypes.CDLL, name: str, *arrays: np.ndarray) -> np.ndarray:
    out = np.empty_like(arrays[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    getattr(lib, f"map_{name}")(ctypes.c_long(out.size), *pointers)
    return out


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance from the float64 value in units of the float32 result's last place."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(np.float32)
        spacing = np.spacing(np.abs(rounded)).astype(np.float64)
        far = np.abs(got.astype(np.float64) - want) / spacing
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0.0, far)


def every_kind_of_float(step: int = 4001) -> np.ndarray:
    """About a million floats: all exponents, both signs, NaN and infinities among them."""
    bits = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32)
    special_bits = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001,
                             0x00800000, 0x7F7FFFFF, 0xFF7FFFFF], np.uint32)  # fmt: skip
    return np.concatenate([bits, special_bits]).view(F32)


def _silu(x: np.ndarray) -> np.ndarray:
    return x * special.expit(x)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


BOUNDS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    # name: float64 meaning, largest ULP error, results below this size in magnitude may be 0
    "exp": (np.exp, 1.2, 0.0),
    "exp_nonpos": (np.exp, 1.2, 1.7e-38),
    "expm1": (np.expm1, 1.6, 0.0),
    "log": (np.log, 1.1, 0.0),
    "log1p": (np.log1p, 2.3, 0.0),
    "tanh": (np.tanh, 1.5, 0.0),
    "sigmoid": (special.expit, 2.5, 1.7e-38),
    "silu": (_silu, 3.0, 1e-36),
    "softplus": (_softplus, 2.8, 0.0),
    "erf": (special.erf, 1.7, 0.0),
    "sin": (np.sin, 1.6, 0.0),
    "cos": (np.cos, 1.6, 0.0),
    "tan": (np.tan, 3.0, 0.0),
}


@pytest.mark.parametrize("name", list(BOUNDS))
def test_error_stays_within_the_stated_bound(load: Loader, name: str) -> None:
    meaning, bound, flush = BOUNDS[name]
    x = every_kind_of_float()
    if name == "exp_nonpos":
        x = x[~(x > 0)]
    got = apply(load("math"), name, x)
    with np.errstate(all="ignore"):
        want = meaning(x.astype(np.float64))
    error = ulps(got, want)
    error[(np.abs(want) < flush) & (got == 0)] = 0
    worst = int(np.nanargmax(error))
    assert error[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}, not {want[worst]!r}"
    assert not np.isnan(error).any()


@pytest.mark.parametrize("name", ["exp_nonpos", "softmax_weight"])
def test_weights_of_a_softmax_are_never_denormals(load: Loader, name: str) -> None:
    """Making one takes an Intel core 190 cycles, and multiplying with it 120."""
    x = np.concatenate([every_kind_of_float(), np.linspace(-160, 0, 5001, dtype=F32)])
    x = x[~(x > 0)]
    got = apply(load("math"), name, x)
    assert np.all(np.isnan(got) | (got == 0) | (got >= np.finfo(F32).tiny))
    assert np.array_equal(np.isnan(got), np.isnan(x))
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.float64))
    kept = want > 1.7e-38
    assert np.abs(got[kept] / want[kept] - 1).max() < 1.2e-5  # 87 * 1.2e-7, the smallest weights
    assert not got[want < np.finfo(F32).tiny / 2].any()


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_gelu_is_close_and_reaches_its_limits(load: Loader, name: str) -> None:
    x = every_kind_of_float()
    got = apply(load("math"), name, x)
    with np.errstate(all="ignore"):
        d = x.astype(np.float64)
        if name == "gelu":
            want = d * special.ndtr(d)
        else:
            want = d * special.expit(2 * np.sqrt(2 / np.pi) * (d + 0.044715 * d**3))
    finite = np.isfinite(want) & (np.abs(want) < 3e38)
    error = np.abs(got[finite] - want[finite]) / np.maximum(np.abs(want[finite]), 0.1)
    assert error.max() <= 3.5e-7
    assert np.array_equal(np.isnan(got), np.isnan(x) | (x == -np.inf))  # as torch's: -inf * 0
    assert apply(load("math"), name, np.array([np.inf], F32))[0] == np.inf


def test_one_element_in_all_lanes_keeps_its_sign(load: Loader) -> None:
    found = apply(load("math"), "splat", np.full(19, -0.0, F32))
    assert np.signbit(found).all()


@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_propagate_nan_from_either_side(load: Loader, name: str) -> None:
    values = np.array([np.nan, -np.inf, -1.0, 0.0, 2.0, np.inf], F32)
    x, y = (a.ravel().copy() for a in np.meshgrid(values, values))
    want = np.maximum(x, y) if name == "max" else np.minimum(x, y)
    np.testing.assert_array_equal(apply(load("math"), name, x, y), want)


@pytest.mark.parametrize("name", ["relu", "sign", "floor", "ceil", "rint", "trunc", "sqrt"])
def test_exact_functions(load: Loader, name: str) -> None:
    x = every_kind_of_float(40009)
    with np.errstate(all="ignore"):
        want = np.maximum(x, 0) if name == "relu" else getattr(np, name)(x)
    np.testing.assert_array_equal(apply(load("math"), name, x), want)
