"""Products and convolutions of 8-bit integers on a GPU's tensor cores: when they are used, and how
they are called.

Operands are those of `cxx/dequantized.py`: bytes with one scale and zero point, times constant int8
weights. On Hopper products go through the copy engine and `wgmma`, two bytes as a half float goes;
elsewhere, and for convolutions, through `mma.sync`. The border of an image is 0, so a convolution
with one asks for a zero point of 0, as bytes behind a ReLU have it. Sums are whole numbers of 32
bits; what follows begins with the zero point taken out and the scales applied, as on the CPU, so
both give the same numbers.
"""

from __future__ import annotations

import math

from glasshouse.backend.cuda.conv_shape import shape_text
from glasshouse.backend.cuda.matmul import Product, mapped_columns, rows_map, typical
from glasshouse.backend.cuda.routine import CudaRoutine, most
from glasshouse.backend.cuda.tensor_map import TensorMap
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import MMA, TILES, TMA, GemmVariant, estimate, variant_named
from glasshouse.backend.cxx.dequantized import (
    DEEPEST,
    ByteRead,
    Dequantized,
    byte_operand,
    byte_weights,
    is_zero,
    only_number,
    suits,
)
from glasshouse.backend.cxx.image import gradient_image, image_of
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import int8
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.numbers import is_number
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile

GEMM, CONV = "gemm_int8", "conv2d_int8"
BYTE_COLUMNS, BYTE_TAPS, RUN = "byte_columns", "byte_taps", 16
"""Forms of weights: for each column, or filter, its depth, with zeros up to a multiple of 16 bytes;
behind all of them the sum of each column, as int32. The channels of a tap lie together."""


# ------------------------------------------------------------------------------------- lowering
def int8_matmul(builder: KernelBuilder, node: Node, hopper: bool = False) -> bool:
    """Add a product of 8-bit integers; False if this is none."""
    x, w = (Dequantized.of(v) for v in node.inputs)
    if x is None or w is None:
        return False
    sizes = byte_weights(builder, node, x, w)
    if sizes is None or not isinstance(sizes[1], int):
        return False
    depth, columns = sizes
    operands = (byte_operand(builder, x), byte_operand(builder, w))
    rows = product(x.data.type.shape[:-1])
    # Scales of the whole product are read before earlier kernels have ended, unless they are text.
    texts = (x.scale, x.zero) if w.axis is not None else (x.scale, x.zero, w.scale)
    fetched = hopper and depth % RUN == 0 and all(map(is_number, texts))
    after = take_results(builder, node.output, {"m": rows, "n": columns})
    add_tile(
        builder, node, GEMM, operands, after,
        variant=_variant(rows, columns, depth, TMA if fetched else MMA),
        also=(x.node, w.node),
    )  # fmt: skip
    return True


def int8_conv(builder: KernelBuilder, node: Node) -> bool:
    """Add a convolution of 8-bit integers; False if this is none."""
    x, w = (Dequantized.of(v) for v in node.inputs)
    if x is None or w is None or x.data.type.rank != 4 or not suits(builder, x, w, 0):
        return False
    image = gradient_image(node.attrs, *(v.type.shape for v in (x.data, w.data, node.output)))
    depth = product(w.data.type.shape[1:])
    around = any((*image.window.begins, *image.window.ends))
    if not isinstance(depth, int) or not 0 < depth <= DEEPEST or image.groups != 1:
        return False
    if around and not is_zero(builder, x.zero):
        return False
    pixels, filters = image.variables.values()
    if most(product((pixels, filters))) >= 2**31 or not isinstance(filters, int):
        return False
    order = channels_last(4)
    operands = (byte_operand(builder, x, order), byte_operand(builder, w))
    after = take_results(builder, node.output, image.variables, order)
    add_tile(
        builder, node, CONV, operands, after, order,
        variant=_variant(pixels, filters, depth), also=(x.node, w.node),
    )  # fmt: skip
    return True


