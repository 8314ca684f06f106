"""How ATen's normalisations are spelled, and what they leave in running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Context, aten
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import float32, uint8
from glasshouse.ops import composite
from glasshouse.ops.create import full_near
from glasshouse.ops.reduce import shared
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axis_of


def _or_full(near: Any, given: Any, size: Any, value: float, dtype: Any) -> Any:
    return full_near(near, (size,), value, dtype) if given is None else given


def _wide(x: Any) -> Any:
    """The type in which statistics are kept: float32 for half types."""
    return float32 if x.dtype.bits < 32 else x.dtype


@aten("batch_norm", "_batch_norm_impl_index", "cudnn_batch_norm", context=True)
def batch_norm(
    ctx: Context, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
    momentum: float, eps: float, *_: Any,
) -> Any:  # fmt: skip
    return _batch_norm(ctx, x, weight, bias, mean, var, training, momentum, eps)[0]


def _batch_norm(
    ctx: Context | None, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The output, and the mean and biased variance that it was normalised with."""
    if x.ndim < 2:
        raise Unsupported("batch norm of a vector")
    dtype = weight.dtype if weight is not None else x.dtype
    channels = x.shape[1]
    weight = _or_full(x, weight, channels, 1.0, dtype)
    bias = _or_full(x, bias, channels, 0.0, dtype)
    if not training:
        return x.apply("batch_norm", mean, var, weight, bias, eps=eps).cast(x.dtype), mean, var
    y, batch_mean, batch_var = x.apply("batch_norm_training", weight, bias, eps=eps)
    if ctx is not None and mean is not None:
        count = tuple(d for i, d in enumerate(x.shape) if i != 1)
        # n / (n - 1): running variances are unbiased.
        unbiased = shared(batch_var * _size(batch_var, count), count, 1)
        ctx.write(3, mean * (1.0 - momentum) + batch_mean.cast(mean.dtype) * momentum)
        ctx.write(4, var * (1.0 - momentum) + unbiased.cast(var.dtype) * momentum)
    return y.cast(x.dtype), batch_mean, batch_var


def _size(near: Any, dims: tuple[Any, ...]) -> Any:
    size = product(dims)
    return float(size) if isinstance(size, int) else full_near(near, (), size, near.dtype)


def _saved(mean: Any, var: Any, eps: float) -> tuple[Any, Any]:
    return mean, (var + eps).apply("rsqrt")


