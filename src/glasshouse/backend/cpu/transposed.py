"""Transposed convolutions on CPUs, which are gradients of convolutions by their input.

Which variant is taken (`transposed.h`): depthwise; few channels (stride 1: `few_filters.py`, else
`few_channels.py`); one product where no two taps meet in a pixel (`spread.py`); an ordinary
convolution for stride 1; else one for each phase of the strides.
"""

from __future__ import annotations

from glasshouse.backend.cpu.conv import FORMS as CONV_FORMS
from glasshouse.backend.cpu.conv import convolve, depthwise_form
from glasshouse.backend.cpu.conv_any import conv_any, has_template
from glasshouse.backend.cpu.few_channels import few_channels, makes_few
from glasshouse.backend.cpu.few_filters import few_filters, makes_few_filters
from glasshouse.backend.cpu.grouped import grouped_conv, suits_groups
from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_recipe, prepared
from glasshouse.backend.cpu.spread import HEADER, add_transposed, can_spread, spread, spread_bytes
from glasshouse.backend.cxx.image import (
    Image,
    adjoint,
    conv_strides,
    gradient_image,
    shape_text,
    strides_text,
    turned_image,
)
from glasshouse.backend.cxx.text import KernelText
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.target import Needs

PHASES = "conv_phases"
DEPTHWISE_INPUT = "depthwise_input_grad"


# ------------------------------------------------------------------------------------- lowering
def conv_transpose(builder: KernelBuilder, node: Node) -> None:
    """The gradient of a convolution by its input: the output here is the input there."""
    x, w = node.inputs
    out = node.output.type
    if not has_template(x, w):
        conv_any(builder, node)
        return
    if spread_bytes(builder, node):
        return
    image = gradient_image(node.attrs, out.shape, w.type.shape, x.type.shape)
    lies = turned_image(image)
    if image.is_depthwise:
        add_transposed(builder, node, DEPTHWISE_INPUT)
    elif lies is not None and makes_few_filters(node, lies):
        few_filters(builder, node, lies)
    elif makes_few(image):
        few_channels(builder, node, image)
    elif can_spread(node):
        spread(builder, node)
    elif lies is not None and suits_groups(lies, x.type.dtype):
        grouped_conv(builder, node, lies)
    elif (turned := adjoint(image)) is not None:
        convolve(builder, node, turned)
    else:
        add_transposed(builder, node, PHASES)


# ------------------------------------------------------------------------------------ rendering
def _image(tile: Tile) -> Image:
    x, w = tile.operands
    return gradient_image(dict(tile.attrs), tile.shape, w.shape, x.shape)


def phases_way(image: Image) -> str:
    """How the convolutions of a gradient's phases are computed; the batch does not matter."""
    if not image.smallest.is_static:
        return "gh::ConvWay::kIm2col"
    return f"gh::phases_way<gh::DotF32>({image.smallest.text()})"


def _phases_needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    attrs = (conv_strides(w.shape), _image(tile).of_weights)
    return (Form(buffer_of(w), PHASES, w.element.dtype, attrs, w.constant),), ()


def _phases(out: KernelText, tile: Tile) -> None:
    image = _image(tile)
    shape = image.text()
    packed = prepared(out, tile.forms[0], FORMS[PHASES])
    work = f"gh::scratch<8>(gh::phases_work_bytes<gh::DotF32>({shape}))"
    given = f"{shape}, {buffer_of(tile.operands[0])}, {packed}, {work}"
    hand_over(out, tile, f"gh::conv_phases<gh::DotF32, {phases_way(image)}>(*ctx.pool, {given}")


def _phases_pack(form: Form) -> str:
    read, shape = form.attrs
    given = f"threads, {strides_text(*read)}, {shape_text(shape)}, out"
    return f"gh::phases_pack_weights<gh::DotF32>({given});"


def _depthwise_needs(tile: Tile) -> Needs:
    return (depthwise_form(tile.operands[1], _image(tile)),), ()


def _depthwise(out: KernelText, tile: Tile) -> None:
    packed = prepared(out, tile.forms[0], CONV_FORMS["depthwise"])
    given = f"{_image(tile).text()}, {buffer_of(tile.operands[0])}, (const float*){packed}"
    hand_over(out, tile, f"gh::depthwise_input_grad(*ctx.pool, {given}")


_DEPTHWISE = Recipe(seconds=0.3, headers=("depthwise_grad.h",))
ROUTINES = {
    PHASES: Routine(_phases, _phases_needs, dot_recipe(0.6, (HEADER,))),
    DEPTHWISE_INPUT: Routine(_depthwise, _depthwise_needs, lambda tile: _DEPTHWISE),
}
FORMS = {
    PHASES: FormSpelling(
        _phases_pack,
        lambda form: f"gh::phases_weight_bytes<gh::DotF32>({shape_text(form.attrs[1])})",
        HEADER,
    ),
}
