"""How ONNX's convolutions are spelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dim import Dim
from glasshouse.ops.pieces import cut
from glasshouse.ops.shape import reshaped


def pads_of(
    c: OnnxCall, sizes: Sequence[Dim], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:  # fmt: skip
    """All begins, then all ends."""
    rank = len(kernel)
    auto = c.attr("auto_pad", "NOTSET")
    if auto == "NOTSET" or not auto:
        return list(c.attr("pads") or [0] * (2 * rank))
    if auto == "VALID":
        return [0] * (2 * rank)
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        if not isinstance(size, int):
            if s != 1:
                raise Unsupported(f"auto_pad {auto} with the size {size} and stride {s}")
            total = (k - 1) * d
        else:
            total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return begins + ends


def ints(c: OnnxCall, name: str, rank: int, default: int = 1) -> list[int]:
    return list(c.attr(name) or [default] * rank)


def with_bias(y: Any, bias: Any, rank: int) -> Any:
    return y if bias is None else y + reshaped(bias, (*bias.shape, *[1] * rank))


def convolved(c: OnnxCall, x: Any, w: Any) -> Any:
    rank = x.ndim - 2
    kernel = [k for k in w.shape[2:] if isinstance(k, int)]
    if len(kernel) != rank:
        raise Unsupported("a kernel whose size is not known")
    stride, dilation = ints(c, "strides", rank), ints(c, "dilations", rank)
    return x.apply(
        "conv", w, stride=stride, dilation=dilation, groups=c.attr("group", 1),
        padding=pads_of(c, x.shape[2:], kernel, stride, dilation),
    )  # fmt: skip


@spell("Conv")
def conv(c: OnnxCall) -> Any:
    return with_bias(convolved(c, c[0], c[1]), c[2], c[0].ndim - 2)


@spell("ConvTranspose")
def conv_transpose(c: OnnxCall) -> Any:
    x, w = c[0], c[1]
    rank = x.ndim - 2
    kernel = [k for k in w.shape[2:] if isinstance(k, int)]
    if len(kernel) != rank:
        raise Unsupported("a kernel whose size is not known")
    stride, dilation = ints(c, "strides", rank), ints(c, "dilations", rank)
    more = ints(c, "output_padding", rank, 0)
    begins, ends = _transposed_pads(c, x.shape[2:], kernel, stride, dilation, more)
    # What pads take away at the ends is cut off here: more than the kernel's reach may go.
    room = [m + max(0, -e) for m, e in zip(more, ends, strict=True)]
    y = x.apply(
        "conv_transpose", w, stride=stride, dilation=dilation, groups=c.attr("group", 1),
        padding=[0] * rank, output_padding=room,
    )  # fmt: skip
    for i in range(rank):
        y = cut(y, 2 + i, begins[i], y.shape[2 + i] - max(0, ends[i]))
    return with_bias(y, c[2], rank)


def _transposed_pads(
    c: OnnxCall, sizes: Sequence[Dim], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int], more: Sequence[int],
) -> tuple[list[int], list[int]]:  # fmt: skip
    rank = len(kernel)
    auto, shape = c.attr("auto_pad", "NOTSET"), c.attr("output_shape")
    if shape is None and auto in ("NOTSET", "VALID", ""):
        pads = c.attr("pads") or [0] * (2 * rank)
        return list(pads[:rank]), list(pads[rank:])
    begins, ends = [], []
    wanted = shape[-rank:] if shape is not None else None
    for i, size in enumerate(sizes):
        if not isinstance(size, int):
            raise Unsupported(f"auto_pad {auto} with the size {size}")
        goal = wanted[i] if wanted is not None else size * stride[i]
        whole = stride[i] * (size - 1) + more[i] + (kernel[i] - 1) * dilation[i] + 1
        total = max(0, whole - goal)
        small, large = total // 2, total - total // 2
        upper = auto == "SAME_UPPER"
        begins.append(small if upper else large)
        ends.append((large if upper else small) if whole >= goal else whole - goal)
    return begins, ends
