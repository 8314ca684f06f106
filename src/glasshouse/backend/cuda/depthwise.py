"""Depthwise convolutions on GPUs and their gradients (`depthwise.cuh`): a thread takes neighbouring
channels, channels last, and neighbouring pixels of a row where there are many.

Gradients by weights are sums over all pixels: blocks leave float64 parts, which are added in order.
"""

from __future__ import annotations

from glasshouse.backend.cuda.conv_shape import shape_text
from glasshouse.backend.cuda.matmul import HALVES, TURNED
from glasshouse.backend.cuda.nests import LONG_SUM
from glasshouse.backend.cuda.routine import (
    CudaRoutine,
    hand_over,
    least,
    most,
    neighbours,
    thread_each,
    thread_for_channels,
)
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import PROCESSORS
from glasshouse.backend.cxx.image import Image, gradient_image
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Scratch, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole

DEPTHWISE, BACK, BY_WEIGHTS = "depthwise2d", "depthwise2d_back", "depthwise2d_weights"
ENOUGH_THREADS = PROCESSORS * 256
"""Threads that hide the way from memory: channels are shared by more of them below, and pixels of a
row taken together only above twice that."""
MOST_PIXELS, WIDEST_ROW = 4, 8
"""Pixels of a row that a thread takes, and the width of a window up to which it takes several: it
holds all that they see of a row."""
SMALL_WEIGHTS = 1024
"""Bytes of weights that are read as they lie where they are not known before: eight lines of memory
for a warp at most, which is less than the start of a function that turns them."""
BLOCK, MOST_SUMS = 256, 32
"""Threads of a block for weights, and the sums of one: a row of taps of some channels."""


# ------------------------------------------------------------------------------------- lowering
def depthwise_of(node: Node) -> Image | None:
    """The depthwise convolution that a node is, or is a gradient of; None where there is no kernel
    for it."""
    first, second = (v.type for v in node.inputs)
    made = node.output.type
    shapes = {
        "conv": (first.shape, second.shape, made.shape),
        "conv_transpose": (made.shape, second.shape, first.shape),
        "conv_weight_grad": (first.shape, made.shape, second.shape),
    }.get(node.op.name)
    known = first.dtype in (*HALVES, float32, float64) and second.dtype is first.dtype
    if shapes is None or not known or len(shapes[0]) > 4:
        return None
    image = gradient_image(node.attrs, *shapes)
    sizes = (*image.window.kernel, image.channels)
    if not image.is_depthwise or not all(isinstance(d, int) for d in sizes):
        return None
    if max(most(v.type.numel) for v in (*node.inputs, node.output)) >= 2**31:
        return None
    wide = node.op.name == "conv_weight_grad" and most(image.window.kernel[1]) > MOST_SUMS
    return None if wide else image


