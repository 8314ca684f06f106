"""Convolutions over three axes on CPUs: sums, over the taps of depth, of convolutions of planes.

What a plane is convolved with has the templates and forms of images (`conv.py`, `transposed.py`);
the forms of all taps lie one behind the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glasshouse.backend.cpu.conv import WINOGRAD_TILE, conv
from glasshouse.backend.cpu.conv_grad import conv_weight_grad
from glasshouse.backend.cpu.recipe import WINOGRAD_PART, Recipe, dot_parts
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_kind, prepared
from glasshouse.backend.cpu.spread import HEADER as TRANSPOSED_HEADER
from glasshouse.backend.cpu.spread import can_spread, spread, spread_bytes
from glasshouse.backend.cpu.transposed import conv_transpose, phases_way
from glasshouse.backend.cpu.winograd import suits_winograd
from glasshouse.backend.cxx.image import Image, adjoint, shape_text, strides_text
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, bfloat16, float32
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.window import Window, window_of

CONV3D, WEIGHT_GRAD3D = "conv3d", "conv3d_weight_grad"
_HEADER = "conv3d.h"
_ORDER = channels_last(5)
_AS_THEY_ARE = ("depthwise", "phases")
"""Variants that compute a transposed convolution from the weights of the convolution itself."""


@dataclass(frozen=True)
class Volume:
    """A convolution from `image` to `result`: that of one plane, and what happens along depth."""

    batch: Dim
    plane: Image  # with a batch of one
    depth: tuple[Dim, Dim]  # of the image, of the result
    taps: Dim
    step: int
    begin: int
    dilation: int

    def depth_text(self, transposed: bool) -> str:
        """`gh::Depth`; a transposed convolution reads the result and makes the image."""
        planes = self.depth[::-1] if transposed else self.depth
        numbers = (*planes, self.taps, self.step, self.begin, self.dilation)
        flag = "true" if transposed else "false"
        return f"gh::Depth{{{', '.join(map(size_text, numbers))}, {flag}}}"


def volume_of(attrs: Mapping[str, Any], image: Shape, weights: Shape, result: Shape) -> Volume:
    """The convolution of a node, or the one whose gradient it is."""
    window = window_of(weights[2:], attrs["stride"], attrs["padding"], attrs["dilation"])
    flat = Window(
        window.kernel[1:], window.stride[1:], window.begins[1:], window.ends[1:],
        window.dilation[1:],
    )  # fmt: skip
    sizes = ((image[3], image[4]), (result[3], result[4]))
    plane = Image(1, image[1], sizes[0], result[1], sizes[1], flat, attrs["groups"])
    return Volume(
        image[0], plane, (image[2], result[2]), window.kernel[0], window.stride[0],
        window.begins[0], window.dilation[0],
    )  # fmt: skip


# ------------------------------------------------------------------------------------- lowering
def convolution(builder: KernelBuilder, node: Node) -> None:
    """Add a convolution over one to three axes."""
    (conv3d if takes(node) else conv)(builder, node)


def transposed(builder: KernelBuilder, node: Node) -> None:
    """Add a transposed convolution over one to three axes."""
    if not takes(node):
        conv_transpose(builder, node)
    elif spread_bytes(builder, node):
        pass
    elif can_spread(node):
        spread(builder, node)
    else:
        conv3d(builder, node)


def by_weights(builder: KernelBuilder, node: Node) -> None:
    """Add the gradient of a convolution over one to three axes by its weights."""
    (conv3d_weight_grad if takes(node) else conv_weight_grad)(builder, node)


def takes(node: Node) -> bool:
    """Whether a convolution, or a gradient of one, is over three axes in a type with templates."""
    x, y = (v.type for v in node.inputs)
    kinds = (float32, bfloat16) if node.op.name == "conv" else (float32,)
    return x.rank == 5 and x.dtype is y.dtype and x.dtype in kinds


def conv3d(builder: KernelBuilder, node: Node) -> None:
    """Add a convolution or a transposed one, with what follows it in its epilogue."""
    x, w = node.inputs
    out = node.output.type
    operands = (whole(builder, x, _ORDER), whole(builder, w))
    variables = {"pixel": out.numel // out.shape[1], "oc": out.shape[1]}
    volume = _volume(node.op.name, node.attrs, x.type.shape, w.type.shape, out.shape)
    variant = _variant(node.op.name, volume, x.type.dtype, w in builder.constants)
    after = take_results(builder, node.output, variables, _ORDER)
    add_tile(builder, node, CONV3D, operands, after, _ORDER, variant=variant)


def conv3d_weight_grad(builder: KernelBuilder, node: Node) -> None:
    """Add the gradient by the weights."""
    operands = [whole(builder, v, _ORDER) for v in node.inputs]
    add_tile(builder, node, WEIGHT_GRAD3D, operands, writes=write_all(builder, node))


def _volume(op: str, attrs: Mapping[str, Any], x: Shape, w: Shape, out: Shape) -> Volume:
    return volume_of(attrs, x, w, out) if op == "conv" else volume_of(attrs, out, w, x)


def _variant(op: str, volume: Volume, dtype: DType, known: bool) -> str:
    plane = volume.plane
    if plane.is_depthwise:
        return "depthwise"
    turned = plane if op == "conv" else adjoint(plane)
    if turned is None:
        return "phases"
    return "winograd2" if dtype is float32 and suits_winograd(turned, known) else "taps"


# ------------------------------------------------------------------------------------ rendering
def _of(tile: Tile) -> Volume:
    x, w = (o.shape for o in tile.operands)
    return _volume(tile.op, dict(tile.attrs), x, w, tile.shape)


def _plane(tile: Tile) -> Image:
    """The convolution of planes that the tile's variant computes."""
    plane = _of(tile).plane
    if tile.op == "conv" or tile.variant in _AS_THEY_ARE:
        return plane
    turned = adjoint(plane)
    assert turned is not None, "lowering asked before"
    return turned


