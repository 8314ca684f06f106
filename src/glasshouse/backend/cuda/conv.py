"""Convolutions on GPUs: implicit products over taps and channels, channels last; depthwise ones are
in `depthwise.py`. One-dimensional convolutions are images of height 1.
"""

from __future__ import annotations

from dataclasses import replace

from glasshouse.backend.cuda.behind import behind
from glasshouse.backend.cuda.conv_runs import FEW, RUNS, bordered_size, conv_in_runs, run_of
from glasshouse.backend.cuda.conv_shape import shape_text
from glasshouse.backend.cuda.conv_weights import TAPS, turned_weights
from glasshouse.backend.cuda.cudnn import CUDNN_TF32
from glasshouse.backend.cuda.depthwise import depthwise, depthwise_of
from glasshouse.backend.cuda.library_conv import (
    is_library,
    library_conv,
    library_needs,
    library_variant,
    render_library_conv,
)
from glasshouse.backend.cuda.matmul import (
    HALVES,
    PLAIN,
    Product,
    gemm_needs,
    is_fetched,
    mapped_columns,
    mapped_rows,
    rows_map,
    typical,
)
from glasshouse.backend.cuda.routine import CudaRoutine, most, thread_each
from glasshouse.backend.cuda.tensor_map import DEPTH, FetchedWindow, TensorMap
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import FETCHED, MMA, WGMMA, GemmTile, variant_named, variants
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
from glasshouse.ops.window import window_of

CONV = "conv2d"
AXES = 2
"""Spatial axes that our own kernels have at most."""


