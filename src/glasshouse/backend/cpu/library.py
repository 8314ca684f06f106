"""Functions of `library.h` and `order_lines.h`: sorting, scattering."""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cpu.running import lines
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, float32, float64, int64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.index import strides
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of


def library(builder: KernelBuilder, node: Node) -> None:
    """Add an op that a function of the library computes, from memory to memory."""
    # What is updated comes last: its copy is the output.
    order = [*node.inputs[1:], node.inputs[0]] if node.op.name in _UPDATES else [*node.inputs]
    operands = {v: whole(builder, v) for v in order}
    writes = write_all(builder, node)
    add_tile(builder, node, node.op.name, [operands[v] for v in node.inputs], writes=writes)


_UPDATES = ("scatter", "scatter_nd")


# ------------------------------------------------------------------------------------ rendering
def _flag(value: object) -> str:
    return "true" if value else "false"


def _array(out: KernelText, tile: Tile, dims: tuple[Dim, ...]) -> str:
    """The name of an array of sizes: a literal of them has no address once one is not constant."""
    numbers = ", ".join(f"(int64_t)({size_text(d)})" for d in dims) or "0"
    name = out.fresh("dims")
    out.add(f"const int64_t {name}[] = {{{numbers}}};", tile.ops)
    return name


def _sort(out: KernelText, tile: Tile) -> None:
    """A sort or the top k."""
    (x,) = tile.operands
    sorts = tile.op == "sort"
    descending = tile.attr("descending" if sorts else "largest")
    size = x.shape[axis_of(tile.attr("axis"), len(x.shape))] if x.shape else 1
    k = size if sorts else tile.attr("k")
    given = f"{buffer_of(x)}, {lines(x.shape, tile.attr('axis'))}, {size_text(k)}"
    places = ", ".join(buffer for _, buffer in tile.writes)
    out.add(f"gh::topk_lines(ctx, {given}, {_flag(descending)}, {places});", tile.ops)


def _nth(out: KernelText, tile: Tile) -> None:
    x, ranks = tile.operands
    axis = axis_of(tile.attr("axis"), len(x.shape))
    given = f"{buffer_of(x)}, {lines(x.shape, axis)}, {buffer_of(ranks)}"
    given = f"{given}, {size_text(ranks.shape[axis])}, {_flag(tile.attr('descending'))}"
    places = ", ".join(buffer for _, buffer in tile.writes)
    out.add(f"gh::nth_lines(ctx, {given}, {places});", tile.ops)


def _arg_extreme(out: KernelText, tile: Tile) -> None:
    (x,) = tile.operands
    given = f"{buffer_of(x)}, {lines(x.shape, tile.attr('axis'))}, {tile.writes[0][1]}"
    out.add(f"gh::arg_lines<{_flag(tile.op == 'argmax')}>(ctx, {given});", tile.ops)


def _copied(out: KernelText, tile: Tile) -> str:
    """The output, filled with the first operand."""
    x = tile.operands[0]
    place = tile.writes[0][1]
    nbytes = product(x.shape) * x.element.dtype.itemsize
    source = buffer_of(x)
    # In place where the caller gives one address for both (`MemoryPlan.overwrites`).
    out.add(f"if ((const void*){place} != (const void*){source})", tile.ops)
    out.add(f"  memcpy((void*){place}, {source}, {size_text(nbytes)});", tile.ops)
    return place


def _how(tile: Tile) -> str:
    return f"gh::Meeting::{tile.attr('mode')}"


def _scatter(out: KernelText, tile: Tile) -> None:
    x, indices, updates = tile.operands
    place = _copied(out, tile)
    axis = axis_of(tile.attr("axis"), len(x.shape))
    shape, steps = _array(out, tile, indices.shape), _array(out, tile, strides(x.shape))
    sizes = f"{len(x.shape)}, {shape}, {steps}"
    given = f"{buffer_of(indices)}, {buffer_of(updates)}, {sizes}, {axis}"
    size = size_text(x.shape[axis])
    out.add(f"gh::scatter_along<{_how(tile)}>(ctx, {given}, {size}, {place});", tile.ops)


def _scatter_nd(out: KernelText, tile: Tile) -> None:
    x, indices, updates = tile.operands
    place = _copied(out, tile)
    depth = indices.shape[-1]
    assert isinstance(depth, int), "the op's shape rule wants it fixed"
    axis = tile.attr("axis")
    named = slice(axis, axis + depth)
    rows, width = product(indices.shape[:-1]), product(x.shape[axis + depth :])
    sizes = _array(out, tile, x.shape[named])
    steps = _array(out, tile, strides(x.shape)[named])
    outer, part = product(x.shape[:axis]), product(x.shape[axis:])
    numbers = ", ".join(size_text(d) for d in (outer, part, rows))
    given = f"{buffer_of(indices)}, {buffer_of(updates)}, {numbers}, {depth}"
    given = f"{given}, {sizes}, {steps}, {size_text(width)}"
    out.add(f"gh::scatter_rows<{_how(tile)}>(ctx, {given}, {place});", tile.ops)


def _wide(tile: Tile) -> DType:
    """The type in which gradients are summed."""
    dtype = tile.operands[0].element.dtype
    return float64 if dtype is float64 else float32 if dtype.is_float else int64


def _take_grad_needs(tile: Tile) -> Needs:
    width = (float64 if _wide(tile) is float64 else int64).itemsize
    return (), (Scratch("sums", product(tile.shape) * width, _wide(tile)),)


def _take_grad(out: KernelText, tile: Tile) -> None:
    g, indices = tile.operands
    axis, shape = tile.attr("axis"), tile.shape
    sizes = (product(shape[:axis]), product(indices.shape), shape[axis], product(shape[axis + 1 :]))
    types = f"{C_TYPE[_wide(tile)]}, {C_TYPE[g.element.dtype]}"
    text = ", ".join(size_text(d) for d in sizes)
    given = f"{buffer_of(g)}, {buffer_of(indices)}, {text}, {out.scratch(tile)}"
    out.add(f"gh::take_grad<{types}>(ctx, {given}, {tile.writes[0][1]});", tile.ops)


_ORDER = Recipe(seconds=0.3, headers=("order_lines.h",))
ROUTINES = {
    "argmax": Routine(_arg_extreme, recipe=lambda tile: _ORDER),
    "argmin": Routine(_arg_extreme, recipe=lambda tile: _ORDER),
    "nth": Routine(_nth, recipe=lambda tile: _ORDER),
    "scatter": Routine(_scatter),
    "scatter_nd": Routine(_scatter_nd),
    "sort": Routine(_sort, recipe=lambda tile: _ORDER),
    "take_grad": Routine(_take_grad, _take_grad_needs),
    "topk": Routine(_sort, recipe=lambda tile: _ORDER),
}