def _needs(tile: Tile) -> Needs:
    """A form for each tap: how many, how far apart in the weights, and strides by filter, channel,
    row and column."""
    w = tile.operands[1]
    taps = product(w.shape[3:])
    each, column = w.shape[2] * taps, w.shape[-1]
    strides: tuple[Dim, ...] = (0, w.shape[1] * each, each, column, 1)
    if tile.op != "conv" and tile.variant not in _AS_THEY_ARE:
        strides = (taps - 1, each, w.shape[1] * each, -column, -1)
    attrs = (tile.variant, w.shape[2], taps, strides, _plane(tile).of_weights)
    return (Form(buffer_of(w), "by_depth", w.element.dtype, attrs, w.constant),), ()


def _kind(variant: str, dtype: DType) -> str:
    size = WINOGRAD_TILE.get(variant)
    return dot_kind(dtype) + (f", {size}" if size else "")


def _conv3d(out: KernelText, tile: Tile) -> None:
    volume, plane = _of(tile), _plane(tile)
    x = tile.operands[0]
    form = tile.forms[0]
    packed = prepared(out, form, FORMS["by_depth"])
    kind, element = _kind(tile.variant, x.element.dtype), C_TYPE[x.element.dtype]
    weights = f"(const char*){packed} + tap * {_each_bytes(form)}"
    shape = out.fresh("plane")
    match tile.variant:
        case "depthwise":
            name = "depthwise2d" if tile.op == "conv" else "depthwise_input_grad"
            call = f"gh::{name}(*ctx.pool, s, x, (const float*)({weights}), e);"
        case "phases":
            work = f"gh::scratch<8>(gh::phases_work_bytes<{kind}>(s))"
            routine = f"conv_phases<{kind}, {phases_way(plane)}>"
            call = f"gh::{routine}(*ctx.pool, s, x, {weights}, {work}, e);"
        case "taps":
            work = f"gh::scratch<7>(gh::conv_work_bytes<{kind}>(s))"
            routine = f"conv2d_as<{kind}, gh::conv_way<{kind}>({plane.text()})>"
            routine = routine if plane.is_static else f"conv2d<{kind}>"
            call = f"gh::{routine}(*ctx.pool, s, x, {weights}, {work}, e);"
        case _:
            work = f"gh::scratch<7>(gh::winograd_work_bytes<{kind}>(s))"
            given = f"x, {weights}, {work}, e"
            call = f"gh::conv2d_winograd<{kind}, {element}>(*ctx.pool, s, {given});"
    backwards = tile.op != "conv" and tile.variant in _AS_THEY_ARE
    read = (*plane.result, plane.filters) if backwards else (*plane.size, plane.channels)
    made = (*plane.size, plane.channels) if backwards else (*plane.result, plane.filters)
    sizes = (volume.batch, product(read), product(made[:2]), made[2])
    counts = ", ".join(map(size_text, sizes))
    out.add(f"const gh::ConvShape {shape} = {plane.text()};", tile.ops)
    lines = f"gh::ConvShape s = {shape}; s.N = n; {call}"
    planes = f"[&](long n, const {element}* x, long tap, auto&& e) {{ {lines} }}"
    depth = volume.depth_text(tile.op != "conv")
    hand_over(out, tile, f"gh::over_depth({depth}, {counts}, {buffer_of(x)}, {planes}")


