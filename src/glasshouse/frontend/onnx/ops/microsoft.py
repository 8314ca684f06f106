"""How the ops that ONNX Runtime's tools put into models (com.microsoft) are spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.ops.quant import scaled
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import float32, int32
from glasshouse.ops.shape import reshaped

_DOMAIN = "com.microsoft."


def _ms(*names: str) -> Any:
    return spell(*[_DOMAIN + name for name in names])


_ms("Gelu")(lambda c: c[0].apply("gelu"))
_ms("BiasGelu")(lambda c: (c[0] + c[1]).apply("gelu"))
_ms("QuickGelu")(lambda c: c[0] * (c[0] * c.attr("alpha", 1.702)).apply("sigmoid"))


@_ms("FastGelu")
def fast_gelu(c: OnnxCall) -> Any:
    x = c[0] + c[1] if c.has(1) else c[0]
    return x.apply("gelu", approximate="tanh")


@_ms("FusedMatMul")
def fused_matmul(c: OnnxCall) -> Any:
    out = c[0].apply(
        "matmul", c[1], transpose_x=bool(c.attr("transA", 0)),
        transpose_y=bool(c.attr("transB", 0)),
    )  # fmt: skip
    alpha = c.attr("alpha", 1.0)
    return out if alpha == 1 else out * alpha


@_ms("SkipLayerNormalization")
def skip_layer_norm(c: OnnxCall) -> Any:
    x = c[0] + c[1]
    if c.has(4):
        x = x + c[4]
    params = [c[i] for i in (2, 3) if c.has(i)]
    y = x.apply("layer_norm", *params, eps=c.attr("epsilon", 1e-12))
    return (y, None, None, x)[: c.outputs] if c.outputs > 1 else y


@_ms("SkipSimplifiedLayerNormalization")
def skip_rms_norm(c: OnnxCall) -> Any:
    x = c[0] + c[1]
    if c.has(3):
        x = x + c[3]
    y = x.apply("rms_norm", c[2], eps=c.attr("epsilon", 1e-12))
    return (y, None, None, x)[: c.outputs] if c.outputs > 1 else y


# -------------------------------------------------------------- real functions of quantised tensors
def _real(c: OnnxCall, place: int) -> Any:
    """Operand, scale and zero point at three places in a row, as a real tensor."""
    x = c[place]
    zero = c[place + 2] if c.has(place + 2) else c.full((), 0, x.dtype)
    return x.apply("dequantize", reshaped(c[place + 1], ()), reshaped(zero, ()), dtype=float32)


def _stored(c: OnnxCall, y: Any, place: int) -> Any:
    dtype = c.item(0).dtype
    zero = c[place + 1] if c.has(place + 1) else c.full((), 0, dtype)
    return y.apply("quantize", reshaped(c[place], ()), reshaped(zero, ()), dtype=dtype)


def _binary(op: str) -> Callable[[OnnxCall], Any]:
    return lambda c: _stored(c, _real(c, 0).apply(op, _real(c, 3)), 6)


def _unary(op: str) -> Callable[[OnnxCall], Any]:
    return lambda c: _stored(c, _real(c, 0).apply(op), 3)


_ms("QLinearAdd")(_binary("add"))
_ms("QLinearMul")(_binary("multiply"))
_ms("QLinearSigmoid")(_unary("sigmoid"))


@_ms("QLinearLeakyRelu")
def qlinear_leaky_relu(c: OnnxCall) -> Any:
    return _stored(c, _real(c, 0).apply("leaky_relu", slope=c.attr("alpha", 0.01)), 3)


@_ms("QLinearGlobalAveragePool")
def qlinear_global_average_pool(c: OnnxCall) -> Any:
    x = _real(c, 0)
    last = c.attr("channels_last", 0)
    axes = list(range(1, x.ndim - 1)) if last else list(range(2, x.ndim))
    return _stored(c, x.apply("mean", axes=axes, keepdims=True), 3)


@_ms("QLinearConcat")
def qlinear_concat(c: OnnxCall) -> Any:
    parts = [_real_at(c, i) for i in range(2, len(c), 3)]
    joined = parts[0].apply("concat", *parts[1:], axis=c.attr("axis", 1))
    return joined.apply("quantize", reshaped(c[0], ()), reshaped(c[1], ()), dtype=c.item(1).dtype)


def _real_at(c: OnnxCall, place: int) -> Any:
    return c[place].apply(
        "dequantize", reshaped(c[place + 1], ()), reshaped(c[place + 2], ()), dtype=float32
    )


@_ms("QGemm")
def qgemm(c: OnnxCall) -> Any:
    """A product of whole numbers; real where no scale for the result is given."""
    x, x_scale, x_zero, y, y_scale, y_zero = (c[i] for i in range(6))
    left = x.cast(int32) - reshaped(x_zero, ()).cast(int32)
    right = y.cast(int32)
    # One scale and zero point for the whole weight, or one for each column of the result.
    alone = y_scale.ndim == 0 or y_scale.shape == (1,)
    zero = reshaped(y_zero, ()) if alone else y_zero
    if not alone and c.attr("transB", 0):
        zero = reshaped(zero, (*zero.shape, 1))
    total = left.apply(
        "matmul", right - zero.cast(int32), transpose_x=bool(c.attr("transA", 0)),
        transpose_y=bool(c.attr("transB", 0)),
    )  # fmt: skip
    factor = reshaped(x_scale, ()) * (reshaped(y_scale, ()) if alone else y_scale)
    out = scaled(total, factor * c.attr("alpha", 1.0), c[6])
    if not c.has(7):
        return out
    stored = c.item(8).dtype if c.has(8) else c.item(0).dtype
    offset = reshaped(c[8], ()) if c.has(8) else c.full((), 0, stored)
    return out.apply("quantize", reshaped(c[7], ()), offset, dtype=stored)
