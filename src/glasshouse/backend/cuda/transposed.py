"""Transposed convolutions on GPUs, which are gradients of convolutions by their input.

Results whose places are alike modulo the stride (a phase) meet the same taps, so each phase is an
ordinary convolution by single steps with every stride-th tap, from the last to the first: an
implicit product like those of `conv.py`, with a block's third number for group and phase.
"""

from __future__ import annotations

from glasshouse.backend.cuda.conv import beside_library, conv_numbers
from glasshouse.backend.cuda.depthwise import depthwise, depthwise_of
from glasshouse.backend.cuda.library_conv import (
    is_library,
    library_conv,
    library_needs,
    render_library_conv,
)
from glasshouse.backend.cuda.matmul import HALVES, PLAIN, Product, gemm_needs, typical
from glasshouse.backend.cuda.routine import CudaRoutine, most, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import MMA, WGMMA, variants
from glasshouse.backend.cxx.image import Image, gradient_image
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import float32, float64
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
from glasshouse.ops.window import spread

TRANSPOSED = "conv_transpose2d"
PHASES = "phases"
"""The form of weights [groups, phases, filters, taps of a phase from last to first, channels]."""
FEWEST = 4
"""Channels and filters of a group: for fewer, products are mostly room."""
MOST_PRODUCTS = 65535
"""Groups times phases: blocks along the third axis of a grid."""


