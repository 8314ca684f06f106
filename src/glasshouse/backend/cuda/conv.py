"""Convolutions on GPUs: implicit products over taps and channels, channels last; depthwise ones a
thread for each result. One-dimensional convolutions are images of height 1.
"""

from __future__ import annotations

from dataclasses import replace

from glasshouse.backend.cuda.matmul import (
    HALVES,
    SIMT,
    Product,
    gemm_needs,
    in_panels,
    typical,
)
from glasshouse.backend.cuda.routine import CudaRoutine, hand_over, most
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import variants
from glasshouse.backend.cxx.image import Image, gradient_image, image_of
from glasshouse.backend.cxx.words import C_TYPE, index_text, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.choice import Problem
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Scratch, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.cost import operations

CONV, DEPTHWISE = "conv2d", "depthwise2d"
TAPS = "taps"
"""The form of weights in which the channels of a tap lie together: [filters, taps, wide]."""
TAP_PANELS = "tap_panels"
"""The same as panels (see `matmul.PANELS`) over taps and channels."""


def padded(channels: int, dtype: DType) -> int:
    """Channels of an image as products want them: half floats in eights, 16 bytes."""
    return -(-channels // 8) * 8 if dtype in HALVES else channels


def _is_padded(image: Image, dtype: DType) -> bool:
    channels = image.channels
    few = image.groups == 1 and isinstance(channels, int) and padded(channels, dtype) != channels
    return few and not image.is_depthwise


def conv(builder: KernelBuilder, node: Node, hopper: bool = False) -> None:
    """Add a convolution, with what follows it in its epilogue where that is possible."""
    x, w = node.inputs
    out = node.output
    dtype = x.type.dtype
    if dtype not in (*HALVES, float32, float64) or w.type.dtype is not dtype:
        raise Unsupported(f"no convolution of {dtype}")
    image = gradient_image(node.attrs, x.type.shape, w.type.shape, out.type.shape)
    if most(product(tuple(image.variables.values()))) >= 2**31 or image.groups > 65535:
        raise Unsupported("no convolution with that many results")
    order = channels_last(x.type.rank)
    # An image whose channels are padded is copied anyway, from where it lies.
    is_padded = _is_padded(image, dtype)
    lies = builder.orders.get(x) if is_padded else order
    operands = (whole(builder, x, lies), whole(builder, w))
    after = take_results(builder, out, image.variables, order)
    if image.is_depthwise:
        add_tile(builder, node, DEPTHWISE, operands, after, order)
        return
    pixels, filters = image.variables.values()
    channels = w.type.shape[1]
    if is_padded and isinstance(channels, int):
        channels = padded(channels, dtype)
    depth = channels * product(w.type.shape[2:])
    sizes = (pixels, filters // image.groups, depth, image.groups)
    names: tuple[str, ...] = (SIMT,)
    if dtype in HALVES:
        constant = operands[1].constant and image.groups == 1
        names = tuple(v.name for v in variants(*typical(*sizes), hopper, constant))
    add_tile(
        builder, node, CONV, operands, after, order,
        variants=names, problem=_problem(node),
    )  # fmt: skip


CONV_PRODUCT = "conv product"


def _problem(node: Node) -> Problem | None:
    """Both shapes, then stride, padding, dilation and groups: all that decides its time."""
    x, w = node.inputs
    attrs = node.attrs
    padding = attrs["padding"] if len(attrs["padding"]) == 4 else attrs["padding"] * 2
    rest = (*attrs["stride"], *padding, *attrs["dilation"], attrs["groups"])
    given = (*x.type.shape, *w.type.shape, *rest)
    numbers = tuple(d for d in given if isinstance(d, int))
    if len(numbers) < len(given) or x.type.rank != 4:
        return None
    return Problem(CONV_PRODUCT, x.type.dtype.name, numbers, operations(node))


# ------------------------------------------------------------------------------------ rendering
def _group(tile: Tile) -> tuple[Image, Dim, Dim]:
    """The image, the channels and the filters of a group."""
    image = image_of(tile)
    return image, image.channels // image.groups, image.filters // image.groups


def _shape_text(image: Image, group: Dim) -> str:
    w = image.window
    numbers = (
        image.batch, *image.size, image.channels, *image.result, *w.kernel, *w.stride, *w.begins,
        *w.dilation, group,
    )  # fmt: skip
    return f"gh::ConvShape{{{', '.join(f'(int){size_text(d)}' for d in numbers)}}}"


def _needs(tile: Tile) -> Needs:
    image, _, filters = _group(tile)
    w = tile.operands[1]
    pixels, _ = image.variables.values()
    _, parts = gemm_needs(tile.variant, pixels, filters, image.groups)
    dtype = w.element.dtype
    scratch = [*parts]
    wide = _channels(tile)
    if _is_padded(image, dtype):
        size = image.batch * product(image.size) * wide
        scratch.append(Scratch("image", size * dtype.itemsize, dtype))
    if w.constant:
        kind = TAP_PANELS if in_panels(tile.variant) else TAPS
        return (Form(view(w).buffer, kind, dtype, (wide, *w.shape), True),), tuple(scratch)
    size = w.shape[0] * wide * product(w.shape[2:])
    return (), (*scratch, Scratch("taps", size * dtype.itemsize, dtype))


def _channels(tile: Tile) -> Dim:
    """Of a group, as the product reads them."""
    image, channels, _ = _group(tile)
    dtype = tile.operands[0].element.dtype
    if _is_padded(image, dtype) and isinstance(channels, int):
        return padded(channels, dtype)
    return channels


def _conv(out: CudaText, tile: Tile) -> None:
    x, w = tile.operands
    image, channels, filters = _group(tile)
    dtype = x.element.dtype
    source = view(x).buffer
    if _is_padded(image, dtype):
        source = _padded_image(out, tile, image)
        channels = _channels(tile)
        image = replace(image, channels=channels)
    depth = channels * product(w.shape[2:])
    weights = out.form(tile.forms[0]) if tile.forms else _turned(out, tile)
    whole_chunks = dtype in HALVES and isinstance(channels, int) and channels % 8 == 0
    kind = f"{C_TYPE[dtype]}, {_flag(whole_chunks)}"
    at = f"{source} + blockIdx.z * {size_text(channels)}"
    begin = f"{weights} + blockIdx.z * {size_text(filters * depth)}"
    left = f"gh::Image<{kind}>{{{at}, {_shape_text(image, channels)}}}"
    extents = ", ".join(f"(int){size_text(d)}" for d in (filters, depth))
    right = (
        f"gh::Matrix<{C_TYPE[dtype]}, false, {_flag(whole_chunks)}>"
        f"{{{begin}, {size_text(depth)}, 1, {extents}}}"
    )
    right = weights if in_panels(tile.variant) else right
    pixels, _ = image.variables.values()
    sizes = ", ".join(f"(int){size_text(d)}" for d in (pixels, filters, depth))
    names, known = ("pixel", "oc"), ""
    if image.groups != 1:
        names, known = ("pixel", "n_"), f"const int oc = n_ + blockIdx.z * {size_text(filters)};"
    call = Product(tile, sizes, left, right, names, pixels, filters, known)
    call.render(out, image.groups, [])


def _turned(out: CudaText, tile: Tile) -> str:
    """Weights that are not known before are brought into the form in every run."""
    w = tile.operands[1]
    wide, taps = _channels(tile), product(w.shape[2:])
    total = w.shape[0] * wide * taps
    name = out.scratch(tile, "taps")
    with out.function(((total + 255) // 256, 1, 1), 256):
        out.add("const int64_t e_ = (int64_t)blockIdx.x * 256 + threadIdx.x;")
        out.add(f"if (e_ >= {size_text(total)}) return;")
        out.add(f"const int64_t c = e_ % {size_text(wide)}, rest = e_ / {size_text(wide)};")
        out.add(f"const int64_t tap = rest % {size_text(taps)}, o = rest / {size_text(taps)};")
        place = f"(o * {size_text(w.shape[1])} + c) * {size_text(taps)} + tap"
        inside, zero = f"c < {size_text(w.shape[1])}", f"{C_TYPE[w.element.dtype]}{{}}"
        out.add(f"{name}[e_] = {inside} ? {view(w).buffer}[{place}] : {zero};", tile.ops)
    return name


def _padded_image(out: CudaText, tile: Tile, image: Image) -> str:
    """A copy of the image, channels last, with zeros behind its channels up to a multiple of 8."""
    x = tile.operands[0]
    wide, pixels = _channels(tile), image.batch * product(image.size)
    name, load = out.scratch(tile, "image"), view(x)
    ctype = C_TYPE[load.dtype]
    with out.function(((pixels + 255) // 256, 1, 1), 256):
        out.add("const int64_t e_ = (int64_t)blockIdx.x * 256 + threadIdx.x;")
        out.add(f"if (e_ >= {size_text(pixels)}) return;")
        batch, channel, *spatial = x.loops
        out.add("int64_t rest_ = e_;")
        for loop in reversed(spatial):
            extent = size_text(loop.extent)
            out.add(f"const int {loop.name} = rest_ % {extent};")
            out.add(f"rest_ /= {extent};")
        out.add(f"const int {batch.name} = rest_;")
        with out.block(f"for (int c_ = 0; c_ < {size_text(wide)}; c_ += 8) {{", "}"):
            out.add(f"gh::Vec<{ctype}, 8> eight_;")
            out.pragma("#pragma unroll")
            with out.block("for (int u_ = 0; u_ < 8; ++u_) {", "}"):
                out.add(f"const int {channel.name} = c_ + u_;")
                inside = f"{channel.name} < {size_text(image.channels)}"
                place = f"{load.buffer}[{index_text(load.index)}]"
                out.add(f"eight_[u_] = {inside} ? {place} : {ctype}{{}};", tile.ops)
            out.add(f"gh::store_vec({name} + e_ * {size_text(wide)} + c_, eight_);", tile.ops)
    return name


def _depthwise(out: CudaText, tile: Tile) -> None:
    x, w = tile.operands
    image = image_of(tile)
    pixels, filters = image.variables.values()
    total = pixels * filters
    with out.function(((total + 255) // 256, 1, 1), 256):
        out.add("const int e_ = blockIdx.x * 256 + threadIdx.x;")
        out.add(f"if (e_ >= {size_text(total)}) return;")
        given = f"{_shape_text(image, 1)}, {view(x).buffer}, {view(w).buffer}, e_"
        hand_over(out, tile, f"gh::depthwise({given}", 1, ("pixel", "oc"))


def _flag(value: object) -> str:
    return "true" if value else "false"


ROUTINES = {CONV: CudaRoutine(_conv, _needs), DEPTHWISE: CudaRoutine(_depthwise)}
