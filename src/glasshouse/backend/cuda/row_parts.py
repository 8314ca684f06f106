"""Products around a layer norm that has no kernel of its own, on Hopper: `row_parts.cuh`.

Variants are those that an estimate names first, of which first those whose stages hold all weights
of a block before its rows come. Chains of BERT-base for one sentence take 224 us so; with what is
measured alone, tiles of 64 x 32 for 128 x 3072 x 768, 227; with half of the weights before the rows
of queries, keys and values 3 more; and with kernels of norms 245.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from glasshouse.backend.cuda.elements import WIDEST, most_neighbours
from glasshouse.backend.cuda.matmul import (
    HALVES,
    Product,
    mapped_columns,
    mapped_rows,
    rows_map,
    typical,
)
from glasshouse.backend.cuda.routine import CudaRoutine
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import (
    PROCESSORS,
    TMA,
    GemmVariant,
    blocks,
    variant_named,
    variants,
)
from glasshouse.backend.cxx.words import C_TYPE, number_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

LEAVING, NORMED = "product_and_parts", "normed_product"
ROWS, WIDTH, MOST_WIDTH = 64, 256, 1024
"""What divides the number of rows, and their length before a norm: four lanes share the parts of a
row, two neighbours each at a time; and its most, so that registers hold them."""


# ------------------------------------------------------------------------------------- lowering
def product_and_parts(builder: KernelBuilder, node: Node, hopper: bool = False) -> None:
    """Add the product with bias and residual, whose rows leave their statistics."""
    x, weight = node.inputs[:2]
    names = _variants(x, weight, hopper)
    if len(node.inputs) > 4:
        _require_width(node.outputs[0])
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, LEAVING, operands, writes=write_all(builder, node), variants=names)


def normed_product(builder: KernelBuilder, node: Node, hopper: bool = False) -> None:
    """Add the product, with what follows in its epilogue where that is possible."""
    x, _, weight, _ = node.inputs
    _require_width(x)
    names = _variants(x, weight, hopper)
    operands = [whole(builder, v) for v in node.inputs]
    sizes = {"m": product(x.type.shape[:-1]), "n": weight.type.shape[0]}
    after = take_results(builder, node.output, sizes)
    if most_neighbours(after.statements, after.variables[-1]) < WIDEST:
        raise Unsupported("what follows takes fewer than eight neighbours")
    add_tile(builder, node, NORMED, operands, after, variants=names)


def _require_width(rows: Value) -> None:
    wide = rows.type.shape[-1]
    if not isinstance(wide, int) or wide % WIDTH or not 0 < wide <= MOST_WIDTH:
        raise Unsupported(f"no parts of rows of {wide} are joined")


def _is_whole(variant: GemmVariant, m: int, n: int) -> bool:
    """Tiles of 64 rows that divide the result, one for each block, handed over in eights."""
    tile = variant.tile
    return (
        tile.m == ROWS
        and n % tile.n == 0
        and tile.n // 16 >= variant.splits
        and blocks(variant, m, n, 1) <= PROCESSORS * tile.beside
    )


def _variants(x: Value, weight: Value, hopper: bool) -> tuple[str, ...]:
    """Names, likely the best first."""
    depth, columns, rows = x.type.shape[-1], weight.type.shape[0], product(x.type.shape[:-1])
    known = all(isinstance(d, int) and d > 0 for d in (depth, columns, rows))
    if not hopper or x.type.dtype not in HALVES or not known:
        raise Unsupported(f"no products of {x.type} around a norm")
    m, n, k, _ = typical(rows, columns, depth, 1)
    if m % ROWS or n % 32 or k % 8:
        raise Unsupported(f"no products of {x.type} around a norm: rows come in 64s")
    found = variants(m, n, k, 1, (TMA,), lambda variant: _is_whole(variant, m, n))
    if not found:
        raise Unsupported("no tiles divide the result")
    return tuple(v.name for v in sorted(found, key=lambda v: not _holds_weights(v, k)))


def _holds_weights(variant: GemmVariant, depth: int) -> bool:
    """Whether all weights of a block are on their way before earlier kernels have ended."""
    return variant.splits * variant.tile.stages * variant.tile.k >= depth


# ------------------------------------------------------------------------------------ rendering
def _product(tile: Tile, left: int, right: int) -> Product:
    """The call for two of the operands: rows and weights."""
    x, w = tile.operands[left], tile.operands[right]
    depth, n = x.shape[-1], w.shape[0]
    m = product(x.shape[:-1])
    gemm = variant_named(tile.variant).tile
    kind = C_TYPE[view(w).dtype]
    second, columns = mapped_columns(view(w).buffer, kind, n, depth, gemm.n)
    return Product(
        tile, f"{m}, {n}, {depth}", mapped_rows(view(x).dtype), second, ("m", "n"), m, n,
        maps=(rows_map(view(x).buffer, m, depth, gemm.m), columns), depth=depth, early=w.constant,
    )  # fmt: skip


def _rows(tile: Tile, parts: str, width: object) -> str:
    return f"gh::RowsBefore<{width}>{{{parts}, {number_text(tile.attr('eps'), float32)}}}"


def _normed(out: CudaText, tile: Tile) -> None:
    _, parts, _, columns = (view(o) for o in tile.operands)
    call = _product(tile, 0, 2)
    replace(
        call,
        rows=_rows(tile, parts.buffer, tile.operands[0].shape[-1]),
        beside=f"gh::columns_at({columns.buffer}, {call.n}, n)",
        result="{beside}.normed({}, row_, {at})",
    ).render(out, 1, [])


def _leaving(out: CudaText, tile: Tile) -> None:
    replace(_product(tile, 0, 1), handed=partial(_put_leaving, tile)).render(out, 1, [])


def _put_leaving(tile: Tile, out: CudaText, call: str) -> None:
    """What follows a product that leaves parts: a bias, a residual or its norm, the parts."""
    _, _, bias, residual, *norm = (view(o) for o in tile.operands)
    (_, rows), (_, left) = tile.writes
    kind, wide, ops = C_TYPE[bias.dtype], tile.operands[2].shape[0], tile.ops
    loaded = [f"{residual.buffer} + m * {wide} + n", f"{bias.buffer} + n"]
    loaded += [f"{v.buffer} + n" for v in norm[1:]]
    with out.block(f"const auto loads_ = [=]({out.index} m, {out.index} n) {{", "};"):
        loads = ", ".join(f"gh::load_vec<8>({where})" for where in loaded)
        out.add(f"return gh::loaded({loads});", ops)
    given = f"{out.index} m, {out.index} n, const auto& sums_, const auto& loaded_"
    opened = f"{call}, gh::after(loads_, [=]({given}) {{"
    if norm:
        known = _rows(tile, norm[0].buffer, wide)
        opened = f"{call}, gh::after_rows({known}, loads_, [=]({given}, const auto& row_) {{"
    with out.block(opened, "}));"):
        out.add(f"gh::Vec<{kind}, 8> made_;")
        out.pragma("#pragma unroll")
        with out.block("for (int u_ = 0; u_ < 8; ++u_) {", "}"):
            found = [f"gh::to_scalar(gh::get<{i}>(loaded_)[u_])" for i in range(len(loaded))]
            added = found[0]
            if norm:
                added = f"(row_.standard({found[0]}) * {found[2]} + {found[3]})"
            out.add(f"const float sum_ = {added} + (sums_[u_] + {found[1]});", ops)
            out.add(f"made_[u_] = gh::from_scalar<{kind}>(sum_);", ops)
        out.add(f"gh::store_vec({rows} + m * {wide} + n, made_);", ops)
        out.add(f"gh::leave_part<{wide}>({left}, m, n, made_);", ops)


ROUTINES = {LEAVING: CudaRoutine(_leaving), NORMED: CudaRoutine(_normed)}
