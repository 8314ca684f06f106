"""Pooling on CPUs: channels last, vectors over channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from glasshouse.backend.cpu.planes import plane_pool, plane_pool_grad
from glasshouse.backend.cpu.results import hand_over
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import bfloat16, float16, float32, float64, int8, uint8
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile_of_pixels
from glasshouse.ops.pool_ref import pool_window
from glasshouse.ops.window import Window

POOL, POOL_GRAD = "pool2d", "pool2d_grad"
MOST_TAPS, MOST_PLACES = 64, 255
"""Of a window along one axis and in all, for which gradients have a template."""

_FLOATS = (float32, bfloat16, float16, float64)
_WITH_VECTORS = {"max_pool": (*_FLOATS, int8, uint8), "avg_pool": _FLOATS}


def pool(builder: KernelBuilder, node: Node) -> None:
    """Add a maximum or mean over windows, with what follows it in its epilogue where possible."""
    x = node.inputs[0]
    if x.type.dtype not in _WITH_VECTORS[node.op.name] or not _is_flat(node.attrs):
        plane_pool(builder, node)
    else:
        add_tile_of_pixels(builder, node, POOL)


def pool_grad(builder: KernelBuilder, node: Node) -> None:
    """Add the gradient of a pooling: the output has the shape of the pooled image."""
    g = node.inputs[0]
    kernel = node.attrs["kernel"]
    large = any(k > MOST_TAPS for k in kernel) or math.prod(kernel) > MOST_PLACES
    if g.type.dtype is not float32 or not _is_flat(node.attrs) or large:
        plane_pool_grad(builder, node)
    else:
        add_tile_of_pixels(builder, node, POOL_GRAD)


def _is_flat(attrs: Mapping[str, Any]) -> bool:
    """Whether windows go over two axes at most; with channels last, a video whose frames are
    pooled each on its own is a batch of images."""
    window = _window(attrs)
    first = (window.kernel[0], window.stride[0], window.begins[0], window.ends[0])
    return len(window.kernel) < 3 or first == (1, 1, 0, 0)


def _window(attrs: Mapping[str, Any]) -> Window:
    return pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])


# ------------------------------------------------------------------------------------ rendering
def _pool(out: KernelText, tile: Tile) -> None:
    (image,) = tile.operands
    shape = _shape(tile, image.shape, tile.shape)
    kind = "gh::MaxOp" if tile.op == "max_pool" else "gh::SumOp"
    hand_over(out, tile, f"gh::pool2d_nhwc<{kind}>(*ctx.pool, {shape}, {buffer_of(image)}")


def _pool_grad(out: KernelText, tile: Tile) -> None:
    shape = _shape(tile, tile.shape, tile.operands[0].shape)
    given = [buffer_of(o) for o in tile.operands]
    given += [out.scratch(tile)] if tile.scratch else []
    hand_over(out, tile, f"gh::{tile.op}(*ctx.pool, {shape}, {', '.join(given)}")


def _grad_needs(tile: Tile) -> Needs:
    """The place of each maximum in its window."""
    if tile.op != "max_pool_grad":
        return (), ()
    return (), (Scratch("places", product(tile.operands[0].shape), uint8),)


def _shape(tile: Tile, image: Shape, result: Shape) -> str:
    """The pooling as a `gh::PoolShape`; in one dimension the height is 1, and of three the one
    that is left as it is belongs to the batch."""
    attrs = dict(tile.attrs)
    window = _window(attrs)
    count, leave = len(image) - 2, max(0, len(image) - 4)
    lead, none, axes = (1,) * (2 - count), (0,) * (2 - count), slice(leave, count)
    batch = product(image[:1] + image[2 : 2 + leave])
    sizes = (batch, image[1], *lead, *image[2 + leave :], *lead, *result[2 + leave :])
    numbers = (
        *lead, *window.kernel[axes], *lead, *window.stride[axes], *none, *window.begins[axes],
        *lead, *window.dilation[axes], *none, *window.ends[axes],
    )  # fmt: skip
    longs = ", ".join(size_text(d) for d in sizes)
    ints = ", ".join(size_text(d) for d in numbers)
    counts = "true" if attrs.get("count_include_pad", True) else "false"
    return f"gh::PoolShape{{{longs}, {ints}, {counts}}}"


ROUTINES = {POOL: Routine(_pool), POOL_GRAD: Routine(_pool_grad, _grad_needs)}