def _variant(rows: Dim, columns: Dim, depth: int, kind: str = MMA) -> str:
    """The tile that is best by estimate: a byte is half of the half floats that they are for."""
    sizes = typical(rows, columns, -(-depth // 2), 1)
    found = [GemmVariant(tile) for tile in TILES.values() if tile.kind == kind]
    return f"int8_{min(found, key=lambda v: estimate(v, *sizes)).name}"


# ------------------------------------------------------------------------------------ rendering
def _needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    buffer = ByteRead.of(w).data.buffer
    if tile.routine == CONV:
        return (Form(buffer, BYTE_TAPS, int8, w.shape, True),), ()
    attrs = (*w.shape, int(bool(tile.attr("transpose_y"))))
    return (Form(buffer, BYTE_COLUMNS, int8, attrs, True),), ()


def columns_and_depth(form: Form) -> tuple[int, int, int]:
    """Columns, depth, and the depth as it is stored."""
    if form.kind == BYTE_TAPS:
        n, *taps = form.attrs
        k = math.prod(taps)
    else:
        rows, columns, turned = form.attrs
        n, k = (rows, columns) if turned else (columns, rows)
    return n, k, -(-k // RUN) * RUN


def _gemm(out: CudaText, tile: Tile) -> None:
    x, w = (ByteRead.of(o) for o in tile.operands)
    (form,) = tile.forms
    packed = out.form(form)
    n, k, deep = columns_and_depth(form)
    rows = tile.variables[0].extent
    m = f"(int){size_text(rows)}"
    kind, source = C_TYPE[x.data.dtype], x.data.buffer
    if tile.routine == CONV:
        image = image_of(tile)
        left = f"gh::Image<{kind}, {_runs(image.channels)}>{{{source}, {shape_text(image)}}}"
    else:
        left = f"gh::Matrix<{kind}, false, {_runs(k)}>{{{source}, {k}, 1, {m}, {k}}}"
    right = f"gh::Matrix<int8_t, false, true>{{{packed}, {deep}, 1, {n}, {deep}}}"
    column = tile.variables[-1].name
    scale, factor, loaded = "scale_", only_number(x.scale), f"column_sums_ + {column}"
    if w.by_column and isinstance(w.scale, Load) and w.scale.index.terms:
        scale = "(scale_ * {beside}.scales[{at}])"
        loaded += f", {w.scale.buffer} + {column}"
    elif w.by_column and isinstance(w.scale, Load):
        scale = f"(scale_ * {w.scale.buffer}[0])"
    else:
        factor += f" * {only_number(w.scale)}"
    lines = [
        f"const int32_t* column_sums_ = (const int32_t*)({packed} + {n * deep});",
        f"const int32_t zero_ = (int32_t){only_number(x.zero)};",
        f"const float scale_ = {factor};",
    ]
    result = "gh::real_sum({}, zero_, {beside}.sums[{at}]) * " + scale
    names = (tile.variables[0].name, column)
    gemm = variant_named(tile.variant).tile
    maps: tuple[TensorMap, ...] = ()
    if gemm.kind == TMA:  # pairs of bytes move as half floats do
        pair = "gh::s8x2" if x.data.dtype is int8 else "gh::u8x2"
        left = f"gh::MappedRows<{pair}>{{map0}}"
        right, second = mapped_columns(packed, pair, n, deep // 2, gemm.n)
        maps, k = (rows_map(source, rows, k // 2, gemm.m), second), k // 2
    call = Product(
        tile, f"{m}, {n}, {k}", left, right, names, rows, n, maps=maps, depth=k,
        early=bool(maps), result=result, beside=f"gh::byte_columns<{{count}}>({loaded})",
    )  # fmt: skip
    call.render(out, 1, lines)


def _runs(size: Dim) -> str:
    """Whether rows of bytes come in whole runs."""
    return "true" if isinstance(size, int) and size % RUN == 0 else "false"


ROUTINES = {GEMM: CudaRoutine(_gemm, _needs), CONV: CudaRoutine(_gemm, _needs)}