def _weight_grad(out: KernelText, tile: Tile) -> None:
    x, g = tile.operands
    volume = volume_of(dict(tile.attrs), x.shape, tile.shape, g.shape)
    given = f"{volume.plane.text()}, {volume.depth_text(False)}, {size_text(volume.batch)}"
    data = f"{buffer_of(x)}, {buffer_of(g)}, {tile.writes[0][1]}"
    out.add(f"gh::conv3d_weight_grad(*ctx.pool, {given}, {data});", tile.ops)


def _recipe(tile: Tile) -> Recipe:
    dtype = tile.operands[0].element.dtype
    parts = dot_parts(dtype)
    if tile.variant in WINOGRAD_TILE:
        parts = (*parts, WINOGRAD_PART[WINOGRAD_TILE[tile.variant], dtype])
    return Recipe(parts, 0.9, headers=(_HEADER, "depthwise_grad.h", TRANSPOSED_HEADER))


def _each_bytes(form: Form) -> str:
    """Of one tap's form."""
    variant, _, taps, _, shape = form.attrs
    kind, text = _kind(variant, form.dtype), shape_text(shape)
    match variant:
        case "taps":
            return f"gh::conv_weight_bytes<{kind}>({text})"
        case "phases":
            return f"gh::phases_weight_bytes<{kind}>({text})"
        case "depthwise":
            return f"{text}.OC * {text}.cg() * {size_text(taps)} * 4"
        case _:
            return f"gh::winograd_weight_bytes<{kind}>({text})"


def _pack(form: Form) -> str:
    variant, count, taps, strides, shape = form.attrs
    kind, text = _kind(variant, form.dtype), shape_text(shape)
    begin, *steps = strides
    read = strides_text(begin, *steps).replace("source", f"source + tap * {size_text(taps)}", 1)
    to = f"(char*)out + tap * {_each_bytes(form)}"
    match variant:
        case "taps":
            call = f"gh::conv_pack_weights<{kind}>(threads, {read}, {text}, {to});"
        case "depthwise":
            source, by_filter, _, by_row, by_column = read.split(", ")
            given = f"{source}, {by_filter}, {by_row}, {by_column}, {text}, (float*)({to})"
            call = f"(void)threads; gh::depthwise_pack_weights({given});"
        case "phases":
            call = f"gh::phases_pack_weights<{kind}>(threads, {read}, {text}, {to});"
        case _:
            call = f"gh::winograd_pack_weights<{kind}>(threads, {read}, {text}, {to});"
    return f"for (long tap = 0; tap < {size_text(count)}; tap++) {{ {call} }}"


def _bytes(form: Form) -> str:
    return f"{size_text(form.attrs[1])} * {_each_bytes(form)}"


ROUTINES = {
    CONV3D: Routine(_conv3d, _needs, _recipe),
    WEIGHT_GRAD3D: Routine(_weight_grad, recipe=_recipe),
}
FORMS = {"by_depth": FormSpelling(_pack, _bytes, TRANSPOSED_HEADER)}
