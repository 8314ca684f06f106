"""Places of extremes along an axis: some threads for each line (`extremes.cuh`)."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import CudaRoutine, most
from glasshouse.backend.cuda.running import lines
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

BESIDE = 8
"""Neighbours across lines from which threads of a warp take lines that lie together."""
MANY_LINES, FEW_LINES = 1 << 13, 1 << 8
"""Lines that keep a GPU busy with few threads for each, and those that do not with 32."""


def extremes(builder: KernelBuilder, node: Node) -> None:
    """Add the places of the largest or smallest elements, from memory to memory."""
    operand = whole(builder, node.inputs[0])
    add_tile(builder, node, node.op.name, [operand], writes=write_all(builder, node))


def _parts(n: Dim, count: Dim, beside: bool) -> int:
    """Threads of a line, four elements each at least."""
    limit = 256
    if beside and most(count) >= FEW_LINES:
        limit = 8 if most(count) >= MANY_LINES else 32
    parts = 1
    while parts < limit and parts * 8 <= most(n):
        parts *= 2
    return parts


def _extremes(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    outer, n, inner = lines(x.shape, tile.attr("axis"))
    count = outer * inner
    beside = most(inner) >= BESIDE
    parts = _parts(n, count, beside)
    each = 256 // parts
    with out.function(((count + (each - 1)) // each, 1, 1), 256):
        flags = [("true" if x else "false") for x in (tile.op == "argmax", beside)]
        sizes = ", ".join(size_text(d) for d in (count, n, inner))
        given = f"{view(x).buffer}, {sizes}, {tile.writes[0][1]}"
        out.add(f"gh::arg_lines<{flags[0]}, {parts}, {flags[1]}>({given});", tile.ops)


ROUTINES = {name: CudaRoutine(_extremes) for name in ("argmax", "argmin")}
