"""Factorisations of dense matrices and triangular systems on CPUs: one routine for each op."""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import product
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole


def factor(builder: KernelBuilder, node: Node) -> None:
    """Add a factorisation or a solve, from memory to memory."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def _call(out: KernelText, tile: Tile) -> None:
    """`gh::op(ctx, batch, sizes, operands, results, attributes)`."""
    first, last = tile.operands[0].shape, tile.operands[-1].shape
    own = 1 if tile.op == "row_order" else 2
    sizes = [product(first[:-own]), *first[-own:]]
    if tile.op == "row_order":
        sizes.append(tile.attr("rows"))
    elif tile.op == "triangle_solve":
        sizes[2] = last[-1]
    elif tile.op == "cholesky":
        sizes.pop()
    elif tile.op == "reflections":
        sizes += [last[-1], tile.attr("columns")]
    buffers = [*map(buffer_of, tile.operands), *(buffer for _, buffer in tile.writes)]
    flags = [str(value).lower() for _, value in tile.attrs if isinstance(value, bool)]
    given = ", ".join(["ctx", *map(size_text, sizes), *buffers, *flags])
    out.add(f"gh::{tile.op}({given});", tile.ops)


_QR = ("householder", "reflections")


def _recipe(tile: Tile) -> Recipe:
    return Recipe(seconds=0.5, headers=("qr.h" if tile.op in _QR else "factor.h",))


OPS = ("lu", "row_order", "triangle_solve", "cholesky", *_QR)
ROUTINES = {name: Routine(_call, recipe=_recipe) for name in OPS}
