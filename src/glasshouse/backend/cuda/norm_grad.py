"""Gradients of a layer norm's weight and bias on GPUs: sums over rows, in two steps."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import CudaRoutine, least
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import PROCESSORS
from glasshouse.backend.cxx.words import C_TYPE, number_text, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, dim_max, dim_min, product
from glasshouse.ir.dtype import bfloat16, float16, float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

NORM_WEIGHTS = "layer_norm_weight_grad"
WARPS = 8
MOST_COLUMNS = 32
"""Of a row, by 32, that a warp holds, with the sums of both gradients."""
MOST_ROWS = 64
"""That a warp adds up before its sums are handed on, in float32."""


def norm_weights(builder: KernelBuilder, node: Node) -> None:
    """Add the sums of g * x^ and of g over rows."""
    g, x = node.inputs
    columns = product(x.type.shape[axis_of(node.attrs["axis"], x.type.rank) :])
    if x.type.dtype not in (float16, bfloat16, float32):
        raise Unsupported(f"no sums of rows of {x.type.dtype}")
    if not isinstance(columns, int) or not 0 < columns <= 32 * MOST_COLUMNS:
        raise Unsupported(f"no sums of rows of {columns} columns")
    operands = [whole(builder, g), whole(builder, x)]
    add_tile(builder, node, NORM_WEIGHTS, operands, writes=write_all(builder, node))


def _sizes(tile: Tile) -> tuple[Dim, int]:
    """Rows and columns."""
    shape = tile.operands[1].shape
    at = axis_of(tile.attr("axis"), len(shape))
    columns = product(shape[at:])
    assert isinstance(columns, int), "lowering wants it known"
    return product(shape[:at]), columns


def _blocks(rows: Dim) -> Dim:
    each = MOST_ROWS * WARPS
    if least(rows) >= PROCESSORS * WARPS:
        return dim_max((rows + (each - 1)) // each, PROCESSORS)
    return dim_max(dim_min((rows + (WARPS - 1)) // WARPS, PROCESSORS), (rows + (each - 1)) // each)


def _needs(tile: Tile) -> Needs:
    rows, columns = _sizes(tile)
    return (), (Scratch("parts", _blocks(rows) * (2 * columns * 4), float32),)


def _norm_weights(out: CudaText, tile: Tile) -> None:
    g, x = tile.operands
    rows, columns = _sizes(tile)
    most = 16 // x.element.dtype.itemsize
    vec = most if columns % most == 0 else 1
    per = -(-columns // (32 * vec))
    parts = out.scratch(tile, "parts")
    with out.function((_blocks(rows), 1, 1), WARPS * 32):
        given = f"{view(g).buffer}, {view(x).buffer}, (int64_t){size_text(rows)}, {columns}"
        eps = number_text(tile.attr("eps"), float32)
        call = f"gh::norm_weight_parts<{vec}, {per}, {WARPS}>"
        out.add(f"{call}({given}, {eps}, {parts});", tile.ops)
    with out.function(((columns + 31) // 32, 2, 1), 256):
        kind, (scale, shift) = C_TYPE[x.element.dtype], (buffer for _, buffer in tile.writes)
        given = f"{parts}, (int64_t){size_text(_blocks(rows))}, {columns}, {scale}, {shift}"
        out.add(f"gh::norm_weight_sums<{kind}>({given});", tile.ops)


ROUTINES = {NORM_WEIGHTS: CudaRoutine(_norm_weights, _needs)}
