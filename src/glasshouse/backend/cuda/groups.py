"""Products of groups of rows on GPUs, each group with a matrix of its own (experts of a mixture): a
block finds its group from the ends when it runs (`groups.cuh`), so no size comes to the host.
"""

from __future__ import annotations

from glasshouse.backend.cuda.matmul import HALVES, MOST_BATCH, PLAIN, Product, typical
from glasshouse.backend.cuda.matrices import Matrix, flag, row_major
from glasshouse.backend.cuda.routine import CudaRoutine, most
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import DMMA, MMA, variant_named, variants
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole

GROUPS = "gemm_groups"


# ------------------------------------------------------------------------------------- lowering
def grouped(builder: KernelBuilder, node: Node) -> None:
    """Add the products of all groups as one tile."""
    x, w, _ = node.inputs
    dtype, (rows, columns) = x.type.dtype, node.output.type.shape
    if dtype not in (*HALVES, float32, float64):
        raise Unsupported(f"no products of groups of {dtype}")
    groups, depth = w.type.shape[0], x.type.shape[1]
    if most(rows) / 16 + most(groups) > MOST_BATCH:
        raise Unsupported(f"no groups of more than {MOST_BATCH} tiles of rows")
    names: tuple[str, ...] = (PLAIN,)
    if dtype is not float32:
        all_rows, n, k, count = typical(rows, columns, depth, groups)
        kind, wide = (DMMA, 4) if dtype is float64 else (MMA, 1)
        # As a batch, whose depth is not shared.
        found = variants(max(all_rows // count, 1), n, k * wide, max(count, 2), (kind,))
        names = tuple(v.name for v in found)
    operands = [whole(builder, v) for v in node.inputs]
    after = take_results(builder, node.output, {"m": rows, "n": columns})
    add_tile(builder, node, GROUPS, operands, after, variants=names)


# ------------------------------------------------------------------------------------ rendering
def _groups(out: CudaText, tile: Tile) -> None:
    x, w, ends = (view(o) for o in tile.operands)
    (rows, depth), groups = tile.operands[0].shape, tile.operands[1].shape[0]
    columns = tile.shape[1]
    height = variant_named(tile.variant).tile.m
    tiles: Dim = rows // height + groups  # each group's last one may have few rows
    m, n, k = Loop("m", rows), Loop("n", columns), Loop("k", depth)
    index = row_major(n, k) if tile.attr("turned") else row_major(k, n)
    left = Matrix(x.buffer, x.dtype, row_major(m, k), m, k)
    own = f"{w.buffer} + own_.group * (int64_t){size_text(columns * depth)}"
    right = Matrix(own, w.dtype, index, n, k)
    known = ", ".join(f"(int){size_text(d)}" for d in (groups, rows))
    wide, deep = size_text(columns), size_text(depth)
    kind = f"gh::Matrix<{C_TYPE[x.dtype]}, false, {flag(left.whole)}>"
    Product(
        tile,
        f"own_.rows, (int){wide}, (int){deep}",
        f"{kind}{{{x.buffer} + own_.first * (int64_t){deep}, {deep}, 1, own_.rows, (int){deep}}}",
        right.text(),
        ("m_", "n"), 1, columns, f"const {out.index} m = m_ + own_.first;", depth=depth,
    ).render(
        out, tiles, [
            f"const auto own_ = gh::rows_of_tile<{height}>({ends.buffer}, {known}, blockIdx.z);",
            "if (!own_.rows) return;",
        ],
    )  # fmt: skip


ROUTINES = {GROUPS: CudaRoutine(_groups)}
