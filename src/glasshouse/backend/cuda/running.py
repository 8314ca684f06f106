"""Running sums, products, extremes and recurrences along an axis (`running.cuh`)."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import CudaRoutine, most, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import COMPUTE_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import float64
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

BESIDE = 32
"""Neighbours across lines from which threads of a warp take lines that lie together."""
MANY_LINES = 1 << 13
"""Lines that keep a GPU busy with few threads for each."""
CHUNK, LONG_LINE, FEW_LINES = 4096, 1 << 14, 128
"""Elements of a block's share of a long line (`running.cuh`); which are long, where there are so
few of them: one line of 2^20 elements took a block 1.8 ms on an H200."""


def running(builder: KernelBuilder, node: Node) -> None:
    """Add a scan, from memory to memory."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def lines(shape: Shape, axis: int) -> tuple[Dim, Dim, Dim]:
    """The sizes outer, n, inner of a value seen as lines along an axis."""
    if not shape:
        return 1, 1, 1
    at = axis_of(axis, len(shape))
    return product(shape[:at]), shape[at], product(shape[at + 1 :])


def _held(tile: Tile) -> str:
    """What is added or multiplied: a line is as long as it wants to be, so floats in float64."""
    kind = COMPUTE_TYPE[tile.dtype]
    return "double" if kind == "float" else kind


def _rule(tile: Tile) -> str:
    match tile.op:
        case "cumsum":
            return f"gh::RunningSum<{_held(tile)}>"
        case "cumprod":
            return f"gh::RunningProduct<{_held(tile)}>"
        case "logcumsumexp":
            return "gh::RunningLogSum"
        case _:
            return f"gh::RunningExtreme<{COMPUTE_TYPE[tile.dtype]}, {_flag(tile.attr('largest'))}>"


def parts_of(n: Dim, inner: Dim, count: Dim) -> int:
    """Threads of a line: four elements each at least; fewer where neighbouring lines lie together
    and there are many of them."""
    limit = 256
    if most(inner) >= BESIDE:
        limit = 8 if most(count) >= MANY_LINES else 32
    parts = 1
    while parts < limit and parts * 8 <= most(n):
        parts *= 2
    return parts


def _chunks(tile: Tile) -> int:
    """Blocks that share a line: where a few are long, so that a block for each is not enough."""
    outer, n, inner = lines(tile.operands[0].shape, tile.attr("axis"))
    few = most(outer * inner) <= FEW_LINES
    return -(-n // CHUNK) if few and isinstance(n, int) and n >= LONG_LINE else 1


def _needs(tile: Tile) -> Needs:
    outer, _, inner = lines(tile.operands[0].shape, tile.attr("axis"))
    chunks = _chunks(tile)
    if chunks == 1:
        return (), ()
    return (), (Scratch("chunks", outer * inner * chunks * 16, float64),)


def _scan(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    outer, n, inner = lines(x.shape, tile.attr("axis"))
    count = outer * inner
    if _chunks(tile) > 1:
        _scan_chunks(out, tile)
        return
    parts = parts_of(n, inner, count)
    per_block = 256 // parts
    attrs = dict(tile.attrs)
    flags = ", ".join(_flag(attrs.get(name, False)) for name in ("exclusive", "reverse"))
    place, *places = (buffer for _, buffer in tile.writes)
    with out.function(((count + (per_block - 1)) // per_block, 1, 1), 256):
        sizes = ", ".join(size_text(d) for d in (count, n, inner))
        given = f"{view(x).buffer}, {sizes}, {flags}, {place}, {(*places, 'nullptr')[0]}"
        out.add(f"gh::run_lines<{_rule(tile)}, {parts}>({given});", tile.ops)


def _scan_chunks(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    outer, n, inner = lines(x.shape, tile.attr("axis"))
    grid = (_chunks(tile), outer * inner, 1)
    attrs, states = dict(tile.attrs), out.scratch(tile, "chunks")
    exclusive, reverse = (_flag(attrs.get(name, False)) for name in ("exclusive", "reverse"))
    place, *places = (buffer for _, buffer in tile.writes)
    sizes = f"{view(x).buffer}, {size_text(n)}, {size_text(inner)}"
    with out.function(grid, 256):
        out.add(f"gh::fold_chunk<{_rule(tile)}>({sizes}, {reverse}, {states});", tile.ops)
    with out.function(grid, 256):
        results = f"{states}, {place}, {(*places, 'nullptr')[0]}"
        given = f"{sizes}, {exclusive}, {reverse}, {results}"
        out.add(f"gh::run_chunk<{_rule(tile)}>({given});", tile.ops)


def _recurrence(out: CudaText, tile: Tile) -> None:
    a, b = tile.operands
    outer, n, inner = lines(b.shape, tile.attr("axis"))
    with out.function(((outer * inner + 127) // 128, 1, 1), 128):
        thread_each(out, outer * inner, 128)
        sizes = f"{size_text(n)}, {size_text(inner)}, {_flag(tile.attr('reverse'))}"
        given = f"e_, {view(a).buffer}, {view(b).buffer}, {sizes}, {tile.writes[0][1]}"
        out.add(f"gh::recur_line<{_held(tile)}>({given});", tile.ops)


def _flag(value: object) -> str:
    return "true" if value else "false"


ROUTINES = {
    **{
        name: CudaRoutine(_scan, _needs) for name in ("cummax", "cumprod", "cumsum", "logcumsumexp")
    },
    "linear_recurrence": CudaRoutine(_recurrence),
}
