"""Convolutions of bytes give the very sums of whole numbers, whatever the weights and images."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from conv_cases import DEPTHWISE, Case, p

Loader = Callable[[str], ctypes.CDLL]

CASES = [
    Case(2, 5, 9, 7, 7, (3, 3), pad=1),
    Case(1, 36, 14, 14, 33, (3, 3)),
    Case(1, 64, 28, 27, 16, (3, 3), pad=1),
    Case(1, 3, 4, 4, 3, (3, 3), pad=2),
    Case(1, 17, 1, 1, 40, (3, 3), pad=1),
    Case(1, 130, 5, 6, 4, (3, 3), pad=1),
    Case(1, 40, 14, 14, 70, (3, 3), pad=1),
    Case(2, 33, 21, 30, 34, (3, 3), pad=1),
]

BY_CHANNEL = [
    *DEPTHWISE,
    Case(1, 40, 5, 9, 40, (4, 3), pad=1, groups=40),
    Case(1, 17, 1, 70, 17, (1, 9), pad=4, groups=17),
    Case(1, 16, 3, 20, 16, (1, 2), 2, groups=16),
    Case(1, 16, 1, 40, 16, (1, 5), dilation=3, groups=16),
    Case(1, 8, 4, 450, 8, (3, 3), 1, 1, groups=8),
    Case(1, 8, 3, 500, 8, (3, 3), 2, 1, groups=8),
    Case(2, 19, 9, 11, 19, (2, 3), 2, 1, groups=19),
    Case(1, 33, 6, 1, 33, (4, 3), 2, 2, groups=33),
    Case(1, 16, 2, 2, 16, (3, 3), pad=3, groups=16),
    Case(1, 20, 9, 9, 20, (3, 3), 3, 1, groups=20),
]

IN_GROUPS = [
    Case(2, 24, 9, 17, 24, (3, 3), pad=1, groups=6),  # three groups of 4 fill a vector best
    Case(1, 12, 9, 17, 8, (3, 3), pad=1, groups=4),  # all of them, of 3 channels
    Case(1, 40, 20, 30, 40, (3, 3), 2, 1, groups=5),  # none go together
    Case(1, 64, 9, 16, 32, (3, 3), pad=2, dilation=2, groups=8),
    Case(1, 96, 5, 15, 144, (3, 2), groups=3),  # more filters than a panel has columns
    Case(1, 32, 4, 15, 16, (1, 1), groups=4),
    # Windows that share what was brought to lanes: groups of 4, 8 (36 bytes a vector), 16, 32.
    Case(2, 32, 7, 31, 32, (3, 3), pad=1, groups=8),
    Case(1, 48, 9, 33, 32, (3, 3), 2, 1, groups=4),
    Case(1, 48, 8, 17, 48, (2, 3), pad=1, groups=3),
    Case(1, 40, 19, 30, 32, (3, 3), 2, 1, groups=2),
    Case(2, 72, 9, 9, 64, (3, 3), pad=1, groups=2),
    Case(1, 8, 31, 31, 128, (3, 3), 2, 2, groups=2),
    Case(1, 32, 5, 5, 32, (3, 3), pad=1, groups=2),
    Case(1, 32, 9, 20, 32, (3, 3), 3, 1, groups=8),
    # Taken together they look like groups that lanes hold, and are none.
    Case(1, 24, 9, 17, 32, (3, 3), pad=1, groups=8),
]


@pytest.fixture(params=[1, 2])
def pool(load: Loader, request: pytest.FixtureRequest):
    lib = load("conv_bytes")
    handle = ctypes.c_void_p(lib.pool_new(request.param))
    yield lib, handle
    lib.pool_free(handle)


def exact(x: np.ndarray, zero: int, w: np.ndarray, s: Case) -> np.ndarray:
    edge = (s.pad, s.pad)
    image = np.pad(x.astype(np.int64) - zero, ((0, 0), edge, edge, (0, 0)))
    span = tuple(s.dilation * (k - 1) + 1 for k in s.k)
    windows = np.lib.stride_tricks.sliding_window_view(image, span, (1, 2))
    taps = windows[:, :: s.stride, :: s.stride, :, :: s.dilation, :: s.dilation]
    return np.einsum("nhwcij,ocij->nhwo", taps, w.astype(np.int64))


def sums(lib: ctypes.CDLL, name: str, handle: ctypes.c_void_p, s: Case, *given: object) -> tuple:
    x, zero, w = given
    y = np.full((s.n, *s.out, s.oc), -7, np.int32)
    parts = getattr(lib, name)(handle, s.packed, p(x), zero, p(w), p(y))
    return y, parts


@pytest.mark.parametrize("zero", [0, 131, 255])
def test_unsigned_images(pool, zero: int, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in CASES:
        x = rng.integers(0, 256, (s.n, s.h, s.w, s.c)).astype(np.uint8)
        w = rng.integers(-128, 128, (s.oc, s.c, *s.k)).astype(np.int8)
        for name in ("over_taps", "by_transform"):
            y, _ = sums(lib, name, handle, s, x, zero, w)
            np.testing.assert_array_equal(y, exact(x, zero, w, s), f"{name} {s}")


@pytest.mark.parametrize("planes", [0, 1])
def test_rows_of_taps_that_are_no_whole_units(pool, planes: int, rng: np.random.Generator) -> None:
    """Photographs of 3 channels, in either order, and windows of odd widths."""
    lib, handle = pool
    for s in (
        Case(1, 3, 33, 140, 40, (7, 7), stride=2, pad=3),
        Case(2, 3, 8, 150, 5, (3, 3), pad=1),
        Case(1, 1, 9, 40, 7, (5, 3)),
        Case(1, 7, 12, 9, 33, (2, 3), stride=3, pad=1),
    ):
        x = rng.integers(0, 256, (s.n, s.h, s.w, s.c)).astype(np.uint8)
        w = rng.integers(-128, 128, (s.oc, s.c, *s.k)).astype(np.int8)
        given = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if planes else x
        y, _ = sums(lib, "of_planes" if planes else "over_taps", handle, s, given, 131, w)
        np.testing.assert_array_equal(y, exact(x, 131, w, s), f"{s}")


@pytest.mark.parametrize("signed, zero", [(0, 0), (0, 255), (1, -128), (1, 127), (1, 5)])
def test_channels_by_themselves(pool, signed: int, zero: int, rng: np.random.Generator) -> None:
    """Windows of all heights, rows longer than what is held of them, results far from the edges."""
    lib, handle = pool
    for s in BY_CHANNEL:
        low, dtype = (-128, np.int8) if signed else (0, np.uint8)
        x = rng.integers(low, low + 256, (s.n, s.h, s.w, s.c)).astype(dtype)
        w = rng.integers(-128, 128, (s.oc, *s.k)).astype(np.int8)
        name = "depthwise_signed" if signed else "depthwise"
        y, _ = sums(lib, name, handle, s, x, zero, w)
        alone = [exact(x[..., c : c + 1], zero, w[c, None, None], s) for c in range(s.c)]
        np.testing.assert_array_equal(y, np.concatenate(alone, -1), f"{s}")


def test_groups(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in IN_GROUPS:
        x = rng.integers(0, 256, (s.n, s.h, s.w, s.c)).astype(np.uint8)
        w = rng.integers(-128, 128, (s.oc, s.c // s.groups, *s.k)).astype(np.int8)
        y, _ = sums(lib, "over_taps", handle, s, x, 77, w)
        parts = np.split(x, s.groups, -1), np.split(w, s.groups)
        wanted = [exact(a, 77, b, s) for a, b in zip(*parts, strict=True)]
        np.testing.assert_array_equal(y, np.concatenate(wanted, -1), f"{s}")


def test_signed_images(pool, rng: np.random.Generator) -> None:
    lib, handle = pool
    for s in CASES[:3]:
        x = rng.integers(-128, 128, (s.n, s.h, s.w, s.c)).astype(np.int8)
        w = rng.integers(-128, 128, (s.oc, s.c, *s.k)).astype(np.int8)
        y, _ = sums(lib, "by_transform_signed", handle, s, x, -9, w)
        np.testing.assert_array_equal(y, exact(x, -9, w, s), f"{s}")


@pytest.mark.parametrize("weight", [-128, 127])
@pytest.mark.parametrize("zero, pixel", [(0, 255), (255, 0)])
def test_the_largest_sums_are_taken_in_parts(pool, weight: int, zero: int, pixel: int) -> None:
    """Bytes that all pull the same way: sums of all channels would not fit in what is left."""
    lib, handle = pool
    for channels, wanted in ((112, 1), (230, 3)):
        s = Case(1, channels, 8, 8, 3, (3, 3), pad=1)
        x = np.full((1, 8, 8, channels), pixel, np.uint8)
        w = np.full((3, channels, 3, 3), weight, np.int8)
        w[1, :, ::2] = -1 - weight
        y, parts = sums(lib, "by_transform", handle, s, x, zero, w)
        np.testing.assert_array_equal(y, exact(x, zero, w, s))
        assert parts == wanted
    w[:] = 40  # so small that one sum does
    y, parts = sums(lib, "by_transform", handle, s, x, zero, w)
    np.testing.assert_array_equal(y, exact(x, zero, w, s))
    assert parts == 1


@pytest.mark.parametrize("zero", [0, 100, 255])
def test_weights_of_both_signs_need_half_the_room(pool, zero: int) -> None:
    """200 channels of the largest weights, half of them negative: one sum holds all that comes."""
    lib, handle = pool
    s = Case(1, 200, 6, 5, 2, (3, 3), pad=1)
    w = np.full((2, 200, 3, 3), 127, np.int8)
    w[:, ::2] = -128
    for large in (0, 1):  # the pixels that pull all sums one way
        x = np.zeros((1, 6, 5, 200), np.uint8)
        x[..., large::2] = 255
        y, parts = sums(lib, "by_transform", handle, s, x, zero, w)
        np.testing.assert_array_equal(y, exact(x, zero, w, s))
        assert parts == 1
