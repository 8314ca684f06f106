"""How ONNX's changes of shape are spelled."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.frontend.onnx.call import NotKnown, OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dim import Dim, floor_div, product
from glasshouse.ops import composite
from glasshouse.ops.shape import expanded, permuted, reshaped
from glasshouse.ops.shapes import axes_of, axis_of, broadcast_shapes


@spell("Reshape")
def reshape(c: OnnxCall) -> Any:
    x = c[0]
    if c.has(1) and c.value(1) is None:
        # The file says what comes out, though not how it is computed.
        said = c.declared()
        if said is not None:
            c.importer.want(c.item(1))
            return reshaped(x, said.shape)
    wanted = list(c.sizes(1) if c.has(1) else c.attr("shape"))
    if not c.attr("allowzero", 0):
        wanted = [x.shape[i] if s == 0 else s for i, s in enumerate(wanted)]
    if -1 in wanted and product(tuple(s for s in wanted if s != -1)) == 0:
        wanted[wanted.index(-1)] = 0
    return composite.reshape(x, wanted)


@spell("Flatten")
def flatten(c: OnnxCall) -> Any:
    x = c[0]
    axis = c.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return reshaped(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@spell("Transpose")
def transpose(c: OnnxCall) -> Any:
    x = c[0]
    return permuted(x, c.attr("perm") or list(range(x.ndim))[::-1])


@spell("Squeeze")
def squeeze(c: OnnxCall) -> Any:
    x = c[0]
    if (declared := c.declared_for_want_of(1)) is not None:
        return reshaped(x, declared[0].shape)
    axes = c.given(1, "axes")
    if axes is None:
        return composite.squeeze(x)
    gone = set(axes_of(axes, x.ndim))
    return reshaped(x, [d for i, d in enumerate(x.shape) if i not in gone])


@spell("Unsqueeze")
def unsqueeze(c: OnnxCall) -> Any:
    if (declared := c.declared_for_want_of(1)) is not None:
        return reshaped(c[0], declared[0].shape)
    return composite.unsqueeze(c[0], c.given(1, "axes"))


@spell("Expand")
def expand(c: OnnxCall) -> Any:
    x = c[0]
    if (declared := c.declared_for_want_of(1)) is not None:
        return expanded(x, declared[0].shape)
    shape = broadcast_shapes([x.shape, tuple(c.sizes(1))])
    return expanded(x, shape)


@spell("Tile")
def tile(c: OnnxCall) -> Any:
    x = c[0]
    if c.opset < 6:
        times = [1] * x.ndim
        times[int(c.number(2))] = int(c.number(1))
        return composite.tile(x, times)
    return composite.tile(x, c.sizes(1))


@spell("DepthToSpace")
def depth_to_space(c: OnnxCall) -> Any:
    x, block = c[0], c.attr("blocksize")
    n, channels, height, width = x.shape
    inner = floor_div(channels, block * block)
    if c.attr("mode", "DCR") == "DCR":
        apart, order = (n, block, block, inner, height, width), [0, 3, 4, 1, 5, 2]
    else:
        apart, order = (n, inner, block, block, height, width), [0, 1, 4, 2, 5, 3]
    return reshaped(permuted(reshaped(x, apart), order), (n, inner, height * block, width * block))


@spell("SpaceToDepth")
def space_to_depth(c: OnnxCall) -> Any:
    x, block = c[0], c.attr("blocksize")
    n, channels, height, width = x.shape
    h, w = floor_div(height, block), floor_div(width, block)
    apart = reshaped(x, (n, channels, h, block, w, block))
    order = [0, 3, 5, 1, 2, 4] if c.attr("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    return reshaped(permuted(apart, order), (n, channels * block * block, h, w))


@spell("Shape")
def shape(c: OnnxCall) -> Any:
    return c.of_sizes(np.array(c.type(0).shape[c.attr("start", 0) : c.attr("end")], object))


@spell("Size")
def size(c: OnnxCall) -> Any:
    return c.of_sizes(product(c.type(0).shape))


@spell("CenterCropPad")
def center_crop_pad(c: OnnxCall) -> Any:
    x, wanted = c[0], c.ints(1)
    axes = [axis_of(a, x.ndim) for a in c.attr("axes", list(range(x.ndim)))]
    for axis, size in zip(axes, wanted, strict=True):
        have: Dim = x.shape[axis]
        if not isinstance(have, int):
            raise NotKnown(f"CenterCropPad: axis {axis} has the size {have}")
        if have > size:
            x = composite.narrow(x, axis, (have - size) // 2, size)
        elif have < size:
            before = (size - have) // 2
            padding = [0] * (2 * x.ndim)
            padding[axis], padding[x.ndim + axis] = before, size - have - before
            x = x.apply("pad", padding=padding, value=0 if not x.dtype.is_float else 0.0)
    return x
