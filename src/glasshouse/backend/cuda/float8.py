"""Products of 8-bit floats on Hopper's tensor cores: when they are used, and how they are called.

An operand is a `cast` of float8 to float32 that the product's own kernel reads: bytes go through
the copy engine and `wgmma`, two of them as a half float goes, both with their depth together. The
chip keeps about 14 bits of their sums, so the sums of each step in depth, 128 numbers, are added up
in float32 (`gemm_tma.cuh`). Scales, a bias and what else follows is the epilogue's, as anywhere.
"""

from __future__ import annotations

from glasshouse.backend.cuda.matmul import Product, mapped_columns, rows_map, typical
from glasshouse.backend.cuda.routine import CudaRoutine
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import TMA, GemmTile, GemmVariant, variant_named, variants
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import FLOAT8, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.expr import Apply, Load
from glasshouse.lower.kernel.statement import Operand, Tile
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole

GEMM, RUN = "gemm_float8", 16
"""Rows are aligned to so many bytes."""
REGISTERS, MOVED, BESIDES = 65536, 232, 40
"""Of a multiprocessor; of a thread that computes where the one that fetches gives some away; those
that hold no sums."""


def float8_matmul(builder: KernelBuilder, node: Node) -> bool:
    """Add a product of 8-bit floats; False if this is none, or one whose rows are not aligned."""
    x, y = (_narrow(v) for v in node.inputs)
    if x is None or y is None or node.attrs["transpose_x"] or not node.attrs["transpose_y"]:
        return False
    rank, (columns, depth) = y.type.rank, y.type.shape[-2:]
    if x.type.rank < 2 or rank != 2 or not isinstance(depth, int) or depth % RUN or not depth:
        return False
    operands = (_bytes(builder, x), _bytes(builder, y))
    rows = product(x.type.shape[:-1])
    sizes = typical(rows, columns, depth // 2, 1)
    best = candidates(*sizes)[0]
    after = take_results(builder, node.output, {"m": rows, "n": columns})
    also = tuple(v.node for v in node.inputs)
    add_tile(builder, node, GEMM, operands, after, variant=f"float8_{best.name}", also=also)
    return True


def _fits(tile: GemmTile) -> bool:
    """Whether registers hold a tile's sums, and those of up to 128 columns once more."""
    room = MOVED if tile.n == 256 else REGISTERS // (tile.threads * tile.beside)
    return tile.n // 2 + min(tile.n, 128) // 2 + BESIDES <= room


def candidates(m: int, n: int, k: int, batch: int) -> list[GemmVariant]:
    """Tiles, and blocks that share their depth, best first; a byte is half of a half float."""
    return variants(m, n, k, batch, (TMA,), lambda variant: _fits(variant.tile))


def _narrow(value: Value) -> Value | None:
    """What is widened to float32 on the way to a product."""
    node = value.node
    if node.op.name != "cast" or value.type.dtype is not float32:
        return None
    return node.inputs[0] if node.inputs[0].type.dtype in FLOAT8 else None


def _bytes(builder: KernelBuilder, value: Value) -> Operand:
    data = whole(builder, value)
    element = Apply("cast", (data.element,), float32, (("dtype", float32),))
    return Operand(data.loops, element, data.constant)


def _gemm(out: CudaText, tile: Tile) -> None:
    loads = [o.element.args[0] for o in tile.operands if isinstance(o.element, Apply)]
    x, y = (load for load in loads if isinstance(load, Load))
    m, n = tile.variables
    depth = tile.operands[1].shape[-1]
    gemm = variant_named(tile.variant).tile
    pair = f"gh::f8x2<{C_TYPE[x.dtype]}, {C_TYPE[y.dtype]}>"
    right, columns = mapped_columns(y.buffer, pair, n.extent, depth // 2, gemm.n)
    call = Product(
        tile, ", ".join(f"(int){size_text(d)}" for d in (m.extent, n.extent, depth // 2)),
        f"gh::MappedRows<{pair}>{{map0}}", right, (m.name, n.name), m.extent, n.extent,
        maps=(rows_map(x.buffer, m.extent, depth // 2, gemm.m), columns), depth=depth // 2,
        early=tile.operands[1].constant,
    )  # fmt: skip
    call.render(out, 1, [])


ROUTINES = {GEMM: CudaRoutine(_gemm)}
