"""Means, variance, softmax and the norms as folds and elementwise arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.ir.dim import Dim, SymDim, bounds, floor_div, product, remainder
from glasshouse.ir.dtype import DType, float32, float64, int64
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import REGISTRY, Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.access import VIEWS
from glasshouse.ops.shapes import axes_of, axis_of

Expansion = Callable[..., Any]
"""Takes the rewriter, a node and, where its name is in `CENTRED`, how means are summed up."""


def widened(x: Any) -> Any:
    """Folds of half floats are computed in float32."""
    return x if x.dtype in (float32, float64) else x.cast(float32)


def _count(rw: Rewriter, shape: tuple[Dim, ...], axes: tuple[int, ...], dtype: DType) -> Any:
    """How many elements a fold takes in, as a number or, when it is symbolic, as one of the run."""
    number = product(tuple(shape[a] for a in axes))
    if not isinstance(number, SymDim):
        return float(number)
    node = REGISTRY["full"].emit(rw, [], {"shape": (), "value": number, "dtype": int64})
    return rw.wrap(node.outputs[0]).cast(dtype)


def _mean(rw: Rewriter, node: Node) -> Any:
    x = rw.expr(node.inputs[0])
    axes = axes_of(node.attrs["axes"], x.ndim)
    wide = widened(x)
    total = wide.apply("sum", axes=axes, keepdims=node.attrs["keepdims"])
    return (total / _count(rw, x.shape, axes, wide.dtype)).cast(node.output.type.dtype)


def _centre(rw: Rewriter, x: Any, axes: tuple[int, ...], shifted: bool) -> Any:
    """The mean over `axes`, which are kept.

    `shifted`: of differences from the first element, so that rows of equal elements have exactly
    that element as their mean. Else a rounding error of the mean is all there is to such a row, and
    a norm divides it by the square root of epsilon: 768 elements of 1003 became 0.2 instead of 0.
    """
    count = _count(rw, x.shape, axes, x.dtype)
    if not shifted or not _is_cheap(x.value) or any(bounds(x.shape[a])[0] < 1 for a in axes):
        return x.apply("sum", axes=axes, keepdims=True) / count
    ends = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    first = x.apply("slice", starts=(0,) * x.ndim, ends=ends)
    return first + (x - first).apply("sum", axes=axes, keepdims=True) / count


def _is_cheap(value: Value) -> bool:
    """Whether one element costs next to nothing to compute again beside each vector of a loop."""
    pending = [value]
    for _ in range(_MOST_OPS):
        if not pending:
            return True
        node = pending.pop().node
        if node.op.kind is not Kind.SOURCE:
            if node.op.name not in _CHEAP:
                return False
            pending += node.inputs
    return not pending


_MOST_OPS = 6
_CHEAP = {"add", "subtract", "multiply", "negative", "cast", *VIEWS}


def _moments(rw: Rewriter, x: Any, axes: tuple[int, ...], shifted: bool) -> tuple[Any, Any]:
    """x minus its mean, and the sum of its squares; both over `axes`, which are kept."""
    centred = x - _centre(rw, x, axes, shifted)
    return centred, (centred * centred).apply("sum", axes=axes, keepdims=True)


def _variance(rw: Rewriter, node: Node, shifted: bool) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    axes = axes_of(node.attrs["axes"], x.ndim)
    _, squares = _moments(rw, x, axes, shifted)
    free = _count(rw, x.shape, axes, x.dtype) - float(node.attrs["correction"])
    free = max(free, 0.0) if isinstance(free, float) else free.apply("maximum", 0.0)
    out = squares / free
    if out.shape != node.output.type.shape:
        out = out.apply("reshape", shape=node.output.type.shape)
    return out.cast(node.output.type.dtype)


def _softmax(rw: Rewriter, node: Node) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    axis = [axis_of(node.attrs["axis"], x.ndim)] if x.ndim else []
    shifted = x - x.apply("max", axes=axis, keepdims=True)
    powers = shifted.apply("exp")
    total = powers.apply("sum", axes=axis, keepdims=True)
    out = shifted - total.apply("log") if node.op.name == "log_softmax" else powers / total
    return out.cast(node.output.type.dtype)


def _layer_norm(rw: Rewriter, node: Node, shifted: bool) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    axes = tuple(range(axis_of(node.attrs["axis"], x.ndim), x.ndim))
    centred, squares = _moments(rw, x, axes, shifted)
    variance = squares / _count(rw, x.shape, axes, x.dtype)
    out = centred * (variance + node.attrs["eps"]).apply("rsqrt")
    return _affine(rw, out, node)


def _layer_norm_grad(rw: Rewriter, node: Node, shifted: bool) -> Any:
    g, x, *weight = (widened(rw.expr(v)) for v in node.inputs)
    axes = tuple(range(axis_of(node.attrs["axis"], x.ndim), x.ndim))
    count = _count(rw, x.shape, axes, x.dtype)
    centred, squares = _moments(rw, x, axes, shifted)
    r = (squares / count + node.attrs["eps"]).apply("rsqrt")
    hat = centred * r
    h = g * weight[0] if weight else g
    mean, along = (v.apply("sum", axes=axes, keepdims=True) / count for v in (h, h * hat))
    return (r * (h - mean - hat * along)).cast(node.output.type.dtype)


def _layer_norm_weight_grad(rw: Rewriter, node: Node, shifted: bool) -> Any:
    g, x = (widened(rw.expr(v)) for v in node.inputs)
    first = axis_of(node.attrs["axis"], x.ndim)
    axes, before = tuple(range(first, x.ndim)), tuple(range(first))
    centred, squares = _moments(rw, x, axes, shifted)
    variance = squares / _count(rw, x.shape, axes, x.dtype)
    hat = centred * (variance + node.attrs["eps"]).apply("rsqrt")
    # Behind an axis of 1, so that there is always a sum: an output must not be an operand.
    rows = [v.apply("reshape", shape=(1, *v.shape)) for v in (g * hat, g)]
    made = [v.apply("sum", axes=(0, *(a + 1 for a in before))) for v in rows]
    return [v.cast(o.type.dtype) for v, o in zip(made, node.outputs, strict=True)]


def _rms_norm(rw: Rewriter, node: Node) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    axes = tuple(range(axis_of(node.attrs["axis"], x.ndim), x.ndim))
    squares = (x * x).apply("sum", axes=axes, keepdims=True)
    out = x * (squares / _count(rw, x.shape, axes, x.dtype) + node.attrs["eps"]).apply("rsqrt")
    return _affine(rw, out, node)


def _affine(rw: Rewriter, out: Any, node: Node) -> Any:
    if len(node.inputs) > 1:
        out = out * rw.expr(node.inputs[1]).cast(out.dtype)
    if len(node.inputs) > 2:
        out = out + rw.expr(node.inputs[2]).cast(out.dtype)
    return out.cast(node.output.type.dtype)


def _channels(x: Any, like: Any) -> Any:
    """A vector by channel, shaped so that it broadcasts against N C spatial..."""
    return x.apply("reshape", shape=(like.shape[1],) + (1,) * (like.ndim - 2)).cast(like.dtype)


def _group_norm(rw: Rewriter, node: Node, shifted: bool) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    groups = node.attrs["groups"]
    split = x.apply("reshape", shape=(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    axes = tuple(range(2, split.ndim))
    centred, squares = _moments(rw, split, axes, shifted)
    variance = squares / _count(rw, split.shape, axes, x.dtype)
    out = (centred * (variance + node.attrs["eps"]).apply("rsqrt")).apply("reshape", shape=x.shape)
    if len(node.inputs) > 1:
        out = out * _channels(rw.expr(node.inputs[1]), x)
    if len(node.inputs) > 2:
        out = out + _channels(rw.expr(node.inputs[2]), x)
    return out.cast(node.output.type.dtype)


def _batch_norm(rw: Rewriter, node: Node) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    mean, var, weight, bias = (_channels(rw.expr(v), x) for v in node.inputs[1:])
    scale = weight * (var + node.attrs["eps"]).apply("rsqrt")
    return ((x - mean) * scale + bias).cast(node.output.type.dtype)


def has_even_parts(node: Node) -> bool:
    """Whether the parts of an adaptive pool are windows of one size, or all there is."""
    pairs = list(zip(node.inputs[0].type.shape[2:], node.attrs["size"], strict=True))
    return all(want == 1 for _, want in pairs) or all(remainder(a, b) == 0 for a, b in pairs)


def _adaptive_avg_pool(rw: Rewriter, node: Node) -> Any:
    x = rw.expr(node.inputs[0])
    size = node.attrs["size"]
    if all(d == 1 for d in size):
        return x.apply("mean", axes=tuple(range(2, x.ndim)), keepdims=True)
    kernel = [floor_div(have, want) for have, want in zip(x.shape[2:], size, strict=True)]
    return x.apply("avg_pool", kernel=kernel)


def _batch_norm_training(rw: Rewriter, node: Node) -> Any:
    x = widened(rw.expr(node.inputs[0]))
    weight, bias = (_channels(rw.expr(v), x) for v in node.inputs[1:])
    axes = (0, *range(2, x.ndim))
    count = _count(rw, x.shape, axes, x.dtype)
    mean = x.apply("sum", axes=axes, keepdims=True) / count
    centred = x - mean
    var = (centred * centred).apply("sum", axes=axes, keepdims=True) / count
    out = centred * (var + node.attrs["eps"]).apply("rsqrt") * weight + bias
    flat = [m.apply("reshape", shape=(x.shape[1],)) for m in (mean, var)]
    return [v.cast(o.type.dtype) for v, o in zip((out, *flat), node.outputs, strict=True)]


CENTRED = {"variance", "layer_norm", "layer_norm_grad", "layer_norm_weight_grad", "group_norm"}
NORMS: dict[str, Expansion] = {
    "adaptive_avg_pool": _adaptive_avg_pool,
    "mean": _mean,
    "variance": _variance,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "layer_norm": _layer_norm,
    "layer_norm_grad": _layer_norm_grad,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
}
WITH_TEMPLATES: dict[str, Expansion] = {
    "batch_norm_training": _batch_norm_training,
    "layer_norm_weight_grad": _layer_norm_weight_grad,
}
"""Norms that targets have templates for."""
