"""Convolutions that tests of the kernel headers share: sizes, steps, dilations, groups."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np


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
DEPTHWISE = [
    Case(2, 20, 9, 11, 20, (3, 3), pad=1, groups=20),
    Case(1, 33, 14, 13, 33, (5, 5), 2, 2, groups=33),
    Case(1, 16, 6, 9, 16, (3, 3), 1, 2, 2, 16),
    Case(1, 16, 2, 2, 16, (7, 7), 1, 3, groups=16),
]


def p(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def make(s: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((s.n, s.h, s.w, s.c)).astype(np.float32)
    w = rng.standard_normal((s.oc, s.c // s.groups, *s.k)).astype(np.float32)
    return x, w


def relative(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())