@aten("native_batch_norm", "_native_batch_norm_legit", context=True)
def native_batch_norm(
    ctx: Context, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    y, m, v = _batch_norm(ctx, x, weight, bias, mean, var, training, momentum, eps)
    if not training:
        empty = full_near(x, (0,), 0.0, m.dtype)
        return y, empty, empty
    return (y, *_saved(m, v, eps))


@aten("_batch_norm_with_update", context=True)
def batch_norm_with_update(
    ctx: Context, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    y, m, v = _batch_norm(ctx, x, weight, bias, mean, var, True, momentum, eps)
    return (y, *_saved(m, v, eps), full_near(x, (0,), 0, uint8))


@aten("_native_batch_norm_legit.no_stats")
def native_batch_norm_no_stats(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    y, m, v = _batch_norm(None, x, weight, bias, None, None, training, momentum, eps)
    return (y, *_saved(m, v, eps))


@aten("_native_batch_norm_legit_no_training")
def native_batch_norm_no_training(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    y, m, _ = _batch_norm(None, x, weight, bias, mean, var, False, momentum, eps)
    empty = full_near(x, (0,), 0.0, m.dtype)
    return y, empty, empty


@aten("_native_batch_norm_legit_functional")
def native_batch_norm_functional(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Gives the new running statistics in the place of writing them."""
    new: dict[int, Any] = {3: mean, 4: var}
    ctx = Context(x.builder, lambda number, value: new.update({number: value}), None)
    y, m, v = _batch_norm(ctx, x, weight, bias, mean, var, training, momentum, eps)
    saved = _saved(m, v, eps) if training else (full_near(x, (0,), 0.0, m.dtype),) * 2
    return y, *saved, new[3], new[4]


@aten("layer_norm")
def layer_norm(
    x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    axis = x.ndim - len(shape)
    if weight is None and bias is not None:
        return x.apply("layer_norm", axis=axis, eps=eps) + bias
    return x.apply("layer_norm", weight, bias, axis=axis, eps=eps)


@aten("native_layer_norm")
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = list(range(x.ndim - len(shape), x.ndim))
    wide = x.cast(_wide(x))
    mean = wide.apply("mean", axes=axes, keepdims=True)
    var = wide.apply("variance", axes=axes, keepdims=True, correction=0)
    return layer_norm(x, shape, weight, bias, eps), mean, (var + eps).apply("rsqrt")


@aten("rms_norm")
def rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    return x.apply("rms_norm", weight, axis=x.ndim - len(shape), eps=_rms_eps(x, eps))


@aten("_fused_rms_norm")
def fused_rms_norm(x: Any, shape: Any, weight: Any, eps: float | None) -> Any:
    axes = list(range(x.ndim - len(shape), x.ndim))
    wide = x.cast(_wide(x))
    mean = (wide * wide).apply("mean", axes=axes, keepdims=True)
    return rms_norm(x, shape, weight, eps), (mean + _rms_eps(x, eps)).apply("rsqrt")


def _rms_eps(x: Any, eps: float | None) -> float:
    """Where none is given it is that of the type that squares are added up in: half floats have
    float32's, which is what PyTorch's kernels do, not 1e-3 or 8e-3 of their own."""
    return float(np.finfo(_wide(x).name).eps) if eps is None else eps


@aten("group_norm")
def group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    if weight is None and bias is not None:
        out = x.apply("group_norm", groups=groups, eps=eps)
        return out + reshaped(bias, (x.shape[1], *[1] * (x.ndim - 2)))
    return x.apply("group_norm", weight, bias, groups=groups, eps=eps)


@aten("native_group_norm")
def native_group_norm(
    x: Any, weight: Any, bias: Any, n: Any, channels: Any, area: Any, groups: int, eps: float
) -> Any:
    apart = composite.reshape(x, [n, groups, -1])
    mean = apart.apply("mean", axes=[2])
    var = apart.apply("variance", axes=[2], correction=0)
    return group_norm(x, groups, weight, bias, eps), mean, (var + eps).apply("rsqrt")


@aten("instance_norm", context=True)
def instance_norm(
    ctx: Context, x: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool,
    momentum: float, eps: float, *_: Any,
) -> Any:  # fmt: skip
    if not use_input_stats:
        return _batch_norm(None, x, weight, bias, mean, var, False, momentum, eps)[0]
    if mean is not None:
        axes = list(range(2, x.ndim))
        for number, held, op in ((3, mean, "mean"), (4, var, "variance")):
            found = x.apply(op, axes=axes).apply("mean", axes=[0])
            ctx.write(number, held * (1.0 - momentum) + found.cast(held.dtype) * momentum)
    return composite.instance_norm(x, weight, bias, eps)


@aten("_weight_norm", "_weight_norm_interface")
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    axes = [a for a in range(v.ndim) if a != axis_of(dim, v.ndim)]
    return v * (g / (v * v).apply("sum", axes=axes, keepdims=True).apply("sqrt"))


@aten("_weight_norm_interface_backward")
def weight_norm_backward(gw: Any, v: Any, g: Any, norms: Any, dim: int) -> tuple[Any, Any]:
    """The gradients of a weight's direction and of its lengths."""
    axes = [a for a in range(v.ndim) if a != axis_of(dim, v.ndim)]
    along = (gw * v).apply("sum", axes=axes, keepdims=True) / norms
    return (gw - v * (along / norms)) * (g / norms), along


@aten("local_response_norm")
def local_response_norm(x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    square = composite.unsqueeze(x * x, 1)
    before, after = size // 2, (size - 1) // 2
    padded = composite.pad_last(square, [0, 0] * (x.ndim - 2) + [before, after])
    total = composite.unfold(padded, 2, size, 1).apply("mean", axes=[-1])
    return x / (composite.squeeze(total, 1) * alpha + k) ** beta
