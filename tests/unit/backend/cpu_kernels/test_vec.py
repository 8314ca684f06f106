"""Loads, stores, tails and conversions of storage types."""

from __future__ import annotations

import ctypes
import mmap
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


@pytest.mark.parametrize("n", range(1, 17))
def test_a_last_vector_of_any_length_holds_what_lies_in_memory(
    load: Loader, n: int, rng: np.random.Generator
) -> None:
    lib = load("math")
    x = rng.integers(-99, 99, n).astype(np.float32)
    for kind, dtype in {**TYPES, "i8": np.int8, "u8": np.uint8}.items():
        want = np.clip(x, 0, None).astype(dtype) if kind == "u8" else x.astype(dtype)
        room = call(lib, f"to_{kind}", x, np.zeros(n + 8, dtype))
        np.testing.assert_array_equal(room[:n].astype(np.float32), want.astype(np.float32))
        found = call(lib, f"from_{kind}", room[:n], np.full(n + 8, 77, np.float32))
        np.testing.assert_array_equal(found, [*want.astype(np.float32), *[77.0] * 8])
    np.testing.assert_array_equal(
        call(lib, "map_relu", x, np.full(n + 8, 77, np.float32)), [*np.maximum(x, 0), *[77.0] * 8]
    )


@pytest.mark.parametrize("kind, size", [("bf16", 2), ("f16", 2), ("i8", 1), ("u8", 1)])
def test_a_load_at_the_end_of_a_page_reads_nothing_beyond_it(
    load: Loader, kind: str, size: int
) -> None:
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * page)
    memory = np.frombuffer(pages, np.uint8)
    libc = ctypes.CDLL(None)
    beyond = ctypes.c_void_p(memory.ctypes.data + page)
    assert libc.mprotect(beyond, ctypes.c_size_t(page), 0) == 0
    for n in range(1, 17):
        x = memory[page - n * size : page].view(np.uint16 if size == 2 else np.uint8)
        np.testing.assert_array_equal(call(load("math"), f"from_{kind}", x, np.ones(n, "f4")), 0)
    assert libc.mprotect(beyond, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("spoiled", [None, np.nan, np.inf, -np.inf, -0.0, 1e-42])
def test_lanes_fold_as_numpy_does(
    load: Loader, spoiled: float | None, rng: np.random.Generator
) -> None:
    lib = load("math")
    width, out = lib.width(), np.empty(4, np.float32)
    for place in range(width):
        v = rng.uniform(0.5, 1.5, width).astype(np.float32) * (-1) ** place
        if spoiled is not None:
            v[place] = spoiled
        lib.lanes(ctypes.c_void_p(v.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        np.testing.assert_allclose(
            out, [v.sum(), v.prod(), v.max(), v.min()], rtol=1e-6, atol=2e-44
        )