def depthwise(builder: KernelBuilder, node: Node) -> None:
    """Add a node of `depthwise_of`, with what follows it in its epilogue where that is possible."""
    first, second = node.inputs
    out, order = node.output, channels_last(node.output.type.rank)
    if node.op.name == "conv_weight_grad":
        operands = (whole(builder, first, order), whole(builder, second, order))
        after = take_results(builder, out, {"e": out.type.numel})
        add_tile(builder, node, BY_WEIGHTS, operands, after)
        return
    operands = (whole(builder, first, order), whole(builder, second))
    channels = out.type.shape[1]
    after = take_results(builder, out, {"pixel": out.type.numel // channels, "oc": channels}, order)
    routine = DEPTHWISE if node.op.name == "conv" else BACK
    add_tile(builder, node, routine, operands, after, order)


# ------------------------------------------------------------------------------------ rendering
def _image(tile: Tile) -> Image:
    """The convolution, from which a gradient goes back."""
    first, second = (x.shape for x in tile.operands)
    shapes = {
        DEPTHWISE: (first, second, tile.shape), BACK: (tile.shape, second, first),
        BY_WEIGHTS: (first, tile.shape, second),
    }[tile.routine]  # fmt: skip
    return gradient_image(dict(tile.attrs), *shapes)


def _channels(image: Image) -> int:
    assert isinstance(image.channels, int), "lowering wants it known"
    return image.channels


def _together(channels: int, results: float, dtype: DType) -> int:
    """Channels of a thread: 16 bytes at most, fewer where there are few results."""
    count = 16 // dtype.itemsize
    while count > 1 and (channels % count or results < count * ENOUGH_THREADS):
        count //= 2
    return count


def _pixels(image: Image, wide: Dim, threads: float) -> int:
    """Pixels of a row that a thread takes, of rows of so many."""
    w = image.window
    slides = w.stride[1] == w.dilation[1] == 1 and most(w.kernel[1]) <= WIDEST_ROW
    count = MOST_PIXELS if slides and isinstance(wide, int) else 1
    while count > 1 and (wide % count != 0 or threads < 2 * count * ENOUGH_THREADS):
        count //= 2
    return count


def _is_turned(tile: Tile) -> bool:
    w = tile.operands[1]
    return w.constant or most(product(w.shape)) * w.element.dtype.itemsize > SMALL_WEIGHTS


def _needs(tile: Tile) -> Needs:
    """Weights [taps, channels]: made once of constants, otherwise in every run, but of few."""
    w = tile.operands[1]
    dtype, sizes = w.element.dtype, (w.shape[0], product(w.shape[2:]))
    if w.constant:
        return (Form(view(w).buffer, TURNED, dtype, sizes, True),), ()
    if not _is_turned(tile):
        return (), ()
    return (), (Scratch("taps", product(sizes) * dtype.itemsize, dtype),)


def _weights(out: CudaText, tile: Tile) -> str:
    w = tile.operands[1]
    if tile.forms:
        return out.form(tile.forms[0])
    if not _is_turned(tile):
        return view(w).buffer
    channels, taps = size_text(w.shape[0]), size_text(product(w.shape[2:]))
    name, total = out.scratch(tile, "taps"), product(w.shape)
    with out.function(((total + (BLOCK - 1)) // BLOCK, 1, 1), BLOCK):
        thread_each(out, total, BLOCK)
        place = f"e_ % {channels} * {taps} + e_ / {channels}"
        out.add(f"{name}[e_] = {view(w).buffer}[{place}];", tile.ops)
    return name


def _depthwise(out: CudaText, tile: Tile) -> None:
    x, image = tile.operands[0], _image(tile)
    pixels, channels = tile.variables[0].extent, _channels(image)
    wide = image.size[1] if tile.routine == BACK else image.result[1]
    weights = _weights(out, tile)
    results = least(pixels) * channels
    count = _together(channels, results, x.element.dtype)
    beside = _pixels(image, wide, results / count)
    taps = image.window.kernel[1] if beside > 1 else 0
    handed = min(neighbours(tile), count)
    flags = ", ".join(str(f).lower() for f in (tile.routine == BACK, _is_turned(tile)))
    with thread_for_channels(out, pixels // beside, channels, count, ("run_", "c_")):
        kind = f"gh::depthwise<{count}, {beside}, {taps}, {handed}, {flags}>"
        given = f"{shape_text(image)}, {view(x).buffer}, {weights}, run_ * {beside}, c_"
        hand_over(out, tile, f"{kind}({given}", handed, ("pixel", "oc"))


def _shares(tile: Tile) -> tuple[int, int, int, Dim]:
    """Of gradients by weights: channels of a thread, threads of a block that share pixels, pixels
    of a block, and how many parts there are."""
    x, image = tile.operands[0], _image(tile)
    channels, (high, wide) = _channels(image), (int(most(k)) for k in image.window.kernel)
    count = 16 // x.element.dtype.itemsize
    while count > 1 and (channels % count or count * wide > MOST_SUMS):
        count //= 2
    columns = 1
    while columns < 32 and columns * count < channels:
        columns *= 2
    pixels, parts = image.batch * product(image.result), BLOCK // columns
    blocks = -(-channels // (columns * count)) * high
    terms = most(pixels) * blocks / (parts * 2 * PROCESSORS)
    each = parts * int(max(4, min(terms, LONG_SUM)))
    return count, columns, each, (pixels + (each - 1)) // each


def _weight_needs(tile: Tile) -> Needs:
    *_, parts = _shares(tile)
    return (), (Scratch("parts", parts * product(tile.shape) * 8, float64),)


def _by_weights(out: CudaText, tile: Tile) -> None:
    (x, g), image = tile.operands, _image(tile)
    count, columns, each, parts = _shares(tile)
    channels, (high, wide) = _channels(image), image.window.kernel
    room, taps = out.scratch(tile, "parts"), size_text(high * wide)
    rows = -(-channels // (columns * count))
    with out.function((parts, rows, high), BLOCK):
        kind = f"gh::depthwise_weight_parts<{count}, {wide}, {columns}, {BLOCK // columns}>"
        pixels = size_text(image.batch * product(image.result))
        given = f"{shape_text(image)}, {view(x).buffer}, {view(g).buffer}, (int){pixels}, {each}"
        out.add(f"{kind}({given}, {room});", tile.ops)
    total = product(tile.shape)
    with out.function(((total + (BLOCK - 1)) // BLOCK, 1, 1), BLOCK):
        thread_each(out, total, BLOCK)
        given = f"{room}, (int){size_text(parts)}, {taps}, {channels}, (int)e_"
        kind = f"gh::depthwise_weight<{C_TYPE[x.element.dtype]}>"
        hand_over(out, tile, f"{kind}({given}", 1, ("e",))


ROUTINES = {
    DEPTHWISE: CudaRoutine(_depthwise, _needs),
    BACK: CudaRoutine(_depthwise, _needs),
    BY_WEIGHTS: CudaRoutine(_by_weights, _weight_needs),
}
