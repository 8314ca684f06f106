"""Scans along an axis on CPUs: sums, products, extremes, linear recurrences."""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import COMPUTE_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of


def running(builder: KernelBuilder, node: Node) -> None:
    """Add a scan, from memory to memory."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def lines(shape: Shape, axis: int) -> str:
    """The sizes outer, n, inner of a value seen as lines along an axis."""
    if not shape:
        return "1, 1, 1"
    at = axis_of(axis, len(shape))
    sizes: tuple[Dim, ...] = (product(shape[:at]), shape[at], product(shape[at + 1 :]))
    return ", ".join(size_text(d) for d in sizes)


def _flag(value: object) -> str:
    return "true" if value else "false"


def _rule(tile: Tile) -> str:
    held = COMPUTE_TYPE[tile.dtype]
    match tile.op:
        case "cumsum":
            return f"RunningSum<{held}, {_flag(tile.attr('exclusive'))}>"
        case "cummax":
            return f"RunningExtreme<{held}, {_flag(tile.attr('largest'))}>"
        case name:
            return f"{_RULES[name]}<{held}>"


_RULES = {
    "cumprod": "RunningProduct",
    "linear_recurrence": "LinearRecurrence",
    "logcumsumexp": "RunningLogSumExp",
}


def _scan(out: KernelText, tile: Tile) -> None:
    x, *second = (buffer_of(o) for o in tile.operands)
    place, *places = (buffer for _, buffer in tile.writes)
    reverse = dict(tile.attrs).get("reverse", False)
    shape = f"gh::ScanShape{{{lines(tile.shape, tile.attr('axis'))}, {_flag(reverse)}}}"
    y = second[0] if second else f"(decltype({x}))nullptr"
    given = f"{shape}, {x}, {y}, {place}, {places[0] if places else 'nullptr'}"
    types = f"gh::{_rule(tile)}, {COMPUTE_TYPE[tile.dtype]}"
    out.add(f"gh::scan_lines<{types}>(ctx, {given});", tile.ops)


_RECIPE = Recipe(seconds=0.3, headers=("scan_lines.h",))
ROUTINES = {
    name: Routine(_scan, recipe=lambda tile: _RECIPE) for name in ("cumsum", "cummax", *_RULES)
}
