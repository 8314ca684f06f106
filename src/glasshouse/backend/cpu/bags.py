"""Embedding bags on CPUs: each bag's rows are read once, in place in the table."""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole


def bags(builder: KernelBuilder, node: Node) -> None:
    """Add the sums of bags, from memory to memory."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


def _flag(value: object) -> str:
    return "true" if value else "false"


def _bags(out: KernelText, tile: Tile) -> None:
    table, indices, offsets, *scale = tile.operands
    rows, width = map(size_text, table.shape)
    given = [
        buffer_of(table), rows, width, buffer_of(indices), size_text(indices.shape[0]),
        buffer_of(offsets), size_text(tile.shape[0]), _flag(tile.attr("closed")),
        buffer_of(scale[0]) if scale else f"(const {C_TYPE[tile.dtype]}*)nullptr",
        _flag(tile.attr("mean")), size_text(tile.attr("skipped")), tile.writes[0][1],
    ]  # fmt: skip
    out.add(f"gh::bag_rows(ctx, {', '.join(given)});", tile.ops)


_RECIPE = Recipe(seconds=0.3, headers=("bags.h",))
ROUTINES = {"embedding_bag": Routine(_bags, recipe=lambda tile: _RECIPE)}
