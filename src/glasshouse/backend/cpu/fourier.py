"""Fourier transforms on CPUs: tables are made when a kernel first runs, and kept."""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import product
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of


def fourier(builder: KernelBuilder, node: Node) -> None:
    """Add a transform, from memory to memory."""
    operands = [whole(builder, node.inputs[0])]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def _fft(out: KernelText, tile: Tile) -> None:
    (x,) = tile.operands
    form = tile.attr("form")
    lines = x.shape if form == "real" else x.shape[:-1]
    at = axis_of(tile.attr("axis"), len(lines))
    length = tile.attr("size") if form == "half" else lines[at]
    back = "true" if tile.attr("inverse") or form == "half" else "false"
    lines_type = f"gh::FftLines<{C_TYPE[tile.dtype]}>"
    plan = out.fresh("plan")
    given = f"{size_text(length)}, gh::FftKind::{form}, {back}"
    out.add(f"static const auto& {plan} = *new {lines_type}({given});", tile.ops)
    sizes = f"{size_text(product(lines[:at]))}, {size_text(product(lines[at + 1 :]))}"
    out.add(f"gh::fft_lines(ctx, {plan}, {sizes}, {buffer_of(x)}, {tile.writes[0][1]});", tile.ops)


_RECIPE = Recipe(seconds=0.2, headers=("fft.h",))  # kernels of one file share the templates
ROUTINES = {"fft": Routine(_fft, recipe=lambda tile: _RECIPE)}
