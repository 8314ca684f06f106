"""How ONNX's activation functions are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import core, spell
from glasshouse.ops import composite
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of

core(Relu="relu", Sigmoid="sigmoid", HardSwish="hardswish")

spell("LeakyRelu")(lambda c: c[0].apply("leaky_relu", slope=c.attr("alpha", 0.01)))
spell("Elu")(lambda c: c[0].apply("elu", alpha=c.attr("alpha", 1.0)))
spell("Gelu")(lambda c: c[0].apply("gelu", approximate=c.attr("approximate", "none")))
spell("Softsign")(lambda c: composite.softsign(c[0]))
spell("Mish")(lambda c: composite.mish(c[0]))
spell("Softplus")(lambda c: c[0].apply("softplus"))
spell("Celu")(lambda c: composite.celu(c[0], c.attr("alpha", 1.0)))


@spell("Selu")
def selu(c: OnnxCall) -> Any:
    alpha, gamma = c.attr("alpha", 1.67326319217681884765625), c.attr("gamma", 1.05070102214813232)
    return c[0].apply("elu", alpha=alpha) * gamma


@spell("HardSigmoid")
def hard_sigmoid(c: OnnxCall) -> Any:
    slope, shift = c.attr("alpha", 0.2), c.attr("beta", 0.5)
    return (c[0] * slope + shift).apply("clip", low=0.0, high=1.0)


@spell("ThresholdedRelu")
def thresholded_relu(c: OnnxCall) -> Any:
    return composite.threshold(c[0], c.attr("alpha", 1.0), 0.0)


@spell("Shrink")
def shrink(c: OnnxCall) -> Any:
    x, limit, bias = c[0], c.attr("lambd", 0.5), c.attr("bias", 0.0)
    wide = x if x.dtype.is_float else x.cast("float32")
    inner = (wide > limit).apply("where", wide - bias, 0.0)
    return (wide < -limit).apply("where", wide + bias, inner).cast(x.dtype)


@spell("Swish")
def swish(c: OnnxCall) -> Any:
    x, alpha = c[0], c.attr("alpha", 1.0)
    return x.apply("silu") if alpha == 1 else x * (x * alpha).apply("sigmoid")


@spell("PRelu")
def prelu(c: OnnxCall) -> Any:
    x, slope = c[0], c[1]
    if c.opset < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = reshaped(slope, (*slope.shape, *[1] * (x.ndim - 2)))
    return (x < 0).apply("where", x * slope, x)


# ----------------------------------------------------------------------------------- along an axis
def _softmax(c: OnnxCall, op: str) -> Any:
    x = c[0]
    if c.opset >= 13:
        return x.apply(op, axis=c.attr("axis", -1))
    # Until opset 12 all axes from `axis` on are one.
    axis = axis_of(c.attr("axis", 1), x.ndim)
    if axis == x.ndim - 1 or x.ndim == 0:
        return x.apply(op, axis=-1)
    flat = composite.flatten(x, axis, -1)
    return reshaped(flat.apply(op, axis=-1), x.shape)


spell("Softmax")(lambda c: _softmax(c, "softmax"))
spell("LogSoftmax")(lambda c: _softmax(c, "log_softmax"))


@spell("Hardmax")
def hardmax(c: OnnxCall) -> Any:
    x = c[0]
    axis = axis_of(c.attr("axis", -1 if c.opset >= 13 else 1), x.ndim)
    flat = x if c.opset >= 13 else composite.flatten(x, axis, -1)
    at = axis if c.opset >= 13 else flat.ndim - 1
    hot = flat.apply("argmax", axis=at).apply("one_hot", depth=flat.shape[at], dtype=x.dtype)
    return reshaped(composite.moveaxis(hot, -1, at), x.shape)
