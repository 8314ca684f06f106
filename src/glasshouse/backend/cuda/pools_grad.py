"""Gradients of pools: a thread for each element of the image, channels last, adds up what its
windows hand back (`pools_grad.cuh`), with what follows it."""

from __future__ import annotations

import math

from glasshouse.backend.cuda.pools import described
from glasshouse.backend.cuda.routine import (
    CudaRoutine,
    hand_over,
    image_of_pixel,
    neighbours,
    thread_for_channels,
)
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import bounds, product
from glasshouse.ir.dtype import DType, int32, uint8
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile_of_pixels
from glasshouse.ops.pool_ref import pool_window

POOL_GRAD = "pool_grad"
MOST_PLACES = 255
"""Taps of a window whose numbers are bytes, of which one stands for none."""


def pool_grad(builder: KernelBuilder, node: Node) -> None:
    """Add the gradient of a maximum or mean over windows; it has the shape of the pooled image."""
    add_tile_of_pixels(builder, node, POOL_GRAD)


def _overlaps(tile: Tile) -> bool:
    """Whether an element is in more windows than one: then maxima are looked for once."""
    attrs = dict(tile.attrs)
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    axes = zip(window.kernel, window.stride, window.dilation, strict=True)
    return any(bounds((k - 1) * d + 1)[1] > s for k, s, d in axes)


def _kept(tile: Tile) -> DType | None:
    """The type of places of maxima that are kept in memory; None: they are found again."""
    if not _overlaps(tile):
        return None
    return uint8 if math.prod(tile.attr("kernel")) <= MOST_PLACES else int32


def _needs(tile: Tile) -> Needs:
    """The place of each maximum in its window."""
    dtype = _kept(tile) if tile.op == "max_pool_grad" else None
    if dtype is None:
        return (), ()
    return (), (Scratch("places", product(tile.operands[0].shape) * dtype.itemsize, dtype),)


# ------------------------------------------------------------------------------------ rendering
def _pool_grad(out: CudaText, tile: Tile) -> None:
    g = tile.operands[0]
    planes, windows = described(dict(tile.attrs), tile.shape, g.shape)
    pixels, channels = (v.extent for v in tile.variables)
    width, cells = size_text(channels), product(tile.shape[2:])
    count = min(neighbours(tile), max(16 // g.element.dtype.itemsize, 1))
    places = ""
    if tile.op == "max_pool_grad":
        kept = _kept(tile)
        if kept is not None:
            count = min(count, 16 // kept.itemsize)
            _put_places(out, tile, kept, f"{planes}, {windows}", count)
        places = f", {_places(out, tile, kept, width)}"
    with thread_for_channels(out, pixels, channels, count):
        at = image_of_pixel(view(g).buffer, cells, product(g.shape[1:]))
        given = f"{planes}, {windows}, {at}, {width}, pixel % {size_text(cells)}{places}"
        function = "max_handed_back" if places else "mean_handed_back"
        out.add(f"const auto found_ = gh::{function}<{count}>({given});", tile.ops)
        hand_over(out, tile, "gh::once(found_, pixel, c", count, ("pixel", "c"))


def _put_places(out: CudaText, tile: Tile, kept: DType, planes: str, count: int) -> None:
    """A function that looks for the maximum of each window."""
    g, x = tile.operands
    cells, channels = product(g.shape[2:]), g.shape[1]
    with thread_for_channels(out, g.shape[0] * cells, channels, count):
        at = image_of_pixel(view(x).buffer, cells, product(x.shape[1:]))
        given = f"{planes}, {at}, {size_text(channels)}, pixel % {size_text(cells)}"
        found = f"gh::max_taps<{count}, {C_TYPE[kept]}>({given})"
        out.add(f"gh::store_vec({out.scratch(tile)} + e_, {found});", tile.ops)


def _places(out: CudaText, tile: Tile, kept: DType | None, width: str) -> str:
    """Where the maxima are: kept, or found again in the image."""
    g, x = tile.operands
    cells = product(tile.shape[2:])
    if kept is not None:
        at = image_of_pixel(out.scratch(tile), cells, product(g.shape[1:]))
        return f"gh::KeptPlaces<{C_TYPE[kept]}>{{{at}, {width}}}"
    at = image_of_pixel(view(x).buffer, cells, product(x.shape[1:]))
    return f"gh::FoundPlaces<{C_TYPE[x.element.dtype]}>{{{at}, {width}}}"


ROUTINES = {POOL_GRAD: CudaRoutine(_pool_grad, _needs)}
