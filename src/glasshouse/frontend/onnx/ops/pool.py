"""How ONNX's pooling is spelled."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.ops.conv import ints, pads_of
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ops import composite
from glasshouse.ops.pieces import padded
from glasshouse.ops.shape import reshaped


def _window(c: OnnxCall) -> dict[str, Any]:
    kernel = list(c.attr("kernel_shape"))
    rank = len(kernel)
    stride, dilation = ints(c, "strides", rank), ints(c, "dilations", rank)
    padding = pads_of(c, c.type(0).shape[2:], kernel, stride, dilation)
    return {
        "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation,
        "ceil_mode": bool(c.attr("ceil_mode", 0)),
    }  # fmt: skip


@spell("MaxPool")
def max_pool(c: OnnxCall) -> Any:
    x, window = c[0], _window(c)
    y = x.apply("max_pool", **window)
    if c.outputs == 1:
        return y
    if c.attr("storage_order", 0):
        raise Unsupported("indices that count by columns")
    # ONNX counts through the whole tensor, the core within each channel.
    places = x.apply("max_pool_indices", **window)
    batch, channels = x.shape[:2]
    plane = composite.reshape(x, [batch, channels, -1]).shape[2]
    number = c.builder.apply("arange", stop=batch * channels)
    lead = reshaped(number, (batch, channels, *[1] * (x.ndim - 2)))
    return y, places + lead * c.full((), plane, places.dtype)


@spell("AveragePool")
def average_pool(c: OnnxCall) -> Any:
    x, window = c[0], _window(c)
    return x.apply("avg_pool", count_include_pad=bool(c.attr("count_include_pad", 0)), **window)


@spell("GlobalAveragePool")
def global_average_pool(c: OnnxCall) -> Any:
    return c[0].apply("mean", axes=list(range(2, c[0].ndim)), keepdims=True)


@spell("GlobalMaxPool")
def global_max_pool(c: OnnxCall) -> Any:
    return c[0].apply("max", axes=list(range(2, c[0].ndim)), keepdims=True)


@spell("GlobalLpPool")
def global_lp_pool(c: OnnxCall) -> Any:
    x = c[0]
    return composite.norm(x, float(c.attr("p", 2)), list(range(2, x.ndim)), keepdims=True)


@spell("LpPool")
def lp_pool(c: OnnxCall) -> Any:
    x, window, p = c[0], _window(c), c.attr("p", 2)
    if window["ceil_mode"]:
        raise Unsupported("LpPool with ceil_mode")
    rank = len(window["kernel"])
    pads = window.pop("padding")
    powers = abs(x) ** float(p)
    # Zeros around it count as elements: then a mean times the window's size is the sum.
    powers = padded(powers, [0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    total = powers.apply("avg_pool", padding=[0] * rank, **window) * float(
        math.prod(window["kernel"])
    )
    return total ** (1.0 / p)
