"""Gradients of convolutions by their weights on CPUs; those by the input are in `transposed.py`."""

from __future__ import annotations

from collections.abc import Callable

from glasshouse.backend.cpu.conv_any import conv_any, has_template
from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of, dot_recipe
from glasshouse.backend.cxx.image import (
    conv_strides,
    gradient_image,
)
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import bounds, product
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

WEIGHT_GRAD = "conv_weight_grad"
DIRECT_WEIGHT = "conv_weight_grad_direct"
FEW_PIXELS = 256
"""Below so many, and with more weights than a cache holds, packing beats reading in place: by 1.2
with 512 channels and images of 7 x 7. Everywhere else it is slower, 1.2 to 14 times."""
DEPTHWISE_WEIGHT = "depthwise_weight_grad"


# ------------------------------------------------------------------------------------- lowering
def conv_weight_grad(builder: KernelBuilder, node: Node) -> None:
    """The gradient by the weights, from the image and the gradient of the output."""
    x, g = node.inputs
    if not has_template(x, g):
        conv_any(builder, node)
        return
    order = channels_last(x.type.rank)
    operands = (whole(builder, x, order), whole(builder, g, order))
    shapes = (x.type.shape, node.output.type.shape, g.type.shape)
    image = gradient_image(node.attrs, *shapes)
    pixels, weights = (
        bounds(product(d))[1] for d in ((g.type.shape[0], *g.type.shape[2:]), shapes[1])
    )
    packed = pixels < FEW_PIXELS and weights > 1 << 20
    routine = DEPTHWISE_WEIGHT if image.is_depthwise else WEIGHT_GRAD if packed else DIRECT_WEIGHT
    add_tile(builder, node, routine, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def _weight_grad(function: str) -> Callable[[KernelText, Tile], None]:
    def rendered(out: KernelText, tile: Tile) -> None:
        x, g = tile.operands
        shape = gradient_image(dict(tile.attrs), x.shape, tile.shape, g.shape).text()
        work = f"gh::scratch<8>(gh::{function}_bytes({shape}))"
        steps = ", ".join(size_text(d) for d in conv_strides(tile.shape)[1:])
        given = f"{buffer_of(x)}, {buffer_of(g)}, {work}, {tile.writes[0][1]}, {steps}"
        out.add(f"gh::{function}(*ctx.pool, {shape}, {given});", tile.ops)

    return rendered


def _depthwise_weight(out: KernelText, tile: Tile) -> None:
    x, g = tile.operands
    shape = gradient_image(dict(tile.attrs), x.shape, tile.shape, g.shape).text()
    given = f"{shape}, {buffer_of(x)}, {buffer_of(g)}, {tile.writes[0][1]}"
    out.add(f"gh::depthwise_weight_grad(*ctx.pool, {given});", tile.ops)


_DIRECT = Recipe(seconds=0.15, headers=("conv_weight_grad.h",), shared_seconds=1.0)
_DEPTHWISE = Recipe(seconds=0.3, headers=("depthwise_grad.h",))
ROUTINES = {
    DEPTHWISE_WEIGHT: Routine(_depthwise_weight, recipe=lambda tile: _DEPTHWISE),
    WEIGHT_GRAD: Routine(_weight_grad("conv_weight_grad"), recipe=dot_recipe(0.9)),
    DIRECT_WEIGHT: Routine(_weight_grad("conv_weight_grad_direct"), recipe=lambda tile: _DIRECT),
}