def padded(channels: int, dtype: DType) -> int:
    """Channels of an image as products want them: half floats in eights, 16 bytes."""
    return -(-channels // 8) * 8 if dtype in HALVES else channels


def _is_padded(image: Image, dtype: DType) -> bool:
    channels = image.channels
    return image.groups == 1 and isinstance(channels, int) and padded(channels, dtype) != channels


def conv(builder: KernelBuilder, node: Node, hopper: bool = False, library: bool = False) -> None:
    """Add a convolution, with what follows it in its epilogue where that is possible; `library`:
    cuDNN's is among the candidates, and the only one where there is no other."""
    x, w = node.inputs
    out = node.output
    dtype = x.type.dtype
    if dtype not in (*HALVES, float32, float64) or w.type.dtype is not dtype:
        raise Unsupported(f"no convolution of {dtype}")
    if library and x.type.rank - 2 > AXES:
        library_conv(builder, node)
        return
    if depthwise_of(node) is not None:
        depthwise(builder, node)
        return
    image = gradient_image(node.attrs, x.type.shape, w.type.shape, out.type.shape)
    if most(product(tuple(image.variables.values()))) >= 2**31 or image.groups > 65535:
        raise Unsupported("no convolution with that many results")
    order = channels_last(x.type.rank)
    # An image whose channels are padded is copied anyway, from where it lies.
    is_padded = _is_padded(image, dtype)
    layout = builder.orders.get(x) if is_padded else order
    operands = (whole(builder, x, layout), whole(builder, w))
    after = take_results(builder, out, image.variables, order)
    pixels, filters = image.variables.values()
    channels = w.type.shape[1]
    if is_padded and isinstance(channels, int):
        channels = padded(channels, dtype)
    depth = channels * product(w.type.shape[2:])
    run = run_of(image, dtype, operands[1].constant)
    depth = image.window.kernel[0] * run * FEW if run else depth
    sizes = (pixels, filters // image.groups, depth, image.groups)
    names: tuple[str, ...] = (PLAIN,)
    if dtype in HALVES:
        fetched = hopper and operands[1].constant and _fetched_window(image) is not None
        kinds = FETCHED if fetched else (WGMMA, MMA) if hopper else (MMA,)
        names = tuple(v.name for v in variants(*typical(*sizes), kinds))
    problem = _problem(node, behind(builder, node))
    if library and not is_padded and not run:
        names, problem = beside_library(builder, node, names, problem)
    add_tile(builder, node, CONV, operands, after, order, variants=names, problem=problem)


def beside_library(
    builder: KernelBuilder, node: Node, names: tuple[str, ...], problem: Problem | None
) -> tuple[tuple[str, ...], Problem | None]:
    """Our variants of a convolution and the library's: measured beside each other, or the library's
    at once where it may round float32 to TF32, for which we have no kernel."""
    name = library_variant(node, builder.target.tf32_convs)
    if name == CUDNN_TF32:
        return (name, *names), None
    return ((*names, name), problem) if name else (names, problem)


def _fetched_window(image: Image) -> FetchedWindow | None:
    """The window as the copy engine goes over it; None where it cannot: it brings 64 channels at a
    time, and counts places of a window in a byte."""
    w = image.window
    axes = zip(w.kernel, w.dilation, w.begins, w.ends, w.stride, strict=True)
    corners: list[tuple[int, int, int]] = []
    for kernel, dilation, begin, end, stride in axes:
        if not isinstance(kernel, int) or kernel * dilation + begin + end >= 128 or stride > 8:
            return None
        corners.append((-begin, end - (kernel - 1) * dilation, stride))
    whole = isinstance(image.channels, int) and image.channels % DEPTH == 0
    if not whole or image.groups != 1:
        return None
    (low_h, high_h, step_h), (low_w, high_w, step_w) = corners
    return FetchedWindow((low_w, low_h), (high_w, high_h), (step_w, step_h))


CONV_PRODUCT = "conv product"


def _problem(node: Node, behind: str) -> Problem | None:
    numbers = conv_numbers(node)
    if numbers is None:
        return None
    dtype = node.output.type.dtype.name
    return Problem(CONV_PRODUCT + behind, dtype, numbers, operations(node))


def conv_numbers(node: Node) -> tuple[int, ...] | None:
    """Both shapes, then stride, padding, dilation and groups: all that decides its time. A line is
    an image of height 1."""
    x, w = (v.type.shape for v in node.inputs)
    window = window_of(w[2:], *(node.attrs[n] for n in ("stride", "padding", "dilation")))
    axes = AXES - len(window.kernel)
    if axes < 0:
        return None
    one, none = (1,) * axes, (0,) * axes
    shapes = ((*s[:2], *one, *s[2:]) for s in (x, w))
    borders = (*none, *window.begins, *none, *window.ends)
    rest = (*one, *window.stride, *borders, *one, *window.dilation, node.attrs["groups"])
    given = (*(d for shape in shapes for d in shape), *rest)
    numbers = tuple(d for d in given if isinstance(d, int))
    return None if len(numbers) < len(given) else numbers


# ------------------------------------------------------------------------------------ rendering
def _group(tile: Tile) -> tuple[Image, Dim, Dim]:
    """The image, the channels and the filters of a group."""
    image = image_of(tile)
    return image, image.channels // image.groups, image.filters // image.groups


def _needs(tile: Tile) -> Needs:
    if is_library(tile):
        return library_needs(tile)
    image, _, filters = _group(tile)
    w = tile.operands[1]
    pixels, _ = image.variables.values()
    _, parts = gemm_needs(tile.variant, pixels, filters, image.groups)
    dtype = w.element.dtype
    scratch = [*parts]
    wide = _channels(tile)
    run = run_of(image, dtype, w.constant)
    if run:
        size = image.batch * product(bordered_size(image, run)) * FEW
        scratch.append(Scratch("image", size * dtype.itemsize, dtype))
        return (Form(view(w).buffer, RUNS, dtype, (run, *w.shape), True),), tuple(scratch)
    if _is_padded(image, dtype):
        size = image.batch * product(image.size) * wide
        scratch.append(Scratch("image", size * dtype.itemsize, dtype))
    if w.constant:
        return (Form(view(w).buffer, TAPS, dtype, (wide, *w.shape), True),), tuple(scratch)
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
    if is_library(tile):
        render_library_conv(out, tile)
        return
    x, w = tile.operands
    image, channels, filters = _group(tile)
    dtype = x.element.dtype
    source = view(x).buffer
    run = run_of(image, dtype, w.constant)
    if run:
        conv_in_runs(out, tile, image, run)
        return
    if _is_padded(image, dtype):
        source = _padded_image(out, tile, image)
        channels = _channels(tile)
        image = replace(image, channels=channels)
    depth = channels * product(w.shape[2:])
    weights = out.form(tile.forms[0]) if tile.forms else turned_weights(out, tile, _channels(tile))
    whole_chunks = dtype in HALVES and isinstance(channels, int) and channels % 8 == 0
    kind = f"{C_TYPE[dtype]}, {_flag(whole_chunks)}"
    at = f"{source} + blockIdx.z * {size_text(channels)}"
    begin = f"{weights} + blockIdx.z * {size_text(filters * depth)}"
    left = f"gh::Image<{kind}>{{{at}, {shape_text(image, channels)}}}"
    extents = ", ".join(f"(int){size_text(d)}" for d in (filters, depth))
    right = (
        f"gh::Matrix<{C_TYPE[dtype]}, false, {_flag(whole_chunks)}>"
        f"{{{begin}, {size_text(depth)}, 1, {extents}}}"
    )
    pixels, _ = image.variables.values()
    maps: tuple[TensorMap, ...] = ()
    if is_fetched(tile.variant):
        gemm = variant_named(tile.variant).tile
        left, first = _fetched_image(source, image, dtype, gemm)
        right, second = mapped_columns(weights, C_TYPE[dtype], filters, depth, gemm.n)
        maps = first, second
    sizes = ", ".join(f"(int){size_text(d)}" for d in (pixels, filters, depth))
    names, known = ("pixel", "oc"), ""
    if image.groups != 1:
        names, known = (
            ("pixel", "n_"),
            f"const {out.index} oc = n_ + blockIdx.z * {size_text(filters)};",
        )
    early = tile.operands[1].constant
    call = Product(tile, sizes, left, right, names, pixels, filters, known, maps, early=early)
    call.render(out, image.groups, [])


def _fetched_image(
    source: str, image: Image, dtype: DType, gemm: GemmTile
) -> tuple[str, TensorMap]:
    """The loader of an image's windows, and its map; windows of one pixel are rows of a matrix."""
    height, width = image.size
    if image.is_pointwise:
        rows = image.batch * height * width
        return mapped_rows(dtype), rows_map(source, rows, image.channels, gemm.m)
    sizes = (image.channels, width, height, image.batch)
    row = image.channels * 2
    steps = (row, width * row, height * width * row)
    shape = shape_text(image, image.channels)
    text = f"gh::MappedPixels<{C_TYPE[dtype]}>{{map0, {shape}}}"
    return text, TensorMap(source, sizes, steps, (gemm.m,), _fetched_window(image))


def _padded_image(out: CudaText, tile: Tile, image: Image) -> str:
    """A copy of the image, channels last, with zeros behind its channels up to a multiple of 8."""
    x = tile.operands[0]
    wide, pixels = _channels(tile), image.batch * product(image.size)
    name, load = out.scratch(tile, "image"), view(x)
    ctype = C_TYPE[load.dtype]
    with out.function(((pixels + 255) // 256, 1, 1), 256):
        thread_each(out, pixels)
        batch, channel, *spatial = x.loops
        out.add("int64_t rest_ = e_;")
        for loop in reversed(spatial):
            extent = size_text(loop.extent)
            out.add(f"const {out.index} {loop.name} = rest_ % {extent};")
            out.add(f"rest_ /= {extent};")
        out.add(f"const {out.index} {batch.name} = rest_;")
        with out.block(f"for (int c_ = 0; c_ < {size_text(wide)}; c_ += 8) {{", "}"):
            out.add(f"gh::Vec<{ctype}, 8> eight_;")
            out.pragma("#pragma unroll")
            with out.block("for (int u_ = 0; u_ < 8; ++u_) {", "}"):
                out.add(f"const {out.index} {channel.name} = c_ + u_;")
                inside = f"{channel.name} < {size_text(image.channels)}"
                place = f"{load.buffer}[{index_text(load.index)}]"
                out.add(f"eight_[u_] = {inside} ? {place} : {ctype}{{}};", tile.ops)
            out.add(f"gh::store_vec({name} + e_ * {size_text(wide)} + c_, eight_);", tile.ops)
    return name


def _flag(value: object) -> str:
    return "true" if value else "false"


ROUTINES = {CONV: CudaRoutine(_conv, _needs)}
