"""Convolution, its transpose, and the gradient by its weight: 1 to 3 spatial axes.

The three are each other's gradients, so gradients of any order stay within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import DIMS, INT
from glasshouse.ir.dim import Dim, bounds, floor_div
from glasshouse.ir.graph import Node
from glasshouse.ir.op import Kind, Operands
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.conv_ref import conv_ref, conv_transpose_ref, conv_weight_grad_ref
from glasshouse.ops.declare import op
from glasshouse.ops.pieces import cut
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import require_equal
from glasshouse.ops.window import DILATION, PADDING, STRIDE, Window, spread, window_of

_CONV: dict[str, Any] = {
    "kind": Kind.CONTRACTION, "family": "conv", "operands": Operands.COMMON,
    "stride": STRIDE, "padding": PADDING, "dilation": DILATION, "groups": INT(1),
}  # fmt: skip


def _check(x: TensorType, other: TensorType, what: str, groups: int) -> None:
    if x.dtype is not other.dtype:
        raise TypeMismatch(f"operands have different element types: {x.dtype}, {other.dtype}")
    if not 3 <= x.rank <= 5 or other.rank != x.rank:
        raise ShapeError(f"x and the {what} need the same 3 to 5 dimensions (1 to 3 spatial axes)")
    if groups < 1:
        raise ShapeError(f"groups {groups} is not positive")


def _share(channels: Dim, groups: int, what: str) -> Dim:
    each = floor_div(channels, groups)
    if isinstance(each * groups - channels, int) and each * groups != channels:
        raise ShapeError(f"{channels} {what} channels do not divide into {groups} groups")
    return each


# -------------------------------------------------------------------------------------------- conv
def _conv(
    x: TensorType, w: TensorType, *, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> TensorType:  # fmt: skip
    _check(x, w, "weight", groups)
    what = f"the weight's input channels, with {groups} groups, differ from the input's"
    require_equal(_share(x.shape[1], groups, "input"), w.shape[1], what)
    _share(w.shape[0], groups, "output")
    window = window_of(w.shape[2:], stride, padding, dilation)
    return tensor_type(x.dtype, (x.shape[0], w.shape[0], *window.outputs(x.shape[2:])))


def _conv_vjp(g: Any, x: Any, w: Any, y: Any, **attrs: Any) -> tuple[Any, Any]:
    window = _window(w.shape[2:], attrs)
    by_weight = conv_weight_grad(x, g, kernel=w.shape[2:], **attrs)
    return _input_gradient(g, x, w, window, attrs["groups"]), reshaped(by_weight, w.shape)


def _window(kernel: Sequence[Dim], attrs: dict[str, Any]) -> Window:
    return window_of(kernel, attrs["stride"], attrs["padding"], attrs["dilation"])


def _input_gradient(g: Any, x: Any, w: Any, window: Window, groups: int) -> Any:
    """The transposed convolution of g that has exactly the sizes of x."""
    missing = [
        x.shape[2 + i] - ((g.shape[2 + i] - 1) * window.stride[i] + window.extent(i))
        + window.begins[i] + window.ends[i]
        for i in range(len(window.kernel))
    ]  # fmt: skip
    grad = conv_transpose(
        g, w, stride=window.stride, padding=window.padding, output_padding=missing,
        dilation=window.dilation, groups=groups,
    )  # fmt: skip
    return reshaped(grad, x.shape)


conv = op(
    "conv", image=True,
    **_CONV, infer=_conv, ref=conv_ref, vjp=_conv_vjp, inputs=("x", "w"),
    doc="Convolution (the kernel is not flipped) of x [batch, channels, spatial...] with w [out, "
    "channels / groups, kernel...]. float16 and bfloat16 are summed in float32.",
)  # fmt: skip


# ---------------------------------------------------------------------------------- conv_transpose
def _conv_transpose(
    x: TensorType, w: TensorType, *, stride: Sequence[int], padding: Sequence[int],
    output_padding: Sequence[Dim], dilation: Sequence[int], groups: int,
) -> TensorType:  # fmt: skip
    _check(x, w, "weight", groups)
    require_equal(x.shape[1], w.shape[0], "the weight's input channels differ from the input's")
    _share(x.shape[1], groups, "input")
    window = window_of(w.shape[2:], stride, padding, dilation)
    more = spread(output_padding, x.rank - 2, 0, "output_padding")
    sizes: list[Dim] = []
    for i, size in enumerate(x.shape[2:]):
        if bounds(more[i])[1] < 0:
            raise ShapeError(f"output_padding {more[i]} is negative")
        full = (size - 1) * window.stride[i] + window.extent(i) + more[i]
        sizes.append(full - window.begins[i] - window.ends[i])
        if bounds(sizes[-1])[1] < 0:
            raise ShapeError(f"spatial axis {i} would have the size {sizes[-1]}")
    return tensor_type(x.dtype, (x.shape[0], w.shape[1] * groups, *sizes))


def _conv_transpose_vjp(
    g: Any, x: Any, w: Any, y: Any, *, output_padding: Sequence[Dim], **attrs: Any
) -> tuple[Any, Any]:
    grad = conv_weight_grad(g, x, kernel=w.shape[2:], **attrs)
    return _fitted(conv(g, w, **attrs), x), reshaped(grad, w.shape)


def _fitted(y: Any, like: Any) -> Any:
    """Without the windows at the end that an output_padding beyond the stride makes room for."""
    for axis in range(2, like.ndim):
        y = cut(y, axis, 0, like.shape[axis])
    return reshaped(y, like.shape)


conv_transpose = op(
    "conv_transpose", image=True,
    **_CONV, infer=_conv_transpose, ref=conv_transpose_ref,
    vjp=_conv_transpose_vjp, inputs=("x", "w"),
    doc="The transpose of conv, which is its gradient by the input: w is [channels, out / groups, "
    "kernel...]; output_padding adds to the ends of the output.",
    output_padding=DIMS((), "one number, or one for each spatial axis; 0 when empty"),
)  # fmt: skip


def taps_are_apart(node: Node) -> bool:
    """Whether no two taps of a transposed convolution meet in a pixel, and none is cut off: windows
    as large as their strides, or a single one."""
    if node.op is not conv_transpose or node.attrs["groups"] != 1:
        return False
    x, w = (v.type for v in node.inputs)
    window = window_of(
        w.shape[2:], node.attrs["stride"], node.attrs["padding"], node.attrs["dilation"]
    )
    axes = zip(
        x.shape[2:], node.output.type.shape[2:], window.kernel, window.stride, window.begins,
        window.dilation, strict=True,
    )  # fmt: skip
    return all(
        begin == 0 and dilation == 1 and made == size * k and (k == step or size == 1)
        for size, made, k, step, begin, dilation in axes
    )


# -------------------------------------------------------------------------------- conv_weight_grad
def _conv_weight_grad(
    x: TensorType, g: TensorType, *, kernel: Sequence[Dim], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], groups: int,
) -> TensorType:  # fmt: skip
    _check(x, g, "gradient", groups)
    if len(kernel) != x.rank - 2:
        raise ShapeError(f"kernel {list(kernel)} for {x.rank - 2} spatial axes")
    require_equal(x.shape[0], g.shape[0], "the batches differ")
    window = window_of(kernel, stride, padding, dilation)
    for i, (fits, given) in enumerate(zip(window.outputs(x.shape[2:]), g.shape[2:], strict=True)):
        if bounds(fits - given)[1] < 0:
            raise ShapeError(f"{given} windows at spatial axis {i}, where {fits} fit")
    _share(g.shape[1], groups, "output")
    return tensor_type(x.dtype, (g.shape[1], _share(x.shape[1], groups, "input"), *kernel))


def _conv_weight_grad_vjp(
    h: Any, x: Any, g: Any, y: Any, *, kernel: Sequence[Dim], **attrs: Any
) -> tuple[Any, Any]:
    window = _window(kernel, attrs)
    return _input_gradient(g, x, h, window, attrs["groups"]), _fitted(conv(x, h, **attrs), g)


conv_weight_grad = op(
    "conv_weight_grad", **_CONV, infer=_conv_weight_grad, ref=conv_weight_grad_ref,
    vjp=_conv_weight_grad_vjp, inputs=("x", "g"),
    doc="The gradient of conv by its weight: every window of x times the gradient g at its place.",
    kernel=DIMS,
)  # fmt: skip
