"""Pooling, gathers, transposes and attention against NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]


def p(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def longs(*values: int) -> list[ctypes.c_long]:
    return [ctypes.c_long(v) for v in values]


@pytest.fixture(params=[1, 2])
def pool(load: Loader, request: pytest.FixtureRequest):
    lib = load("rows")
    handle = ctypes.c_void_p(lib.pool_new(request.param))
    yield lib, handle
    lib.pool_free(handle)


POOLS = [  # N C H W kernel stride pad dilation
    (1, 16, 8, 8, 2, 2, 0, 1),
    (2, 20, 9, 11, 3, 2, 1, 1),
    (1, 5, 7, 6, 3, 1, 1, 2),
    (1, 33, 5, 5, 5, 1, 2, 1),
]


@pytest.mark.parametrize("kind", ["max", "avg", "avg_inside"])
@pytest.mark.parametrize("first", [0, 1])
def test_pooling(pool, kind: str, first: int, rng: np.random.Generator) -> None:
    lib, handle = pool
    for n, c, h, w, k, s, pad, d in POOLS:
        x = rng.standard_normal((n, h, w, c)).astype(np.float32)
        oh, ow = ((a + 2 * pad - d * (k - 1) - 1) // s + 1 for a in (h, w))
        padded = np.full((n, h + 2 * pad, w + 2 * pad, c), np.nan)
        padded[:, pad : pad + h, pad : pad + w] = x
        taps = np.stack([
            padded[:, i * d : i * d + (oh - 1) * s + 1 : s, j * d : j * d + (ow - 1) * s + 1 : s]
            for i in range(k) for j in range(k)
        ])  # fmt: skip
        want = np.nanmax(taps, 0) if kind == "max" else np.nansum(taps, 0) / k**2
        if kind == "avg_inside":
            want = np.nanmean(taps, 0)
        sizes = (ctypes.c_long * 15)(
            n, c, h, w, oh, ow, k, k, s, s, pad, pad, d, d, kind != "avg_inside"
        )
        y = np.empty((n, oh, ow, c), np.float32)
        given = x
        if first:
            given, y = (
                np.ascontiguousarray(x.transpose(0, 3, 1, 2)),
                np.empty((n, c, oh, ow), np.float32),
            )
        lib.pool2d(handle, int(kind != "max"), first, sizes, p(given), p(y))
        np.testing.assert_allclose(
            y.transpose(0, 2, 3, 1) if first else y, want, rtol=1e-5, atol=1e-6
        )


def test_gather_and_scatter(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for width in (1, 16, 70, 300):
        table = rng.standard_normal((11, width)).astype(np.float32)
        index = rng.integers(-11, 11, 400).astype(np.int64)
        y = np.empty((400, width), np.float32)
        lib.gather(handle, *longs(400, width, 11), p(index), p(table), p(y))
        np.testing.assert_array_equal(y, table[index])
        total = np.zeros_like(table)
        lib.scatter(handle, *longs(400, width, 11), p(index), p(y), p(total))
        want = np.zeros(table.shape)
        np.add.at(want, index, y.astype(np.float64))
        np.testing.assert_allclose(total, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_transposes(pool, size: int, rng: np.random.Generator) -> None:
    lib, handle = pool
    for batch, rows, cols in [(1, 1, 1), (3, 5, 40), (2, 64, 48), (1, 33, 130), (5, 17, 3)]:
        x = rng.integers(0, 255, (batch, rows, cols, size)).astype(np.uint8)
        y = np.empty((batch, cols, rows, size), np.uint8)
        getattr(lib, f"turn{size}")(handle, *longs(batch, rows, cols), p(x), p(y))
        np.testing.assert_array_equal(y, x.swapaxes(1, 2))
