"""Matrix products against float64.

Shapes around every tile edge, element types, layouts and thread counts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]
BF16 = ml_dtypes.bfloat16
SHAPES = [(1, 1, 1), (1, 33, 17), (2, 16, 8), (3, 31, 5), (5, 32, 64), (7, 40, 33),
          (13, 64, 20), (14, 65, 16), (15, 96, 31), (28, 48, 7), (29, 100, 130), (57, 34, 1024),
          (32, 32, 64), (33, 31, 32),
          (130, 129, 65), (4, 20, 0),
          (3, 40, 2500), (31, 70, 4100)]  # fmt: skip


def p(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def longs(*values: int) -> list[ctypes.c_long]:
    return [ctypes.c_long(v) for v in values]


@pytest.fixture(params=[1, 2, 3])
def pool(load: Loader, request: pytest.FixtureRequest):
    lib = load("gemm")
    handle = ctypes.c_void_p(lib.pool_new(request.param))
    yield lib, handle
    lib.pool_free(handle)


def close(got: np.ndarray, want: np.ndarray, terms: int, eps: float) -> None:
    """Error of a sum of `terms` products grows like its length."""
    scale = max(1.0, float(np.abs(want).max(initial=0.0)))
    assert np.abs(got - want).max(initial=0.0) <= eps * scale * max(terms, 8) ** 0.5


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "mixed", "i8"])
@pytest.mark.parametrize("form", [0, 1, 2])
def test_product(pool, kind: str, form: int, rng: np.random.Generator) -> None:
    lib, handle = pool
    for m, n, k in SHAPES:
        if kind == "i8":
            a = rng.integers(0, 256 if form < 2 else 128, (m, k)).astype(np.uint8)
            b = rng.integers(-128, 128, (k, n)).astype(np.int8)
        else:
            dtype = {"bf16": BF16, "f16": np.float16}.get(kind, np.float32)
            a = rng.standard_normal((m, k)).astype(np.float32).astype(dtype)
            b = rng.standard_normal((k, n)).astype(np.float32).astype(dtype)
        bias = rng.standard_normal(n).astype(np.float32)
        out = np.full((m, n), np.nan, np.float32)
        seen = a.astype(np.float64) * (2 if form == 2 else 1)
        weight = b.astype(np.float64)
        if kind == "mixed":
            seen, weight = (
                x.astype(np.float32).astype(BF16).astype(np.float64) for x in (seen, weight)
            )
        want = seen @ weight + bias
        given = np.ascontiguousarray(a.T) if form == 1 else a
        for transposed in (0, 1):
            bb = np.ascontiguousarray(b.T) if transposed else b
            getattr(lib, f"product_{kind}")(
                handle, form, *longs(m, n, k), p(given), p(bb), transposed, p(bias), p(out)
            )
            close(out, want, k, 2e-7)


@pytest.mark.parametrize("rows", [1, 2, 5, 12, 31])
def test_bytes_at_their_ends_are_exact(pool, rows: int) -> None:
    """Two products of 255 and -128 leave 16 bits, in which instructions for bytes may saturate."""
    lib, handle = pool
    depth, columns = 512, 40  # sums stay below 2^24, which float32 holds
    a = np.full((rows, depth), 255, np.uint8)
    b = np.full((depth, columns), -128, np.int8)
    b[:, 1::2] = 127
    b[1::2, 2::4] = 127  # neighbours along the depth of two signs
    bias, out = np.zeros(columns, np.float32), np.full((rows, columns), np.nan, np.float32)
    sizes = longs(rows, columns, depth)
    lib.product_i8(handle, 0, *sizes, p(a), p(b), 0, p(bias), p(out))
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("form", [0, 1, 2])
def test_float64(pool, form: int, rng: np.random.Generator) -> None:
    """To 1e-14 of the sum of absolute products; form 1: A by columns, 2: every second of B."""
    lib, handle = pool
    for m, n, k in SHAPES:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        start = rng.standard_normal((m, n))
        given = np.ascontiguousarray(a.T) if form == 1 else a
        for transposed in (0, 1):
            bb = np.ascontiguousarray(b.T) if transposed else b
            if form == 2:
                bb = np.repeat(bb, 2, axis=1)
            out = start.copy()
            lib.product_f64(handle, form, *longs(m, n, k), p(given), p(bb), transposed, p(out))
            bound = np.abs(a) @ np.abs(b) + np.abs(start)
            assert (np.abs(out - (a @ b + start)) <= 1e-14 * bound).all()


def test_float64_batches(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for batch in (1, 5):
        a, b = rng.standard_normal((batch, 33, 41)), rng.standard_normal((batch, 41, 70))
        out = np.empty((batch, 33, 70))
        lib.product_batched_f64(handle, *longs(batch, 33, 70, 41), p(a), p(b), p(out))
        assert np.abs(out - a @ b).max() <= 1e-13


def test_any_strides_of_b(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    m, n, k = 6, 37, 19
    a = rng.standard_normal((m, k)).astype(np.float32)
    wide = rng.standard_normal((k, n, 2)).astype(np.float32)
    out = np.empty((m, n), np.float32)
    lib.product_strided(handle, *longs(m, n, k), p(a), p(wide), p(out))
    close(out, a.astype(np.float64) @ wide[:, :, 0].astype(np.float64), k, 2e-7)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_batches(pool, batch: int, rng: np.random.Generator) -> None:
    lib, handle = pool
    for shared in (0, 1):
        for transposed in (0, 1):
            m, n, k = 33, 70, 41
            a = rng.standard_normal((batch, m, k)).astype(np.float32)
            b = rng.standard_normal((1 if shared else batch, k, n)).astype(np.float32)
            out = np.empty((batch, m, n), np.float32)
            bb = np.ascontiguousarray(b.transpose(0, 2, 1)) if transposed else b
            lib.product_batched(
                handle, *longs(batch, m, n, k), p(a), p(bb), shared, transposed, p(out)
            )
            close(out, a.astype(np.float64) @ b.astype(np.float64), k, 2e-7)


def test_results_do_not_depend_on_the_run_or_on_threads(
    load: Loader, rng: np.random.Generator
) -> None:
    lib = load("gemm")
    m, n, k = 120, 200, 150
    a = rng.standard_normal((m, k)).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    bias = np.zeros(n, np.float32)
    results = []
    for threads in (1, 2, 2, 4):
        handle = ctypes.c_void_p(lib.pool_new(threads))
        out = np.empty((m, n), np.float32)
        lib.product_f32(handle, 0, *longs(m, n, k), p(a), p(b), 0, p(bias), p(out))
        results.append(out.tobytes())
        lib.pool_free(handle)
    assert len(set(results)) == 1


def test_nan_and_infinity_reach_the_result(load: Loader) -> None:
    lib = load("gemm")
    handle = ctypes.c_void_p(lib.pool_new(1))
    a = np.ones((5, 40), np.float32)
    a[2, 7], a[3, 1] = np.nan, np.inf
    b = np.ones((40, 50), np.float32)
    out = np.empty((5, 50), np.float32)
    lib.product_f32(
        handle, 0, *longs(5, 50, 40), p(a), p(b), 0, p(np.zeros(50, np.float32)), p(out)
    )
    assert np.isnan(out[2]).all()
    assert np.isposinf(out[3]).all()
    assert (out[[0, 1, 4]] == 40).all()
    lib.pool_free(handle)


@pytest.mark.parametrize("shape", [(35, 50, 41), (1, 40, 64), (20, 17, 32)])
def test_hostile_values_of_bfloat16_stay_in_their_rows_and_columns(
    load: Loader, shape: tuple[int, int, int]
) -> None:
    """NaN and infinity at the ends of rows and columns, beside which kernels fill up with zeros."""
    lib = load("gemm")
    handle = ctypes.c_void_p(lib.pool_new(1))
    m, n, k = shape
    a, b = np.ones((m, k), BF16), np.ones((k, n), BF16)
    a[m - 1, k - 1] = np.nan
    b[k - 1, n - 1] = np.inf
    out = np.empty((m, n), np.float32)
    lib.product_bf16(handle, 0, *longs(m, n, k), p(a), p(b), 0, p(np.zeros(n, np.float32)), p(out))
    assert np.isnan(out[m - 1]).all()
    assert np.isposinf(out[: m - 1, n - 1]).all()
    assert (out[: m - 1, : n - 1] == k).all()
    lib.pool_free(handle)


def test_denormal_bfloat16_count_as_themselves_or_as_zero(load: Loader) -> None:
    """Instructions that multiply bf16 flush them: sums are off by what was flushed, not by more."""
    lib = load("gemm")
    handle = ctypes.c_void_p(lib.pool_new(1))
    m, n, k = 33, 32, 40
    a, b = np.full((m, k), 2.0**-130, BF16), np.full((k, n), 2.0, BF16)
    a[:, ::2] = 2.0**-60
    out = np.empty((m, n), np.float32)
    lib.product_bf16(handle, 0, *longs(m, n, k), p(a), p(b), 0, p(np.zeros(n, np.float32)), p(out))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (np.abs(out - exact) <= k * 2.0**-126 * 2 + 1e-6 * exact).all()
    lib.pool_free(handle)


def test_no_depth_leaves_too_few_tiles_to_fetch_the_next_panel(pool) -> None:
    lib, _ = pool
    for depth in (1, 512, 1000, 1024, 1792, 2032, 2040, 2047, 2048, 2049, 3000, 4096, 9000):
        assert lib.panels_are_fetched_ahead(ctypes.c_long(depth)), depth
