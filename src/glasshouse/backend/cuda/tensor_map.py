"""Tensor maps: where the copy engine of a Hopper GPU finds the tiles of an operand.

A launch says what it needs of an argument; the driver encodes it, 128 bytes for an address, which
are a parameter of the function like any other (`tensor_map.cuh`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver
from glasshouse.backend.cuda.sizes import dim_json, dim_value
from glasshouse.ir.dim import Dim

Array = np.ndarray[Any, Any]
DEPTH = 64
"""Half floats of a row that come together: 128 bytes, as tensor cores read them."""
CELLS = 16
"""Of 8 bytes, that an encoded map takes."""
_HALF, _SWIZZLE, _PROMOTION = 1, 3, 3  # two bytes an element; rows of 128 bytes; lines of 256


@dataclass(frozen=True)
class FetchedWindow:
    """Of an image: the first and the last place of the window, and its strides; width first."""

    lower: tuple[int, int]
    upper: tuple[int, int]
    strides: tuple[int, int]


@dataclass(frozen=True)
class TensorMap:
    """A tensor of half floats: sizes from the innermost axis on, bytes between neighbours of the
    others, and how many of these others come together, `DEPTH` elements of each (of an image: how
    many pixels). It begins so many elements behind the buffer's first."""

    buffer: str
    sizes: tuple[Dim, ...]
    steps: tuple[Dim, ...]
    box: tuple[int, ...]
    window: FetchedWindow | None = None
    begin: Dim = 0


def map_json(given: TensorMap, argument: int, offset: Dim) -> dict[str, Any]:
    """A map as plain data; the tensor lies `offset` bytes behind what an argument of the kernel
    points to: the first, 0, is its workspace."""
    window = given.window
    return {
        "argument": argument,
        "offset": dim_json(offset + given.begin * 2),
        "sizes": [dim_json(d) for d in given.sizes],
        "steps": [dim_json(d) for d in given.steps],
        "box": [*given.box, *[1] * (len(given.steps) - len(given.box))],
        "window": window and [list(window.lower), list(window.upper), list(window.strides)],
    }


def encoded(
    cuda: Driver, described: Mapping[str, Any], address: int, sizes: Mapping[str, int]
) -> Array:
    """The cells of a map, for the address that its argument has."""
    address += dim_value(described["offset"], sizes)
    room = ctypes.create_string_buffer(CELLS * 8 + 64)
    at = -(-ctypes.addressof(room) // 64) * 64
    extents = [dim_value(d, sizes) for d in described["sizes"]]
    rank = len(extents)
    if 0 in extents:  # nothing is launched then
        return np.zeros(CELLS, np.uint64)
    many = (ctypes.c_uint64 * rank)(*extents)
    steps = (ctypes.c_uint64 * rank)(*[dim_value(d, sizes) for d in described["steps"]])
    rest = (0, _SWIZZLE, _PROMOTION, 0)
    if described["window"] is None:
        box = (ctypes.c_uint32 * rank)(DEPTH, *described["box"])
        single = (ctypes.c_uint32 * rank)(*[1] * rank)
        cuda.call(
            "cuTensorMapEncodeTiled", at, _HALF, rank, address, many, steps, box, single, *rest
        )
    else:
        lower, upper, strides = described["window"]
        corners = (ctypes.c_int * 2)(*lower), (ctypes.c_int * 2)(*upper)
        every = (ctypes.c_uint32 * rank)(1, *strides, 1)
        cuda.call(
            "cuTensorMapEncodeIm2col", at, _HALF, rank, address, many, steps, *corners, DEPTH,
            described["box"][0], every, *rest,
        )  # fmt: skip
    return np.frombuffer(ctypes.string_at(at, CELLS * 8), np.uint64)
