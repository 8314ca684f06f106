"""Convolutions by every way, and their gradients by weights, against a float64 definition."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from conv_cases import DEPTHWISE, GENERAL, Case, make, p, relative

Loader = Callable[[str], ctypes.CDLL]


WINOGRAD = [
    Case(2, 5, 9, 7, 7, (3, 3), pad=1),
    Case(1, 20, 14, 14, 33, (3, 3)),
    Case(1, 64, 30, 30, 16, (3, 3), pad=1),
    Case(1, 3, 4, 4, 3, (3, 3), pad=2),
    Case(1, 17, 1, 1, 40, (3, 3), pad=1),
]


def windows(x: np.ndarray, s: Case) -> np.ndarray:
    """[N, OH, OW, kh, kw, C] of the padded image."""
    padded = np.pad(x, ((0, 0), (s.pad, s.pad), (s.pad, s.pad), (0, 0)))
    oh, ow = s.out
    taps = [
        padded[:, i * s.dilation :, j * s.dilation :][
            :, : (oh - 1) * s.stride + 1 : s.stride, : (ow - 1) * s.stride + 1 : s.stride
        ]
        for i in range(s.k[0])
        for j in range(s.k[1])
    ]
    return np.stack(taps, 3).reshape(s.n, oh, ow, *s.k, s.c)


def forward(x: np.ndarray, w: np.ndarray, s: Case) -> np.ndarray:
    win = windows(x.astype(np.float64), s)
    parts = []
    for g in range(s.groups):
        cg, og = s.c // s.groups, s.oc // s.groups
        parts.append(
            np.einsum(
                "nhwijc,ocij->nhwo",
                win[..., g * cg : (g + 1) * cg],
                w[g * og : (g + 1) * og].astype(np.float64),
            )
        )
    return np.concatenate(parts, 3)


@pytest.fixture(params=[1, 2])
def pool(load: Loader, request: pytest.FixtureRequest):
    lib = load("conv")
    handle = ctypes.c_void_p(lib.pool_new(request.param))
    yield lib, handle
    lib.pool_free(handle)


@pytest.mark.parametrize(
    "way, cases, bound",
    [
        (0, GENERAL, 1e-6),
        (1, GENERAL, 1e-6),
        (2, WINOGRAD, 2e-6),
        (4, WINOGRAD, 2e-5),
        (5, DEPTHWISE, 1e-6),
    ],
)
def test_forward(pool, way: int, cases: list[Case], bound: float, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in cases:
        x, w = make(s, rng)
        bias = rng.standard_normal(s.oc).astype(np.float32)
        y = np.full((s.n, *s.out, s.oc), np.nan, np.float32)
        given = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if way == 1 else x
        lib.conv(handle, way, s.packed, p(given), p(w), p(bias), p(y))
        assert relative(y, np.maximum(forward(x, w, s) + bias, 0)) <= bound, s


FEW = [
    Case(2, 5, 9, 7, 3, (3, 3), pad=1),
    Case(1, 33, 21, 34, 8, (3, 2), pad=2),  # the window reaches beyond on both sides
    Case(1, 1, 5, 40, 1, (5, 3), pad=4, dilation=2),
    Case(3, 17, 1, 400, 1, (1, 16)),
    Case(1, 200, 40, 60, 3, (9, 9), pad=4),  # parts of rows
    Case(1, 90, 6, 900, 3, (3, 5), pad=1),  # and of columns
]


def test_few_filters(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in FEW:
        x, w = make(s, rng)
        bias = rng.standard_normal(s.oc).astype(np.float32)
        y = np.full((s.n, s.oc, *s.out), np.nan, np.float32)
        lib.few_filters(handle, s.packed, p(x), p(w), p(bias), p(y))
        want = forward(x, w, s) + bias
        assert relative(y.transpose(0, 2, 3, 1), want) <= 3e-6, s


def test_forward_in_bfloat16(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in GENERAL:
        x, w = make(s, rng)
        y = np.full((s.n, *s.out, s.oc), np.nan, np.float32)
        lib.conv_bf16(handle, s.packed, p(x), p(w), p(y))
        assert relative(y, forward(x, w, s)) <= 1.5e-2, s


def test_gradients(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in [*GENERAL, DEPTHWISE[0]]:
        x, w = make(s, rng)
        g = rng.standard_normal((s.n, *s.out, s.oc)).astype(np.float32)
        by_weight = [np.full(w.shape, np.nan, np.float32) for _ in range(2)]
        for direct, dw in enumerate(by_weight):
            lib.weight_grad(handle, direct, s.packed, p(x), p(g), p(dw))
        cg, og = s.c // s.groups, s.oc // s.groups
        win, gd = windows(x.astype(np.float64), s), g.astype(np.float64)
        want_w = np.concatenate(
            [
                np.einsum(
                    "nhwijc,nhwo->ocij",
                    win[..., i * cg : (i + 1) * cg],
                    gd[..., i * og : (i + 1) * og],
                )
                for i in range(s.groups)
            ]
        )
        assert all(relative(dw, want_w) <= 1e-6 for dw in by_weight), s
