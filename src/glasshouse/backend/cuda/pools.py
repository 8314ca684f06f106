"""Pools: a thread for each result (`pools.cuh`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glasshouse.backend.cuda.routine import (
    CudaRoutine,
    hand_over,
    image_of_pixel,
    neighbours,
    thread_each,
    thread_for_channels,
)
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.windows import row, three, windows_text
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import product
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, add_tile_of_pixels, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.pool_ref import pool_window

POOL, PLANES = "pool", "plane_pool"


def pool(builder: KernelBuilder, node: Node) -> None:
    """Add a maximum or mean over windows or parts, channels last, with what follows it."""
    add_tile_of_pixels(builder, node, POOL)


def places(builder: KernelBuilder, node: Node) -> None:
    """Add the places of maxima, plane by plane."""
    operand = whole(builder, node.inputs[0])
    add_tile(builder, node, PLANES, [operand], writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def described(attrs: Mapping[str, Any], image: Shape, result: Shape) -> tuple[str, str]:
    """`gh::Planes`, and the spans: `gh::Windows` or `gh::Parts`."""
    size, out = three(image[2:], 1), three(result[2:], 1)
    planes = f"gh::Planes{{{row(size, '(int)')}, {row(out, '(int)')}}}"
    if "kernel" not in attrs:
        return planes, f"gh::Parts{{{row(size, '(int)')}, {row(out, '(int)')}}}"
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    text = windows_text(size, window, attrs.get("count_include_pad", True))
    return planes, text.replace("(long)", "(int)")


def _kind(tile: Tile) -> str:
    return "gh::PoolMean" if "avg" in tile.op else "gh::PoolMax"


def _pool(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    planes, spans = described(dict(tile.attrs), x.shape, tile.shape)
    pixels, channels = (v.extent for v in tile.variables)
    cells = product(tile.shape[2:])
    count = min(neighbours(tile), max(16 // x.element.dtype.itemsize, 1))
    with thread_for_channels(out, pixels, channels, count):
        at = image_of_pixel(view(x).buffer, cells, product(x.shape[1:]))
        given = f"{planes}, {spans}, {at}, {size_text(channels)}, pixel % {size_text(cells)}"
        out.add(f"const auto found_ = gh::pool_beside<{_kind(tile)}, {count}>({given});", tile.ops)
        hand_over(out, tile, "gh::once(found_, pixel, c", count, ("pixel", "c"))


def _places(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    planes, spans = described(dict(tile.attrs), x.shape, tile.shape)
    cells, total = product(tile.shape[2:]), product(tile.shape)
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        image = f"{view(x).buffer} + e_ / {size_text(cells)} * {size_text(product(x.shape[2:]))}"
        out.add("int64_t place_ = -1;")
        given = f"{planes}, {spans}, {image}, 1, e_ % {size_text(cells)}, &place_"
        out.add(f"gh::pool_at<{_kind(tile)}>({given});", tile.ops)
        out.add(f"{tile.writes[0][1]}[e_] = place_;", tile.ops)


ROUTINES = {
    POOL: CudaRoutine(_pool),
    PLANES: CudaRoutine(_places),
}
