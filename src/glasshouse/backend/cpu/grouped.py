"""Convolutions in groups of few channels on CPUs: lanes of one vector belong to several groups.

A product pads the outputs of a group to a panel of 32 columns: with 4 of them (ResNeXt) it was six
times slower than PyTorch.
"""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, prepared
from glasshouse.backend.cxx.image import Image, image_of, shape_text, strides_text
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, bfloat16, float16, float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole

GROUPED = "grouped2d"
_FEW = 32
"""Outputs of a group from which on a product has whole panels."""


def suits_groups(image: Image, dtype: DType) -> bool:
    """Whether groups have so few outputs that a product would mostly multiply padding."""
    if not isinstance(image.filters, int) or not isinstance(image.channels, int):
        return False
    many = image.groups > 1 and image.filters // image.groups < _FEW
    return many and dtype in (float32, bfloat16, float16)


def grouped_conv(builder: KernelBuilder, node: Node, image: Image) -> None:
    """Add the convolution, or the one that a transposed convolution is."""
    order = channels_last(node.output.type.rank)
    operands = (whole(builder, node.inputs[0], order), whole(builder, node.inputs[1]))
    after = take_results(builder, node.output, image.variables, order)
    add_tile(builder, node, GROUPED, operands, after, order)


# ------------------------------------------------------------------------------------ rendering
def _needs(tile: Tile) -> Needs:
    """Weights [tap, input, output]; read by group, output, input, row and column of the window."""
    w, image = tile.operands[1], image_of(tile)
    taps, each = product(w.shape[2:]), w.shape[1] * product(w.shape[2:])
    group = w.shape[0] // image.groups * each
    read: tuple[Dim, ...]
    if tile.op == "conv":
        read = (0, group, each, taps, w.shape[-1], 1)
    else:
        read = (taps - 1, group, taps, each, -w.shape[-1], -1)
    attrs = (read, image.of_weights, product(w.shape))
    return (Form(buffer_of(w), GROUPED, w.element.dtype, attrs, w.constant),), ()


def _grouped(out: KernelText, tile: Tile) -> None:
    packed = prepared(out, tile.forms[0], FORMS[GROUPED])
    given = f"{image_of(tile).text()}, {buffer_of(tile.operands[0])}, (const float*){packed}"
    hand_over(out, tile, f"gh::grouped2d(*ctx.pool, {given}")


def _body(form: Form) -> str:
    read, shape, _ = form.attrs
    given = f"{strides_text(*read)}, {shape_text(shape)}, (float*)out"
    return f"(void)threads; gh::grouped_pack_weights({given});"


def _bytes(form: Form) -> str:
    return f"{size_text(form.attrs[2])} * sizeof(float)"


_RECIPE = Recipe(seconds=0.6, headers=("grouped.h",))
ROUTINES = {GROUPED: Routine(_grouped, _needs, lambda tile: _RECIPE)}
FORMS = {GROUPED: FormSpelling(_body, _bytes, "grouped.h")}
