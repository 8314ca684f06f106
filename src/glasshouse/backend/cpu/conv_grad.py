"""Gradients of convolutions on CPUs; a transposed convolution is one of them."""

from __future__ import annotations

from collections.abc import Callable

from glasshouse.backend.cpu.conv import FORMS as CONV_FORMS
from glasshouse.backend.cpu.conv import convolve, depthwise_form
from glasshouse.backend.cpu.conv_any import conv_any, has_template
from glasshouse.backend.cpu.grouped import grouped_conv, suits_groups
from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_recipe, prepared
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
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import bounds, product
from glasshouse.ir.dtype import DType, float32
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole

INPUT_GRAD, WEIGHT_GRAD = "conv_input_grad", "conv_weight_grad"
DIRECT_WEIGHT = "conv_weight_grad_direct"
FEW_PIXELS = 256
"""Below so many, and with more weights than a cache holds, packing beats reading in place: by 1.2
with 512 channels and images of 7 x 7. Everywhere else it is slower, 1.2 to 14 times."""
FEW_CHANNELS = 4
"""So few that a product, whose panels have 32 columns, would do next to nothing useful."""
TRANSPOSED_FEW = "transposed_few"
_MOST_TAPS = 64  # that its tables hold
DEPTHWISE_INPUT, DEPTHWISE_WEIGHT = "depthwise_input_grad", "depthwise_weight_grad"


# ------------------------------------------------------------------------------------- lowering
def conv_transpose(builder: KernelBuilder, node: Node) -> None:
    """The gradient of a convolution by its input: the output here is the input there."""
    x, w = node.inputs
    out = node.output
    if not has_template(x, w):
        conv_any(builder, node)
        return
    image = gradient_image(node.attrs, out.type.shape, w.type.shape, x.type.shape)
    if image.is_depthwise:
        _grad_of_images(builder, node, image, DEPTHWISE_INPUT)
        return
    if _makes_few(image, x.type.dtype):
        operands = (whole(builder, x), whole(builder, w))
        add_tile(builder, node, TRANSPOSED_FEW, operands, writes=write_all(builder, node))
        return
    lies = turned_image(image)
    if lies is not None and suits_groups(lies, x.type.dtype):
        grouped_conv(builder, node, lies)
        return
    if (turned := adjoint(image)) is not None:
        convolve(builder, node, turned)
        return
    _grad_of_images(builder, node, image, INPUT_GRAD)


def _makes_few(image: Image, dtype: DType) -> bool:
    """Whether a transposed convolution makes a waveform, colours or the like."""
    channels, stride = image.channels, image.window.stride
    if not isinstance(channels, int) or channels > FEW_CHANNELS or image.groups != 1:
        return False
    if dtype is not float32 or stride == (1, 1) or max(stride) > FEW_CHANNELS:
        return False
    return all(isinstance(k, int) and k <= _MOST_TAPS for k in image.window.kernel)


def _grad_of_images(builder: KernelBuilder, node: Node, image: Image, routine: str) -> None:
    x, w = node.inputs
    order = channels_last(node.output.type.rank)
    operands = (whole(builder, x, order), whole(builder, w))
    pixels = image.batch * image.size[0] * image.size[1]
    after = take_results(builder, node.output, {"pixel": pixels, "c": image.channels}, order)
    add_tile(builder, node, routine, operands, after, order)


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
def _image(tile: Tile) -> Image:
    x, w = tile.operands
    return gradient_image(dict(tile.attrs), tile.shape, w.shape, x.shape)


def _input_grad_needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    attrs = (conv_strides(w.shape), _image(tile).of_weights, product(w.shape))
    return (Form(buffer_of(w), "reordered", w.element.dtype, attrs, w.constant),), ()


def _input_grad(out: KernelText, tile: Tile) -> None:
    shape = _image(tile).text()
    weights = prepared(out, tile.forms[0], FORMS["reordered"])
    work = f"gh::scratch<8>(gh::conv_input_grad_bytes<gh::DotF32>({shape}))"
    source = buffer_of(tile.operands[0])
    given = f"{source}, (const float*){weights}, {work}"
    hand_over(out, tile, f"gh::conv_input_grad<gh::DotF32>(*ctx.pool, {shape}, {given}")


def _transposed_few(out: KernelText, tile: Tile) -> None:
    image = _image(tile)
    given = f"{image.text()}, {buffer_of(tile.operands[0])}, {buffer_of(tile.operands[1])}"
    sizes = f"{size_text(image.channels)}, {image.window.stride[1]}"
    out.add(f"gh::transposed_few<{sizes}>(ctx, {given}, {tile.writes[0][1]});", tile.ops)


def _weight_grad(function: str) -> Callable[[KernelText, Tile], None]:
    def rendered(out: KernelText, tile: Tile) -> None:
        x, g = tile.operands
        shape = gradient_image(dict(tile.attrs), x.shape, tile.shape, g.shape).text()
        work = f"gh::scratch<8>(gh::{function}_bytes({shape}))"
        steps = ", ".join(size_text(d) for d in conv_strides(tile.shape)[1:])
        given = f"{buffer_of(x)}, {buffer_of(g)}, {work}, {tile.writes[0][1]}, {steps}"
        out.add(f"gh::{function}(*ctx.pool, {shape}, {given});", tile.ops)

    return rendered


def _depthwise_input_needs(tile: Tile) -> Needs:
    return (depthwise_form(tile.operands[1], _image(tile)),), ()


def _depthwise_input(out: KernelText, tile: Tile) -> None:
    packed = prepared(out, tile.forms[0], CONV_FORMS["depthwise"])
    given = f"{_image(tile).text()}, {buffer_of(tile.operands[0])}, (const float*){packed}"
    hand_over(out, tile, f"gh::depthwise_input_grad(*ctx.pool, {given}")


def _depthwise_weight(out: KernelText, tile: Tile) -> None:
    x, g = tile.operands
    shape = gradient_image(dict(tile.attrs), x.shape, tile.shape, g.shape).text()
    given = f"{shape}, {buffer_of(x)}, {buffer_of(g)}, {tile.writes[0][1]}"
    out.add(f"gh::depthwise_weight_grad(*ctx.pool, {given});", tile.ops)


def _reordered(form: Form) -> str:
    read, shape, _ = form.attrs
    given = f"threads, {strides_text(*read)}, {shape_text(shape)}, (float*)out"
    return f"gh::conv_reorder_weights({given});"


_DIRECT = Recipe(seconds=0.15, headers=("conv_weight_grad.h",), shared_seconds=1.0)
_FEW = Recipe(seconds=0.3, headers=("transposed_few.h",))
_DEPTHWISE = Recipe(seconds=0.3, headers=("depthwise_grad.h",))
ROUTINES = {
    DEPTHWISE_INPUT: Routine(_depthwise_input, _depthwise_input_needs, lambda tile: _DEPTHWISE),
    DEPTHWISE_WEIGHT: Routine(_depthwise_weight, recipe=lambda tile: _DEPTHWISE),
    TRANSPOSED_FEW: Routine(_transposed_few, recipe=lambda tile: _FEW),
    INPUT_GRAD: Routine(_input_grad, _input_grad_needs, dot_recipe(0.9)),
    WEIGHT_GRAD: Routine(_weight_grad("conv_weight_grad"), recipe=dot_recipe(0.9)),
    DIRECT_WEIGHT: Routine(_weight_grad("conv_weight_grad_direct"), recipe=lambda tile: _DIRECT),
}
FORMS = {"reordered": FormSpelling(_reordered, lambda form: f"{size_text(form.attrs[2])} * 4")}
