"""Convolutions by every way, and their gradients, against a float64 definition."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

Loader = Callable[[str], ctypes.CDLL]


@dataclass(frozen=True)
class Case:
    n: int
    c: int
    h: int
    w: int
    oc: int
    k: tuple[int, int]
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    groups: int = 1

    @property
    def out(self) -> tuple[int, int]:
        spans = [self.dilation * (k - 1) + 1 for k in self.k]
        return tuple(
            (s + 2 * self.pad - d) // self.stride + 1
            for s, d in zip((self.h, self.w), spans, strict=True)
        )  # type: ignore[return-value]  # two axes

    @property
    def packed(self) -> ctypes.Array[ctypes.c_long]:
        sizes = (self.n, self.h, self.w, self.c, *self.out, self.oc, *self.k)
        window = (*[self.stride] * 2, *[self.pad] * 2, *[self.dilation] * 2)
        return (ctypes.c_long * 16)(*sizes, *window, self.groups)


GENERAL = [
    Case(1, 16, 6, 6, 16, (1, 1)),
    Case(2, 5, 9, 7, 7, (3, 3), pad=1),
    Case(1, 6, 10, 8, 8, (3, 3), 2, 1, groups=2),
    Case(1, 20, 17, 30, 33, (5, 3), 1, 2),
    Case(1, 16, 12, 20, 40, (3, 3), pad=2, dilation=2),
    Case(2, 3, 31, 40, 17, (7, 7), 2, 3),
    Case(1, 8, 5, 34, 20, (2, 2), 2),
    Case(1, 8, 1, 33, 12, (1, 5), pad=0),
    Case(1, 1024, 3, 15, 18, (1, 1), 2),
    Case(1, 12, 16, 16, 32, (3, 3), 3, 1),
    Case(1, 4, 4, 4, 4, (1, 1), 1, 1),
]
WINOGRAD = [
    Case(2, 5, 9, 7, 7, (3, 3), pad=1),
    Case(1, 20, 14, 14, 33, (3, 3)),
    Case(1, 64, 30, 30, 16, (3, 3), pad=1),
    Case(1, 3, 4, 4, 3, (3, 3), pad=2),
    Case(1, 17, 1, 1, 40, (3, 3), pad=1),
]
DEPTHWISE = [
    Case(2, 20, 9, 11, 20, (3, 3), pad=1, groups=20),
    Case(1, 33, 14, 13, 33, (5, 5), 2, 2, groups=33),
    Case(1, 16, 6, 9, 16, (3, 3), 1, 2, 2, 16),
    Case(1, 16, 2, 2, 16, (7, 7), 1, 3, groups=16),
]


def p(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


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


def make(s: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((s.n, s.h, s.w, s.c)).astype(np.float32)
    w = rng.standard_normal((s.oc, s.c // s.groups, *s.k)).astype(np.float32)
    return x, w


def relative(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


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
        dx = np.full(x.shape, np.nan, np.float32)
        by_weight = [np.full(w.shape, np.nan, np.float32) for _ in range(2)]
        lib.input_grad(handle, s.packed, p(g), p(w), p(dx))
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
        # <g, conv(x)> = <dx, x> for every x fixes dx: tested on unit vectors through the
        # definition's adjoint.
        padded = np.zeros((s.n, s.h + 2 * s.pad, s.w + 2 * s.pad, s.c))
        oh, ow = s.out
        for i in range(s.k[0]):
            for j in range(s.k[1]):
                part = np.concatenate(
                    [
                        gd[..., q * og : (q + 1) * og]
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
        want_x = padded[:, s.pad : s.pad + s.h, s.pad : s.pad + s.w]
        assert relative(dx, want_x) <= 2e-6, s