def conv_transpose(
    builder: KernelBuilder, node: Node, hopper: bool = False, library: bool = False
) -> None:
    """Add a transposed convolution, with what follows it where that is possible; `library`: cuDNN's
    is among the candidates, and the only one where there is no other."""
    x, w = node.inputs
    out, dtype = node.output, x.type.dtype
    if depthwise_of(node) is not None:
        depthwise(builder, node)
        return
    if library and refused(node):
        library_conv(builder, node)
        return
    image = _required(node)
    order = channels_last(out.type.rank)
    operands = (whole(builder, x, order), whole(builder, w))
    variables = {"pixel": out.type.numel // out.type.shape[1], "oc": out.type.shape[1]}
    after = take_results(builder, out, variables, order)
    names: tuple[str, ...] = (PLAIN,)
    if dtype in HALVES:
        sizes = (_rows(image), image.channels // image.groups, _depth(image), _products(image))
        found = variants(*typical(*sizes), (WGMMA, MMA) if hopper else (MMA,))
        names = tuple(v.name for v in found)
    problem: Problem | None = None
    if library:
        names, problem = beside_library(builder, node, names, _problem(node))
    add_tile(builder, node, TRANSPOSED, operands, after, order, variants=names, problem=problem)


CONV_GRADIENT = "conv gradient"


def _problem(node: Node) -> Problem | None:
    """Gradient and weights, stride, padding, dilation and groups, then what is added at the ends:
    all that decides its time."""
    numbers = conv_numbers(node)
    rank = node.output.type.rank - 2
    more = (*(0,) * (2 - rank), *spread(node.attrs["output_padding"], rank, 0))
    if numbers is None or not all(isinstance(d, int) for d in more):
        return None
    dtype = node.output.type.dtype.name
    return Problem(CONV_GRADIENT, dtype, (*numbers, *more), operations(node))


def refused(node: Node) -> bool:
    """Whether a node is a transposed convolution without a kernel."""
    if node.op.name != "conv_transpose" or depthwise_of(node) is not None:
        return False
    try:
        _required(node)
    except Unsupported:
        return True
    return False


def _required(node: Node) -> Image:
    """The convolution that a node is the gradient of, if phases are for it: sizes that strides
    divide, and no gaps between taps beside steps."""
    x, w = (v.type for v in node.inputs)
    out = node.output.type
    if x.dtype not in (*HALVES, float32, float64) or w.dtype is not x.dtype:
        raise Unsupported(f"no transposed convolution of {x.dtype}")
    image = gradient_image(node.attrs, out.shape, w.shape, x.shape)
    _require(image, most(out.numel))
    return image


def _require(image: Image, results: float) -> None:
    w = image.window
    known = (*image.size, *w.kernel, image.channels, image.filters)
    if not all(isinstance(d, int) for d in known) or results >= 2**31:
        raise Unsupported("no transposed convolution of sizes that are not known")
    for size, stride, dilation in zip(image.size, w.stride, w.dilation, strict=True):
        if size % stride or (stride > 1 and dilation > 1):
            raise Unsupported("no transposed convolution whose results are not whole phases")
    fewest = min(most(d // image.groups) for d in (image.channels, image.filters))
    if (image.groups > 1 and fewest < FEWEST) or _products(image) > MOST_PRODUCTS:
        raise Unsupported("no transposed convolution of so many groups")


# --------------------------------------------------------------------------- sizes of the products
def _image(tile: Tile) -> Image:
    """The convolution that it is the gradient of: from its result to its operand."""
    x, w = tile.operands
    return gradient_image(dict(tile.attrs), tile.shape, w.shape, x.shape)


def _phases(image: Image) -> tuple[int, int]:
    height, width = image.window.stride
    return height, width


def _products(image: Image) -> int:
    height, width = _phases(image)
    return image.groups * height * width


def _taps(image: Image) -> tuple[int, int]:
    """Of a phase, along both axes."""
    w = image.window
    height, width = (-(-int(most(k)) // s) for k, s in zip(w.kernel, w.stride, strict=True))
    return height, width


def _rows(image: Image) -> Dim:
    height, width = _phases(image)
    return image.batch * (image.size[0] // height) * (image.size[1] // width)


def _depth(image: Image) -> Dim:
    return image.filters // image.groups * product(_taps(image))


# ------------------------------------------------------------------------------------ rendering
def _needs(tile: Tile) -> Needs:
    if is_library(tile):
        return library_needs(tile)
    image, w = _image(tile), tile.operands[1]
    each = image.channels // image.groups
    _, parts = gemm_needs(tile.variant, _rows(image), each, _products(image))
    dtype = w.element.dtype
    if w.constant:
        attrs = (image.groups, *image.window.stride, *image.window.begins, *w.shape[:2])
        return (Form(view(w).buffer, PHASES, dtype, (*attrs, *image.window.kernel), True),), parts
    size = _products(image) * each * _depth(image) * dtype.itemsize
    return (), (*parts, Scratch("phases", size, dtype))


def _conv_transpose(out: CudaText, tile: Tile) -> None:
    if is_library(tile):
        render_library_conv(out, tile)
        return
    x, _ = tile.operands
    image, dtype = _image(tile), x.element.dtype
    w, (across, beside), taps = image.window, _phases(image), _taps(image)
    channels, filters = image.filters // image.groups, image.channels // image.groups
    depth = _depth(image)
    weights = out.form(tile.forms[0]) if tile.forms else _turned(out, tile, image)
    aligned = dtype in HALVES and isinstance(channels, int) and channels % 8 == 0
    kind = f"{C_TYPE[dtype]}, {'true' if aligned else 'false'}"
    sizes = (image.size[0] // across, image.size[1] // beside)
    begins = [
        f"{(t - 1) * d} - ({phase} + {begin}) / {s}"
        for t, d, phase, begin, s in zip(
            taps, w.dilation, ("ph_", "pw_"), w.begins, w.stride, strict=True
        )
    ]
    numbers = (image.batch, *image.result, image.filters, *sizes, *taps, 1, 1)
    plain = [f"(int){size_text(d)}" for d in numbers]
    last = [f"(int){size_text(d)}" for d in (*w.dilation, channels)]
    shape = f"gh::ConvShape{{{', '.join([*plain, *begins, *last])}}}"
    left = f"gh::Image<{kind}>{{{view(x).buffer} + group_ * {size_text(channels)}, {shape}}}"
    extents = ", ".join(f"(int){size_text(d)}" for d in (filters, depth))
    begin = f"{weights} + blockIdx.z * (int64_t){size_text(filters * depth)}"
    stored = f"{C_TYPE[dtype]}, false, {'true' if aligned else 'false'}"
    right = f"gh::Matrix<{stored}>{{{begin}, {size_text(depth)}, 1, {extents}}}"
    wide = f"(int){size_text(sizes[1])}"
    width = size_text(image.size[1])
    known = (
        f"const {out.index} oc = n_ + group_ * {size_text(filters)}; const {out.index} pixel = "
        f"(m_ / {wide} * {across} + ph_) * {width} + m_ % {wide} * {beside} + pw_;"
    )
    rows = _rows(image)
    given = ", ".join(f"(int){size_text(d)}" for d in (rows, filters, depth))
    call = Product(tile, given, left, right, ("m_", "n_"), rows, filters, known)
    lines = [
        f"const int pw_ = blockIdx.z % {beside}, ph_ = blockIdx.z / {beside} % {across};",
        f"const int group_ = blockIdx.z / {beside * across};",
    ]
    call.render(out, _products(image), lines)


def _turned(out: CudaText, tile: Tile, image: Image) -> str:
    """Weights that are not known before are brought into the form in every run."""
    weights, name = tile.operands[1], out.scratch(tile, "phases")
    (across, beside), (high, wide) = _phases(image), _taps(image)
    channels, filters = image.filters // image.groups, image.channels // image.groups
    kernel, begins = image.window.kernel, image.window.begins
    total = _products(image) * filters * _depth(image)
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        out.add("int64_t rest_ = e_;")
        parts = (
            ("c", channels), ("tw", wide), ("th", high), ("o", filters), ("pw", beside),
            ("ph", across),
        )  # fmt: skip
        for part, size in parts:
            out.add(f"const int {part}_ = rest_ % {size_text(size)};")
            out.add(f"rest_ /= {size_text(size)};")
        for axis, t, begin, s in (
            ("h", high, begins[0], across), ("w", wide, begins[1], beside),
        ):  # fmt: skip
            first = f"(p{axis}_ + {begin}) % {s}"
            out.add(f"const int k{axis}_ = {first} + ({t - 1} - t{axis}_) * {s};")
        inside = f"kh_ < {size_text(kernel[0])} && kw_ < {size_text(kernel[1])}"
        row = f"(rest_ * {size_text(channels)} + c_) * {size_text(filters)} + o_"
        place = f"(({row}) * {size_text(kernel[0])} + kh_) * {size_text(kernel[1])} + kw_"
        zero = f"{C_TYPE[weights.element.dtype]}{{}}"
        out.add(f"{name}[e_] = {inside} ? {view(weights).buffer}[{place}] : {zero};", tile.ops)
    return name


ROUTINES = {TRANSPOSED: CudaRoutine(_conv_transpose, _needs)}
