"""How ONNX's normalisations are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import float32
from glasshouse.ops import composite
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of


@spell("BatchNormalization")
def batch_norm(c: OnnxCall) -> Any:
    x, scale, bias, mean, var = (c[i] for i in range(5))
    eps, momentum = c.attr("epsilon", 1e-5), c.attr("momentum", 0.9)
    if c.opset < 9 and not c.attr("spatial", 1):
        raise Unsupported("statistics for each element")
    training = c.attr("training_mode", 0) if c.opset >= 14 else c.outputs > 1
    if not training:
        stats = [v.cast(x.dtype) for v in (mean, var, scale, bias)]
        return x.apply("batch_norm", *stats, eps=eps)
    y, batch_mean, batch_var = x.apply("batch_norm_training", scale, bias, eps=eps)
    if c.opset < 14:
        raise Unsupported("batch normalisation in training before opset 14")
    moved = [
        old * momentum + new * (1.0 - momentum)
        for old, new in ((mean, batch_mean), (var, batch_var))
    ]
    return y, *moved


@spell("InstanceNormalization")
def instance_norm(c: OnnxCall) -> Any:
    return composite.instance_norm(c[0], c[1], c[2], c.attr("epsilon", 1e-5))


@spell("LayerNormalization")
def layer_norm(c: OnnxCall) -> Any:
    x = c[0]
    axis = axis_of(c.attr("axis", -1), x.ndim)
    eps = c.attr("epsilon", 1e-5)
    wanted = x.shape[axis:]
    params = [c[i] for i in range(1, len(c)) if c.has(i)]
    if c.outputs == 1 and all(p.shape == wanted for p in params):
        return x.apply("layer_norm", *params, axis=axis, eps=eps)
    axes = list(range(axis, x.ndim))
    wide = x.cast(float32) if x.dtype.bits < 32 else x
    mean = wide.apply("mean", axes=axes, keepdims=True)
    var = wide.apply("variance", axes=axes, keepdims=True, correction=0)
    inverse = (var + eps).apply("rsqrt")
    y = ((wide - mean) * inverse).cast(x.dtype)
    for param, op in zip(params, ("multiply", "add"), strict=False):
        y = y.apply(op, param)
    return (y, mean, inverse)[: c.outputs]


@spell("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(c: OnnxCall) -> Any:
    x, weight = c[0], c[1]
    axis = axis_of(c.attr("axis", -1), x.ndim)
    eps = c.attr("epsilon", 1e-5)
    if weight.shape == x.shape[axis:] and weight.dtype is x.dtype:
        return x.apply("rms_norm", weight, axis=axis, eps=eps)
    y = x.apply("rms_norm", axis=axis, eps=eps)
    return y.apply("multiply", weight.cast(y.dtype))


@spell("GroupNormalization")
def group_norm(c: OnnxCall) -> Any:
    x, scale, bias = c[0], c[1], c[2]
    groups, eps = c.attr("num_groups"), c.attr("epsilon", 1e-5)
    if c.opset >= 21 or scale.shape == (x.shape[1],):
        return x.apply("group_norm", scale, bias, groups=groups, eps=eps)
    # Until opset 20 there was one scale for each group.
    y = x.apply("group_norm", groups=groups, eps=eps)
    each = x.shape[1] // groups
    tail = [1] * (x.ndim - 2)
    for param, op in ((scale, "multiply"), (bias, "add")):
        y = y.apply(op, reshaped(composite.repeat_interleave(param, each), (x.shape[1], *tail)))
    return y


@spell("LRN")
def lrn(c: OnnxCall) -> Any:
    x, size = c[0], c.attr("size")
    alpha, beta, bias = c.attr("alpha", 0.0001), c.attr("beta", 0.75), c.attr("bias", 1.0)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    channels = x.shape[1]
    padding = [0] * (2 * x.ndim)
    padding[1], padding[x.ndim + 1] = before, after
    squares = (x * x).apply("pad", padding=padding)
    total = composite.narrow(squares, 1, 0, channels)
    for i in range(1, size):
        total = total + composite.narrow(squares, 1, i, channels)
    return x / (total * (alpha / size) + bias) ** beta


@spell("LpNormalization")
def lp_norm(c: OnnxCall) -> Any:
    x, axis = c[0], c.attr("axis", -1)
    size = composite.norm(x, float(c.attr("p", 2)), axis, keepdims=True)
    zero = size.apply("equal", 0.0)
    return zero.apply("where", 0.0, x / zero.apply("where", 1.0, size))


@spell("MeanVarianceNormalization")
def mean_variance(c: OnnxCall) -> Any:
    x, axes = c[0], c.attr("axes", [0, 2, 3])
    apart = x - x.apply("mean", axes=axes, keepdims=True)
    spread = (apart * apart).apply("mean", axes=axes, keepdims=True).apply("sqrt")
    return apart / (spread + 1e-9)
