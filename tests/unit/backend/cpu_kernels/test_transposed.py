"""Transposed convolutions, by every way, against a float64 definition."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from conv_cases import DEPTHWISE, GENERAL, Case, make, p, relative

Loader = Callable[[str], ctypes.CDLL]


@pytest.fixture(params=[1, 2])
def pool(load: Loader, request: pytest.FixtureRequest):
    lib = load("transposed")
    handle = ctypes.c_void_p(lib.pool_new(request.param))
    yield lib, handle
    lib.pool_free(handle)


def input_grad(lib, handle, way: int, s: Case, g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """By one way of the templates, channels last."""
    shape = (s.n, s.c, s.h, s.w) if way == 2 else (s.n, s.h, s.w, s.c)
    dx = np.full(shape, np.nan, np.float32)
    lib.input_grad(handle, way, s.packed, p(g), p(w), p(dx))
    return dx.transpose(0, 2, 3, 1) if way == 2 else dx


def by_input(g: np.ndarray, w: np.ndarray, s: Case) -> np.ndarray:
    """<g, conv(x)> = <dx, x> for every x fixes dx: the definition's adjoint."""
    og = s.oc // s.groups
    padded = np.zeros((s.n, s.h + 2 * s.pad, s.w + 2 * s.pad, s.c))
    oh, ow = s.out
    for i in range(s.k[0]):
        for j in range(s.k[1]):
            part = np.concatenate(
                [
                    g[..., q * og : (q + 1) * og]
                    @ w[q * og : (q + 1) * og, :, i, j].astype(np.float64)
                    for q in range(s.groups)
                ],
                -1,
            )
            padded[
                :,
                i * s.dilation : i * s.dilation + (oh - 1) * s.stride + 1 : s.stride,
                j * s.dilation : j * s.dilation + (ow - 1) * s.stride + 1 : s.stride,
            ] += part
    return padded[:, s.pad : s.pad + s.h, s.pad : s.pad + s.w]


TRANSPOSED = [
    Case(2, 3, 32, 32, 20, (4, 4), 2, 1),
    Case(3, 1, 1, 1000, 5, (1, 16), 8, 0),
    Case(1, 2, 150, 311, 6, (5, 3), 3, 2),  # parts of rows and columns
    Case(1, 1, 9, 2000, 9, (3, 40), 5, 1),
    Case(1, 4, 17, 33, 3, (3, 5), 4, 2, 3),  # steps and dilation with and without a common part
    Case(1, 40, 30, 41, 7, (3, 4), 2, 1, 2),
    Case(2, 17, 31, 29, 33, (2, 2), 3),  # steps wider than the window
    Case(1, 8, 60, 120, 5, (9, 9), 1, 4),  # high windows: parts as large as L2, and smaller ones
    Case(1, 5, 300, 1, 4, (150, 1), 2, 0),  # more taps than anybody's table
]


def test_transposed(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in [*GENERAL, DEPTHWISE[0], *TRANSPOSED]:
        _, w = make(s, rng)
        g = rng.standard_normal((s.n, *s.out, s.oc)).astype(np.float32)
        want = by_input(g.astype(np.float64), w, s)
        for way in range(3):
            if (way == 1 and s.k[0] > 64) or (way == 2 and s.groups > 1):
                continue
            assert relative(input_grad(lib, handle, way, s, g, w), want) <= 2e-6, (way, s)


APART = [
    Case(2, 40, 8, 12, 20, (2, 2), 2),
    Case(1, 3, 9, 15, 5, (3, 3), 3),
    Case(3, 33, 4, 5, 7, (4, 5)),  # a single window
]


def test_taps_that_never_meet(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in APART:
        _, w = make(s, rng)
        g = rng.standard_normal((s.n, *s.out, s.oc)).astype(np.float32)
        want = by_input(g.astype(np.float64), w, s)
        assert relative(input_grad(lib, handle, 3, s, g, w), want) <= 1e-6, s


def test_values_that_are_not_finite_stay_where_they_are(pool, rng: np.random.Generator) -> None:
    """What reaches beyond the image is nobody's: an infinite weight makes no NaN of it."""
    lib, handle = pool
    s = Case(1, 3, 20, 22, 4, (4, 4), 2, 1)
    _, w = make(s, rng)
    g = np.ones((s.n, *s.out, s.oc), np.float32)
    w[2, 1, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        want = by_input(g.astype(np.float64), w, s)
    got = input_grad(lib, handle, 2, s, g, w)
    assert np.isinf(got).sum() == np.isinf(want).sum() > 0
    assert not np.isnan(got).any()
    g[0, 3, 4, 1] = np.nan
    got = input_grad(lib, handle, 2, s, g, w)
    assert np.array_equal(np.isnan(got), np.isnan(by_input(g.astype(np.float64), w, s)))
