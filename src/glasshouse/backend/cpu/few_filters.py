"""Convolutions in single steps that make few channels (colours, a mask, a waveform) on CPUs.

As a product over channels they would have few columns of the 32 that a panel has. Instead pixels
are the lanes of vectors, over planes that are copied from the image: `few_filters.h`. A transposed
convolution with stride 1 is an ordinary one with its taps from last to first.
"""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, prepared
from glasshouse.backend.cxx.image import (
    Image,
    adjoint_strides,
    conv_strides,
    image_of,
    shape_text,
    strides_text,
)
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole

FILTERS = "few_filters"
_HEADER = "few_filters.h"
_MOST = 8
"""Channels that are made: with more of them, panels of products are filled well enough."""


# ------------------------------------------------------------------------------------- lowering
def makes_few_filters(node: Node, image: Image) -> bool:
    """Whether `image`, the convolution that a node is, has few filters that move pixel by pixel."""
    few = isinstance(image.filters, int) and image.filters <= _MOST and image.groups == 1
    steps = image.window.stride == (1, 1) and image.window.kernel != (1, 1)
    return few and steps and node.inputs[0].type.dtype is float32


def few_filters(builder: KernelBuilder, node: Node, image: Image) -> None:
    """Add the sums over planes: results are channels first."""
    x, w = node.inputs
    operands = (whole(builder, x, channels_last(x.type.rank)), whole(builder, w))
    pixels = image.result[0] * image.result[1]
    variables = {"plane": image.batch * image.filters, "pixel": pixels}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, FILTERS, operands, after)


# ------------------------------------------------------------------------------------ rendering
def _needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    read = (conv_strides if tile.op == "conv" else adjoint_strides)(w.shape)
    attrs = (read, image_of(tile).of_weights, product(w.shape))
    return (Form(buffer_of(w), FILTERS, w.element.dtype, attrs, w.constant),), ()


def _render(out: KernelText, tile: Tile) -> None:
    image = image_of(tile)
    packed = prepared(out, tile.forms[0], FORMS[FILTERS])
    given = f"{image.text()}, {buffer_of(tile.operands[0])}, (const float*){packed}"
    hand_over(out, tile, f"gh::conv_few_filters<{image.filters}>(*ctx.pool, {given}")


def _body(form: Form) -> str:
    read, shape, _ = form.attrs
    given = f"{strides_text(*read)}, {shape_text(shape)}, (float*)out"
    return f"(void)threads; gh::few_filters_pack({given});"


ROUTINES = {FILTERS: Routine(_render, _needs, lambda tile: Recipe(seconds=0.2, headers=(_HEADER,)))}
FORMS = {FILTERS: FormSpelling(_body, lambda form: f"{size_text(form.attrs[2])} * 4", _HEADER)}
