"""Pools without a vector template: plane by plane, for every type.

That is: element types other than float32 and bfloat16, windows over three axes, parts of
different sizes, and the places of maxima.
"""

from __future__ import annotations

from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.windows import row, three, windows_text
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import bfloat16, float16, float32
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.pool_ref import pool_window

PLANES, PLANES_GRAD = "plane_pool", "plane_pool_grad"

_FUNCTION = {
    "max_pool": "plane_max",
    "max_pool_indices": "plane_argmax",
    "avg_pool": "plane_mean",
    "adaptive_max_pool": "plane_max",
    "adaptive_max_pool_indices": "plane_argmax",
    "adaptive_avg_pool": "plane_mean",
    "max_pool_grad": "plane_max_grad",
    "avg_pool_grad": "plane_mean_grad",
}


def plane_pool(builder: KernelBuilder, node: Node) -> None:
    """Add a pooling over windows or parts."""
    operand = whole(builder, node.inputs[0])
    writes = ((0, builder.place_for(node.outputs[0])),)
    add_tile(builder, node, PLANES, [operand], writes=writes)


def plane_pool_grad(builder: KernelBuilder, node: Node) -> None:
    """Add the gradient of a pooling; the output has the shape of the pooled image."""
    operands = [whole(builder, v) for v in node.inputs]
    writes = ((0, builder.place_for(node.output)),)
    add_tile(builder, node, PLANES_GRAD, operands, writes=writes)


# ------------------------------------------------------------------------------------ rendering
def _pool(out: KernelText, tile: Tile) -> None:
    planes, spans = _described(tile, tile.operands[0].shape, tile.shape)
    given = f"{buffer_of(tile.operands[0])}, {tile.writes[0][1]}"
    out.add(f"gh::{_FUNCTION[tile.op]}(ctx, {planes}, {spans}, {given});", tile.ops)


def _pool_grad(out: KernelText, tile: Tile) -> None:
    planes, spans = _described(tile, tile.shape, tile.operands[0].shape)
    operands = ", ".join(map(buffer_of, tile.operands))
    given = f"{operands}, {sums(out, tile)}, {tile.writes[0][1]}"
    out.add(f"gh::{_FUNCTION[tile.op]}(ctx, {planes}, {spans}, {given});", tile.ops)


def wide_sums(tile: Tile) -> Needs:
    """Sums of half floats need memory of their own."""
    if tile.dtype not in (bfloat16, float16):
        return (), ()
    return (), (Scratch("sums", product(tile.shape) * float32.itemsize, float32),)


def sums(out: KernelText, tile: Tile) -> str:
    """Where sums of an output are held."""
    return out.scratch(tile) if tile.scratch else tile.writes[0][1]


def _described(tile: Tile, image: Shape, result: Shape) -> tuple[str, str]:
    """`gh::Planes`, and the spans: `gh::Windows` or `gh::Parts`."""
    size, out = three(image[2:], 1), three(result[2:], 1)
    planes = f"gh::Planes{{{size_text(product(image[:2]))}, {row(size)}, {row(out)}}}"
    attrs = dict(tile.attrs)
    if "kernel" not in attrs:
        return planes, f"gh::Parts{{{row(size)}, {row(out)}}}"
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    return planes, windows_text(size, window, attrs.get("count_include_pad", True))


ROUTINES = {PLANES: Routine(_pool), PLANES_GRAD: Routine(_pool_grad, wide_sums)}
