"""Images are resized by a thread for each result, channels last, with what follows it
(`resize.cuh`); the gradient gathers likewise, a thread for each element of the image
(`resize_grad.cuh`)."""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.backend.cuda.routine import (
    CudaRoutine,
    hand_over,
    image_of_pixel,
    most,
    neighbours,
    thread_for_channels,
)
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile_of_pixels

RESIZE, RESIZE_GRAD = "resize", "resize_grad"


def resize(builder: KernelBuilder, node: Node) -> None:
    """Add a resizing, or the gradient of one."""
    out = node.output
    if out.type.rank > 5 or most(out.type.numel) >= 2**31:
        raise Unsupported("no kernel for images of more than three spatial axes, or 2^31 results")
    add_tile_of_pixels(builder, node, node.op.name)


# ------------------------------------------------------------------------------------ rendering
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def _axes(tile: Tile, image: Sequence[Dim], result: Sequence[Dim]) -> tuple[list[str], str]:
    """The kinds of taps of three axes, the first ones of size 1 where there are fewer, and the axes
    as `gh::ResizeAxis`; `image` and `result`: spatial sizes before and after."""
    scales = tile.attr("scales") or [0.0] * len(image)
    places, mode = f"gh::ResizePlaces::{tile.attr('coordinates')}", tile.attr("mode")
    kind = f"gh::PlainTaps<{_TAPS[mode]}>"
    if tile.attr("antialias"):
        kind = f"gh::FilterTaps<{'true' if mode == 'cubic' else 'false'}>"

    def one(length: Dim, count: Dim, scale: float) -> str:
        sizes = f"(int){size_text(length)}, (int){size_text(count)}"
        return f"gh::ResizeAxis{{{sizes}, {places}, {float(scale)!r}}}"

    given = [one(*axis) for axis in zip(image, result, scales, strict=True)]
    missing = 3 - len(given)
    kinds = ["gh::OneTap"] * missing + [kind] * len(given)
    return kinds, ", ".join([*[one(1, 1, 0.0)] * missing, *given])


def _resize(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    pixels, channels = (v.extent for v in tile.variables)
    cells = product(tile.shape[2:])
    count = min(neighbours(tile), max(16 // x.element.dtype.itemsize, 1))
    back = tile.op == "resize_grad"
    sizes = (tile.shape[2:], x.shape[2:]) if back else (x.shape[2:], tile.shape[2:])
    kinds, axes = _axes(tile, *sizes)
    function = "resized_back" if back else "resized"
    with thread_for_channels(out, pixels, channels, count):
        at = image_of_pixel(view(x).buffer, cells, product(x.shape[1:]))
        given = f"{axes}, {at}, {size_text(channels)}, pixel % {size_text(cells)}"
        of = ", ".join([*kinds, str(count)])
        out.add(f"const auto found_ = gh::{function}<{of}>({given});", tile.ops)
        hand_over(out, tile, "gh::once(found_, pixel, c", count, ("pixel", "c"))


ROUTINES = {name: CudaRoutine(_resize) for name in (RESIZE, RESIZE_GRAD)}
