"""Loads, stores, tails and conversions of storage types."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def call(lib: ctypes.CDLL, name: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    getattr(lib, name)(
        ctypes.c_long(x.size), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data)
    )
    return out


@pytest.mark.parametrize("kind", list(TYPES))
def test_narrowing_rounds_to_nearest_even(load: Loader, kind: str) -> None:
    bits = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), np.array([np.inf, -np.inf, np.nan], np.float32)])
    if kind == "bf16":  # vcvtneps2bf16 flushes denormals
        x = x[~((np.abs(x) < 1.2e-38) & (x != 0))]
    with np.errstate(all="ignore"):
        want = x.astype(TYPES[kind])
    got = call(load("math"), f"to_{kind}", x, np.empty(x.size, TYPES[kind]))
    nan = np.isnan(x)
    assert np.isnan(got[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(got[~nan].view(np.uint16), want[~nan].view(np.uint16))


@pytest.mark.parametrize("kind", list(TYPES))
def test_widening_is_exact_for_every_value(load: Loader, kind: str) -> None:
    x = np.arange(65536, dtype=np.uint16).view(TYPES[kind])
    got = call(load("math"), f"from_{kind}", x, np.empty(x.size, np.float32))
    np.testing.assert_array_equal(got, x.astype(np.float32))


@pytest.mark.parametrize("kind, low, high", [("i8", -128, 127), ("u8", 0, 255)])
def test_integers_truncate_and_saturate(load: Loader, kind: str, low: int, high: int) -> None:
    x = np.array([-1e9, -129.5, -128, -1.9, -0.5, 0, 0.9, 1.5, 126.9, 127, 128, 254.99, 255, 256,
                  1e9, 3.0, -3.0], np.float32)  # fmt: skip
    dtype = np.int8 if kind == "i8" else np.uint8
    got = call(load("math"), f"to_{kind}", x, np.empty(x.size, dtype))
    np.testing.assert_array_equal(got, np.clip(np.trunc(x), low, high).astype(dtype))
    back = call(load("math"), f"from_{kind}", got, np.empty(x.size, np.float32))
    np.testing.assert_array_equal(back, got.astype(np.float32))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33])
def test_tails_touch_nothing_beyond_the_end(load: Loader, n: int, rng: np.random.Generator) -> None:
    lib = load("math")
    x = rng.standard_normal(n).astype(np.float32)
    for name, dtype in [("map_relu", np.float32), ("to_bf16", np.uint16), ("to_f16", np.uint16),
                        ("to_i8", np.int8), ("positive", np.uint8)]:  # fmt: skip
        room = np.full(n + 64, 77, dtype)
        call(lib, name, x, room)
        assert (room[n:] == 77).all(), name
    mask = (x > 0).astype(np.uint8)
    np.testing.assert_array_equal(call(lib, "positive", x, np.empty(n, np.uint8)), mask)
    out = np.empty(n, np.float32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (mask, x, out)]
    lib.where(ctypes.c_long(n), *pointers)
    np.testing.assert_array_equal(out, np.where(mask, x, np.float32(-1)))
