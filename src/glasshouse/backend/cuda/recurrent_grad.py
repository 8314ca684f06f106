"""The gradient of recurrent layers on GPUs: one kernel for the whole loop over time, backwards
(`recurrent_grad.cuh`)."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import CudaRoutine
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

THREADS = 512
CLUSTER = 8
"""Blocks that share the units of a state, where blocks form clusters: as many as every chip has
room for."""
MANY = 32
"""Rows of a batch from which a cluster takes eight of them, not four: weights are read for all."""
TOGETHER, ALONE = f"cluster{CLUSTER}", "block"
_CELL = {"lstm": "Lstm", "gru": "Gru", "tanh": "Tanh", "relu": "Relu"}


def recurrent_grad(builder: KernelBuilder, node: Node, clusters: bool = False) -> None:
    """Add the gradient of a layer's loop."""
    operands = [whole(builder, v) for v in node.inputs]
    variants = (TOGETHER,) if clusters else (ALONE,)
    places = write_all(builder, node)
    add_tile(builder, node, node.op.name, operands, writes=places, variants=variants)


# ------------------------------------------------------------------------------------ rendering
def _rows(batch: Dim) -> int:
    if not isinstance(batch, int):
        return 4
    return 8 if batch >= MANY else next(n for n in (1, 2, 4) if n >= min(batch, 4))


def _blocks(tile: Tile) -> int:
    return CLUSTER if tile.variant == TOGETHER else 1


def _grad(out: CudaText, tile: Tile) -> None:
    steps, batch, hidden = tile.operands[0].shape
    sizes = ", ".join(f"(int){size_text(d)}" for d in (steps, batch, hidden))
    sequence = f"gh::Recurrence{{{sizes}, {'true' if tile.attr('reverse') else 'false'}}}"
    g, given, recurred, weights, *rest = (view(o).buffer for o in tile.operands)
    kind, cell = C_TYPE[tile.dtype], tile.attr("cell")
    rows, blocks = _rows(batch), _blocks(tile)
    none = f"({kind}*)nullptr"
    known = {"lstm": [*rest, none, none], "gru": [none, none, none, *rest]}.get(cell, [none] * 5)
    by_gates, by_state, *more = (buffer for _, buffer in tile.writes)
    results = {"lstm": [*more, none], "gru": [none, *more]}.get(cell, [none] * 2)
    shared = THREADS * rows * tile.dtype.itemsize
    grid = (blocks, (batch + (rows - 1)) // rows, 1)
    with out.function(grid, THREADS, shared, cluster=(blocks, 1)):
        out.add("GH_SHARED_ROOM(room_);")
        types = f"gh::{_CELL[cell]}Back, {blocks}, {rows}, {kind}"
        buffers = [g, given, recurred, weights, *known, by_gates, by_state, *results]
        text = ", ".join([*buffers, f"({kind}*)room_"])
        out.add(f"gh::recurrent_grad<{types}>({sequence}, {text});", tile.ops)


ROUTINES = {"recurrent_grad": CudaRoutine(_grad)}
