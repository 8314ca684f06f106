"""Products of one value with several weights on GPUs: one kernel that reads each weight where it
lies (`products.cuh`), with the norm before a few rows.
"""

from __future__ import annotations

from glasshouse.backend.cuda.matmul import (
    GEMV,
    HALVES,
    MOST_DEPTH,
    MOST_ROWS,
    Product,
    mapped_columns,
    mapped_rows,
    rows_map,
    typical,
)
from glasshouse.backend.cuda.routine import CudaRoutine
from glasshouse.backend.cuda.tensor_map import TensorMap
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import FETCHED, GemmVariant, variant_named, variants
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.choice import Problem
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.cost import operations
from glasshouse.ops.products import GATES

PRODUCTS = "products"
MEASURED = (PRODUCTS, *(f"{PRODUCTS}_{gate}" for gate in GATES))
"""Names of problems."""
_BOX = 32
"""Columns that the copy engine brings in another order."""


def _box(variant: GemmVariant) -> int:
    """Columns that it brings at once: in most tiles two of these, since weights are long."""
    return 2 * _BOX if variant.tile.n % (2 * _BOX) == 0 else _BOX


# ------------------------------------------------------------------------------------- lowering
def products(builder: KernelBuilder, node: Node, hopper: bool = False) -> None:
    """Add the tile, with what follows in its epilogue where that is possible."""
    x, *given = node.inputs
    dtype, out = x.type.dtype, node.output.type
    depth = x.type.shape[-1]
    if dtype not in HALVES or not isinstance(depth, int) or depth % 8 or x.type.rank < 2:
        raise Unsupported(f"no products of {x.type}")
    if any(v not in builder.constants for v in given):
        raise Unsupported("weights that are computed are multiplied one by one")
    normed, gate = node.attrs["eps"] is not None, node.attrs["gate"]
    columns = [w.type.shape[0] for w in given[normed:]]
    rows = product(out.shape[:-1])
    few = isinstance(rows, int) and rows <= MOST_ROWS and depth <= MOST_DEPTH
    names = (GEMV,) if few else _fetched(rows, columns, depth, gate) if hopper else ()
    if not names or (normed and not few):
        raise Unsupported("no kernel reads several weights here")
    operands = [whole(builder, v) for v in node.inputs]
    after = take_results(builder, node.output, {"m": rows, "n": out.shape[-1]})
    problem = None
    if isinstance(rows, int) and not normed:
        numbers = (rows, depth, *(int(n) for n in columns))  # type: ignore[arg-type]  # constants
        name = f"{PRODUCTS}_{gate}" if gate else PRODUCTS
        problem = Problem(name, dtype.name, numbers, operations(node))
    add_tile(builder, node, PRODUCTS, operands, after, variants=names, problem=problem)


def _fetched(rows: Dim, columns: list[Dim], depth: int, gate: str) -> tuple[str, ...]:
    """Variants by the copy engine, likely the best first: a box lies in one weight."""
    wide = [n for n in columns if isinstance(n, int) and n % _BOX == 0]
    if len(wide) < len(columns):
        return ()

    def fits(variant: GemmVariant) -> bool:
        if gate:
            return variant.splits == 1 and variant.tile.n % (2 * _BOX) == 0
        return all(n % _box(variant) == 0 for n in wide[:-1])

    found = variants(*typical(rows, sum(wide), depth, 1), FETCHED, fits)
    return tuple(v.name for v in found)


# ------------------------------------------------------------------------------------ rendering
def _products(out: CudaText, tile: Tile) -> None:
    eps, gate = tile.attr("eps"), tile.attr("gate")
    left, *rest = (view(o) for o in tile.operands)
    weights = rest[eps is not None :]
    columns = [o.shape[0] for o in tile.operands[-len(weights) :]]
    depth = tile.operands[0].shape[-1]
    m, n = (v.extent for v in tile.variables)
    ctype, deep = C_TYPE[left.dtype], size_text(depth)
    ends = ", ".join(size_text(sum(columns[: i + 1], 0)) for i in range(len(columns)))
    maps: tuple[TensorMap, ...] = ()
    if tile.variant == GEMV:
        buffers = ", ".join(w.buffer for w in weights)
        whole_rows = f"{left.buffer}, {deep}, 1, (int){size_text(m)}, (int){deep}"
        first = f"gh::Matrix<{ctype}, false, true>{{{whole_rows}}}"
        if eps is not None:
            first = f"gh::NormedRows<{ctype}>{{{left.buffer}, {deep}, {rest[0].buffer}, {eps!r}f}}"
        second = f"gh::WeightRows<{ctype}, {len(weights)}>{{{{{buffers}}}, {{{ends}}}, {deep}}}"
        if gate:
            second = f"gh::GatedRows<{ctype}, gh::{gate.capitalize()}>{{{buffers}, {deep}}}"
    else:
        variant = variant_named(tile.variant)
        wide = variant.tile.n // (2 if gate else 1)
        box = wide if gate else _box(variant)
        boxes = [
            mapped_columns(w.buffer, C_TYPE[w.dtype], c, depth, box)[1]
            for w, c in zip(weights, columns, strict=True)
        ]
        first = mapped_rows(left.dtype)
        maps = (rows_map(left.buffer, m, depth, variant.tile.m), *boxes)
        named = ", ".join(f"&map{i + 1}" for i in range(len(boxes)))
        sizes = f"{len(boxes)}, {wide}, {box}"
        second = f"gh::MappedParts<{ctype}, {sizes}>{{{{{named}}}, {{{ends}}}}}"
        if gate:
            second = f"gh::MappedGate<{ctype}, {wide}, gh::{gate.capitalize()}>{{map1, map2}}"
    sizes = ", ".join(f"(int){size_text(d)}" for d in (m, n, depth))
    Product(
        tile, sizes, first, second, ("m", "n"), m, n, maps=maps, depth=depth, early=True,
        each=2 if gate else 1,
    ).render(out, 1, [])  # fmt: skip


ROUTINES = {PRODUCTS: CudaRoutine(_products)}
