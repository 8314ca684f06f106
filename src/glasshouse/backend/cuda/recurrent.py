"""Recurrent layers on GPUs: all steps of LSTM, GRU and plain cells as one kernel
(`recurrent.cuh`)."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import CudaRoutine, most
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.recurrent import GATES

ALONE, BY_CLUSTERS = "recurrent", "recurrent_by_clusters"
BLOCKS, THREADS = 8, 256
MOST_ROWS, MOST_UNITS = 8, 4
"""Rows of a batch that go through the steps together, and results of a thread in a step."""
AT_ONCE = {ALONE: 108, BY_CLUSTERS: 15}
"""Blocks, and clusters of eight, that run at the same time: of an A100, of an H200."""
MOST_HIDDEN = 4096
MOST_SHARED = 224 << 10
"""Bytes of shared memory of a block in a cluster, on Hopper and later."""
MOST_ALONE = 96 << 10
"""Of a block alone: what all chips since Ampere have."""


def recurrent(builder: KernelBuilder, node: Node, clusters: bool = False) -> None:
    """Add the loop over time, from memory to memory."""
    weights = node.inputs[2].type
    hidden = weights.shape[1]
    if not isinstance(hidden, int) or not 0 < hidden <= MOST_HIDDEN:
        raise Unsupported(f"no kernel for a state of {hidden} units")
    by = BY_CLUSTERS if clusters and weights.dtype is float32 else ALONE
    batch, itemsize = node.inputs[0].type.shape[1], weights.dtype.itemsize
    rows = _rows(by, batch, hidden)
    room, _ = _room(GATES[node.attrs["cell"]], _blocks(by), rows, hidden, itemsize)
    if room > _limit(by):
        raise Unsupported(f"a state of {hidden} units does not fit into shared memory")
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, by, operands, writes=write_all(builder, node))


def _blocks(by: str) -> int:
    return BLOCKS if by == BY_CLUSTERS else 1


def _limit(by: str) -> int:
    return MOST_SHARED if by == BY_CLUSTERS else MOST_ALONE


def _rows(by: str, batch: Dim, hidden: int) -> int:
    """Rows of the batch for each block or cluster: as few as keep all of the chip busy."""
    wanted = most(batch) / AT_ONCE[by]
    fits = max(MOST_UNITS * THREADS // -(-hidden // _blocks(by)), 1)
    return int(max(min(-(-wanted // 1), MOST_ROWS, fits), 1))


def _room(gates: int, blocks: int, rows: int, hidden: int, itemsize: int) -> tuple[int, int]:
    """`gh::RecurrentRoom`: bytes of shared memory without weights, and with them."""
    vec = 16 // itemsize
    depth, units = -(-hidden // vec), -(-hidden // blocks)
    lines = gates * units
    parts = min(max(THREADS // lines, 1), depth)
    own = 16 + 2 * rows * depth * 16 + parts * rows * lines * itemsize
    weights = -(-(own + rows * units * itemsize) // 16) * 16
    return weights, weights + lines * depth * 16


def _recurrent(out: CudaText, tile: Tile) -> None:
    given, state, weights, *rest = tile.operands
    steps, batch, _ = given.shape
    dtype, hidden, cell = weights.element.dtype, weights.shape[1], tile.attr("cell")
    assert isinstance(hidden, int), "lowering wants it known"
    blocks, rows = _blocks(tile.routine), _rows(tile.routine, batch, hidden)
    alone, with_weights = _room(GATES[cell], blocks, rows, hidden, dtype.itemsize)
    held = with_weights <= _limit(tile.routine)
    shared = with_weights if held else alone
    grid = ((batch + (rows - 1)) // rows * blocks, 1, 1)
    with out.function(grid, THREADS, shared, cluster=(blocks, 1)):
        kind = C_TYPE[dtype]
        of = f"gh::{cell.capitalize()}Cell, {blocks}, {rows}, {hidden}, {_flag(held)}"
        buffers = ", ".join(view(o).buffer for o in (given, state, weights))
        more = view(rest[0]).buffer if rest else f"(const {kind}*)0"
        sizes = f"{size_text(steps)}, {size_text(batch)}, {_flag(tile.attr('reverse'))}"
        results = [buffer for _, buffer in tile.writes]
        memories = results[1] if len(results) > 1 else f"({kind}*)0"
        to = f"{results[0]}, {memories}"
        out.add(f"gh::recurrent<{of}>({buffers}, {more}, {sizes}, {to});", tile.ops)


def _flag(value: object) -> str:
    return "true" if value else "false"


ROUTINES = {ALONE: CudaRoutine(_recurrent), BY_CLUSTERS: CudaRoutine(_recurrent)}
