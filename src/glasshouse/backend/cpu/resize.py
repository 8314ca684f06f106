"""Images are resized in one pass for each spatial axis, the last one written where the result
goes."""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, bfloat16, float16, float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

RESIZE, RESIZE_GRAD = "resize_axis", "resize_axis_grad"


def resize(builder: KernelBuilder, node: Node) -> None:
    """Add a resizing."""
    operand = whole(builder, node.inputs[0])
    add_tile(builder, node, RESIZE, [operand], writes=write_all(builder, node))


def resize_grad(builder: KernelBuilder, node: Node) -> None:
    """Add the gradient: each axis goes back from the output's size to the input's."""
    operand = whole(builder, node.inputs[0])
    add_tile(builder, node, RESIZE_GRAD, [operand], writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def _held(tile: Tile) -> DType:
    """Between passes half floats are held as float32, unless elements are only copied."""
    if tile.op == "resize" and tile.attr("mode") == "nearest":
        return tile.dtype
    return float32 if tile.dtype in (bfloat16, float16) else tile.dtype


def _shapes(tile: Tile) -> list[tuple[Dim, ...]]:
    """What there is after each pass."""
    given = tile.operands[0].shape
    return [(*tile.shape[: axis + 1], *given[axis + 1 :]) for axis in range(2, len(given))]


def _needs(tile: Tile) -> Needs:
    """Memory between passes; and behind the last where the gradient must still be narrowed."""
    shapes, held = _shapes(tile), _held(tile)
    if tile.op == "resize" or held is tile.dtype:
        shapes = shapes[:-1]
    return (), tuple(
        Scratch(f"pass{axis}_", product(shape) * held.itemsize, held)
        for axis, shape in enumerate(shapes)
    )


def _resize(out: KernelText, tile: Tile) -> None:
    shape, source = tile.operands[0].shape, buffer_of(tile.operands[0])
    place = tile.writes[0][1]
    for number, after in enumerate(_shapes(tile)):
        axis = number + 2
        ends = number >= len(tile.scratch)
        target = place if ends else out.scratch(tile, tile.scratch[number].name)
        sizes = [size_text(product(shape[:axis])), size_text(product(shape[axis + 1 :]))]
        lengths = (shape[axis], after[axis])
        lengths = lengths if tile.op == "resize" else lengths[::-1]
        lines = tile.op == "resize" and axis == len(shape) - 1
        if tile.attr("antialias"):
            name = "resize_windows" if tile.op == "resize" else "resize_windows_grad"
        else:
            name, sizes = ("resize_lines", sizes[:1]) if lines else (tile.routine, sizes)
        given = ", ".join([_axis(tile, number, *lengths), *sizes, source, target])
        out.add(f"gh::{name}(ctx, {given});", tile.ops)
        shape, source = after, target
    if source != place:
        count = size_text(product(tile.shape))
        out.add(f"gh::narrow_all(ctx, {count}, {source}, {place});", tile.ops)


def _axis(tile: Tile, axis: int, length: Dim, count: Dim) -> str:
    """One axis as `gh::Resize`."""
    scales = tile.attr("scales")
    scale = repr(float(scales[axis])) if scales else "0.0"
    mode = f"gh::ResizeMode::{tile.attr('mode')}"
    places = f"gh::ResizePlaces::{tile.attr('coordinates')}"
    return f"gh::Resize{{{size_text(length)}, {size_text(count)}, {mode}, {places}, {scale}}}"


def _recipe(tile: Tile) -> Recipe:
    if tile.attr("antialias"):
        return Recipe(seconds=0.5, headers=("resize_windows.h",))
    lines = ("resize_lines.h",) if tile.op == "resize" else ()
    return Recipe(seconds=0.3 if lines else Recipe.seconds, headers=lines)


ROUTINES = {
    RESIZE: Routine(_resize, _needs, _recipe),
    RESIZE_GRAD: Routine(_resize, _needs, _recipe),
}
