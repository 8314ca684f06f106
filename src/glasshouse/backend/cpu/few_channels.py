"""Transposed convolutions with few output channels on CPUs (colours, a waveform): a product, then
col2im.

As a product over channels they would have few columns of the 32 that a panel has. Instead pixels
are the columns and (channel, tap) the rows, and shifted rows of that product are added up:
`few_channels.h`. With stride 1 they are ordinary convolutions (`few_filters.py`).
"""

from __future__ import annotations

from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_recipe, prepared
from glasshouse.backend.cxx.image import Image, gradient_image
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import product
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.cost import typical

FEW = "few_channels"
_HEADER = "few_channels.h"
_MOST = 8
"""Channels: with more of them, panels of products are filled well enough."""
_MOST_FLOATS = 256 * 1024
"""Of a part's product: `kMostFloats` of the header, what L2 holds."""


# ------------------------------------------------------------------------------------- lowering
def makes_few(image: Image) -> bool:
    """Whether the gradient of a convolution by its input makes a waveform, colours or the like."""
    channels = image.channels
    few = isinstance(channels, int) and channels <= _MOST
    return few and image.groups == 1 and not image.is_pointwise and _holds_rows(image)


def _holds_rows(image: Image) -> bool:
    """Whether parts of the product hold as many rows of pixels as a window reaches up, or nearly:
    those above a part are computed again for it (9 x 9 windows over lines of 64 pixels: 1.3 times
    the speed of a product over channels; over lines of 128, a third of it)."""
    w = image.window
    reach = [
        (k - 1) * d / s
        for k, d, s in zip(map(typical, w.kernel), w.dilation, w.stride, strict=True)
    ]
    line = typical(image.size[1]) / w.stride[1] + reach[1]
    rows = typical(image.channels * product(w.kernel))
    return 1.75 * reach[0] * line * rows <= _MOST_FLOATS


def few_channels(builder: KernelBuilder, node: Node, image: Image) -> None:
    """Add the product and its sums along rows: whole planes, so results are channels first."""
    x, w = node.inputs
    operands = (whole(builder, x, channels_last(x.type.rank)), whole(builder, w))
    variables = {"plane": image.batch * image.channels, "pixel": image.size[0] * image.size[1]}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, FEW, operands, after)


# ------------------------------------------------------------------------------------ rendering
def _image(tile: Tile) -> Image:
    x, w = tile.operands
    return gradient_image(dict(tile.attrs), tile.shape, w.shape, x.shape)


def _needs(tile: Tile) -> Needs:
    w = tile.operands[1]
    form = Form(buffer_of(w), FEW, w.element.dtype, (w.shape,), w.constant)
    return (form,), ()


def _few(out: KernelText, tile: Tile) -> None:
    turned = prepared(out, tile.forms[0], FORMS[FEW])
    given = f"{_image(tile).text()}, {buffer_of(tile.operands[0])}, (const float*){turned}"
    hand_over(out, tile, f"gh::conv_few_channels(*ctx.pool, {given}")


def _body(form: Form) -> str:
    w = form.attrs[0]
    given = f"{size_text(w[0])}, {size_text(product(w[1:]))}"
    return f"(void)threads; gh::few_turn_weights(source, {given}, (float*)out);"


ROUTINES = {FEW: Routine(_few, _needs, dot_recipe(0.6, (_HEADER,)))}
FORMS = {FEW: FormSpelling(_body, lambda form: f"{size_text(product(form.attrs[0]))} * 4", _HEADER)}
