"""Decides how images are resized: one pass for each spatial axis that changes, the last one first
written where the result goes."""

from __future__ import annotations

from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType, bfloat16, float16, float32
from glasshouse.ir.graph import Node
from glasshouse.lower.cxx import C_TYPE, size_text
from glasshouse.lower.writer import KernelWriter


def resize(writer: KernelWriter, node: Node) -> None:
    """Write `resize`; between its passes half floats are held as float32."""
    x, out = node.inputs[0], node.output
    dtype = x.type.dtype
    held = dtype if node.attrs["mode"] == "nearest" else _wide(dtype)
    shape, source = list(x.type.shape), writer.in_memory(x)
    place = writer.place_for(out)
    last = x.type.rank - 1
    for axis in range(2, x.type.rank):
        axis_text = _axis(node, axis - 2, shape[axis], out.type.shape[axis])
        outer, inner = product(tuple(shape[:axis])), product(tuple(shape[axis + 1 :]))
        shape[axis] = out.type.shape[axis]
        target = place if axis == last else _room(writer, shape, held)
        sizes = f"{size_text(outer)}, {size_text(inner)}"
        writer.lines.append(f"  gh::resize_axis(ctx, {axis_text}, {sizes}, {source}, {target});")
        source = target


def resize_grad(writer: KernelWriter, node: Node) -> None:
    """Write the gradient: each axis goes back from the output's size to the input's."""
    g, out = node.inputs[0], node.output
    dtype = out.type.dtype
    shape, source = list(g.type.shape), writer.in_memory(g)
    place = writer.place_for(out)
    held = _wide(dtype)
    for axis in range(2, g.type.rank):
        axis_text = _axis(node, axis - 2, out.type.shape[axis], shape[axis])
        outer, inner = product(tuple(shape[:axis])), product(tuple(shape[axis + 1 :]))
        shape[axis] = out.type.shape[axis]
        ends_here = axis == g.type.rank - 1 and held is dtype
        target = place if ends_here else _room(writer, shape, held)
        sizes = f"{size_text(outer)}, {size_text(inner)}"
        writer.lines.append(
            f"  gh::resize_axis_grad(ctx, {axis_text}, {sizes}, {source}, {target});"
        )
        source = target
    if source != place:
        count = size_text(out.type.numel)
        writer.lines.append(f"  gh::narrow_all(ctx, {count}, {source}, {place});")


def _wide(dtype: DType) -> DType:
    return float32 if dtype in (bfloat16, float16) else dtype


def _room(writer: KernelWriter, shape: list[Dim], dtype: DType) -> str:
    nbytes = product(tuple(shape)) * dtype.itemsize
    return writer.scratch(nbytes, f"pass{len(writer.lines)}", C_TYPE[dtype])


def _axis(node: Node, axis: int, length: Dim, count: Dim) -> str:
    """One axis as `gh::Resize`."""
    scales = node.attrs["scales"]
    scale = repr(float(scales[axis])) if scales else "0.0"
    mode = f"gh::ResizeMode::{node.attrs['mode']}"
    places = f"gh::ResizePlaces::{node.attrs['coordinates']}"
    return f"gh::Resize{{{size_text(length)}, {size_text(count)}, {mode}, {places}, {scale}}}"
