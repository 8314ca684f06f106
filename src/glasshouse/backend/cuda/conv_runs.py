"""Convolutions of few channels on GPUs (the first of a network for images): windows as runs.

The image is copied once, with four channels and the borders that windows see. With an even stride
a row of a window is then one run of memory, aligned to 16 bytes.
"""

from __future__ import annotations

from glasshouse.backend.cuda.matmul import HALVES, Product
from glasshouse.backend.cuda.routine import least, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.image import Image
from glasshouse.backend.cxx.words import C_TYPE, index_text, size_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile

RUNS = "runs"
"""Their form for windows of few channels: [filters, rows of a window, its columns, 4], zeros behind
both the columns and the channels (see `run_of`)."""
FEW = 4
"""Channels of an image whose windows lie as runs."""


def run_of(image: Image, dtype: DType, constant: bool) -> int:
    """Columns of a window that are one run of memory, an even number of them; 0 where windows are
    not read so. Images of three channels come with seven columns: 32 elements instead of 56."""
    w = image.window
    known = all(isinstance(d, int) for d in (image.channels, *w.kernel))
    if not known or dtype not in HALVES or not constant or image.groups != 1:
        return 0
    suits = w.stride[1] % 2 == 0 and w.dilation[1] == 1 and least(image.channels) <= FEW
    return -(-int(least(w.kernel[1])) // 2) * 2 if suits else 0


def bordered_size(image: Image, run: int) -> tuple[Dim, Dim]:
    """Height and width of a copy of the image in which no window leaves it."""
    w, (height, width) = image.window, image.result
    rows = (height - 1) * w.stride[0] + (w.kernel[0] - 1) * w.dilation[0] + 1
    return rows, (width - 1) * w.stride[1] + run


# ------------------------------------------------------------------------------------ rendering
def conv_in_runs(out: CudaText, tile: Tile, image: Image, run: int) -> None:
    dtype = tile.operands[0].element.dtype
    w, size = image.window, bordered_size(image, run)
    source = _bordered_image(out, tile, image, size)
    depth = w.kernel[0] * run * FEW
    pixels, filters = image.variables.values()
    numbers = (pixels, *image.result, *size, *w.stride, w.dilation[0], depth)
    given = ", ".join(f"(int){size_text(d)}" for d in numbers)
    kind = C_TYPE[dtype]
    left = f"gh::Runs<{kind}, {run * FEW}>{{{source}, {given}}}"
    right = f"gh::Matrix<{kind}, false, true>{{{out.form(tile.forms[0])}, {size_text(depth)}, 1, "
    right += f"(int){size_text(filters)}, (int){size_text(depth)}}}"
    sizes = ", ".join(f"(int){size_text(d)}" for d in (pixels, filters, depth))
    Product(tile, sizes, left, right, ("pixel", "oc"), pixels, filters).render(out, 1, [])


def _bordered_image(out: CudaText, tile: Tile, image: Image, size: tuple[Dim, Dim]) -> str:
    """A copy of the image with four channels, the last zero, and the borders that windows see."""
    x = tile.operands[0]
    (height, width), begins = size, image.window.begins
    pixels = image.batch * height * width
    name, load = out.scratch(tile, "image"), view(x)
    ctype = C_TYPE[load.dtype]
    with out.function(((pixels + 255) // 256, 1, 1), 256):
        thread_each(out, pixels)
        batch, channel, *spatial = x.loops
        out.add(f"const int column_ = e_ % {size_text(width)} - {begins[1]};")
        out.add(f"const int64_t row_of_ = e_ / {size_text(width)};")
        out.add(f"const int row_ = row_of_ % {size_text(height)} - {begins[0]};")
        out.add(f"const {out.index} {batch.name} = row_of_ / {size_text(height)};")
        places = ("row_", "column_")[2 - len(spatial) :]
        for loop, place in zip(spatial, places, strict=True):
            out.add(f"const {out.index} {loop.name} = {place};")
        bounds = zip(("row_", "column_"), image.size, strict=True)
        inside = " && ".join(f"(unsigned){at} < (unsigned){size_text(d)}" for at, d in bounds)
        out.add(f"gh::Vec<{ctype}, {FEW}> four_{{}};")
        with out.block(f"if ({inside}) {{", "}"):
            out.pragma("#pragma unroll")
            with out.block(
                f"for (int {channel.name} = 0; {channel.name} < {image.channels}; "
                f"++{channel.name}) {{", "}"
            ):  # fmt: skip
                place = f"{load.buffer}[{index_text(load.index)}]"
                out.add(f"four_[{channel.name}] = {place};", tile.ops)
        out.add(f"gh::store_vec({name} + e_ * {FEW}, four_);", tile.ops)
    return name
