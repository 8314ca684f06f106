"""Convolutions without a template: loops over planes, for every type and up to three spatial
axes."""

from __future__ import annotations

from glasshouse.backend.cpu.planes import sums, wide_sums
from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.windows import row, three, windows_text
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.window import window_of

CONV_ANY = "conv_any"
_FUNCTION = {
    "conv": "conv_any",
    "conv_transpose": "conv_any_input_grad",
    "conv_weight_grad": "conv_any_weight_grad",
}


def has_template(image: Value, other: Value) -> bool:
    """Whether the gradients' templates take these operands: one or two spatial axes of float32."""
    return image.type.rank <= 4 and image.type.dtype is other.type.dtype is float32


def conv_any(builder: KernelBuilder, node: Node) -> None:
    """Add a convolution, or its gradient by the input or the weights."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, CONV_ANY, operands, writes=write_all(builder, node))


def _conv_any(out: KernelText, tile: Tile) -> None:
    operands = ", ".join(map(buffer_of, tile.operands))
    given = f"{operands}, {sums(out, tile)}, {tile.writes[0][1]}"
    out.add(f"gh::{_FUNCTION[tile.op]}(ctx, {_shape(tile)}, {given});", tile.ops)


def _shape(tile: Tile) -> str:
    """The convolution as `gh::AnyConv`; in gradients the output is what the input was there."""
    first, second = (o.shape for o in tile.operands)
    image, weights, result = {
        "conv": (first, second, tile.shape),
        "conv_transpose": (tile.shape, second, first),
        "conv_weight_grad": (first, tile.shape, second),
    }[tile.op]
    window = window_of(
        weights[2:], tile.attr("stride"), tile.attr("padding"), tile.attr("dilation")
    )
    size = three(image[2:], 1)
    numbers = (image[0], image[1], result[1], tile.attr("groups"))
    counts = ", ".join(size_text(d) for d in numbers)
    spatial = row(three(result[2:], 1))
    return f"gh::AnyConv{{{counts}, {spatial}, {windows_text(size, window)}}}"


ROUTINES = {CONV_ANY: Routine(_conv_any, wide_sums, lambda tile: Recipe(seconds=0.9))}
