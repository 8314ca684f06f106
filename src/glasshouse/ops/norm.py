"""The normalisations. The reference computes in float64; gradients are core ops.

With x^ = (x - mean) * r and r = 1 / sqrt(var + eps), the gradient of x is
r * (h - mean(h) - x^ * mean(h * x^)) where h = g * weight: no difference of large squares anywhere.
Channels are axis 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import FLOAT, INT
from glasshouse.ir.dim import Dim, floor_div
from glasshouse.ir.dtype import float32
from glasshouse.ir.op import Kind, Operands
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.math import rsqrt
from glasshouse.ops.reduce import mean, shared, sum_
from glasshouse.ops.shape import expand, reshaped
from glasshouse.ops.shapes import axis_of, require_equal

_NORM: dict[str, Any] = {
    "kind": Kind.REDUCTION, "family": "norm", "operands": Operands.FLOAT, "eps": FLOAT(1e-5),
}  # fmt: skip


def _require_like(t: TensorType, wanted: Shape, what: str) -> None:
    if t.rank != len(wanted):
        raise ShapeError(f"{what} must have shape {list(wanted)}, not {list(t.shape)}")
    for have, want in zip(t.shape, wanted, strict=True):
        require_equal(have, want, f"{what} must have shape {list(wanted)}, not {list(t.shape)}")


def _standard(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """x with mean 0 and variance 1 along axes, in float64."""
    apart = x - np.mean(x, axes, np.float64, keepdims=True)
    out: Array = apart / np.sqrt(np.mean(apart * apart, axes, keepdims=True) + eps)
    return out


def _standardised(x: Any, axes: Sequence[int], eps: float) -> tuple[Any, Any]:
    """x^ and r, as handles."""
    apart = x - mean(x, axes=axes, keepdims=True)
    r = rsqrt(mean(apart * apart, axes=axes, keepdims=True) + eps)
    return apart * r, r


def _through(h: Any, hat: Any, r: Any, axes: Sequence[int], centred: bool = True) -> Any:
    """The gradient of what was standardised, from the gradient `h` of the result."""
    along = hat * mean(h * hat, axes=axes, keepdims=True)
    return r * ((h - mean(h, axes=axes, keepdims=True) if centred else h) - along)


def _wide(vjp: Callable[..., Sequence[Any]], y: int = -1) -> Callable[..., Sequence[Any]]:
    """The same gradient, for half types computed in float32: squares overflow float16 from 256 on.

    `y` is the place of the result among inputs and outputs; no gradient here reads it.
    """

    def call(g: Any, *handles: Any, **attrs: Any) -> Sequence[Any]:
        dtype = handles[0].dtype
        if dtype.bits >= 32:
            return vjp(g, *handles, **attrs)
        skip = handles[y]
        wide = [h if h is skip else h.cast(float32) for h in handles]
        gs = [None if h is None else h.cast(float32) for h in (g if isinstance(g, tuple) else [g])]
        grads = vjp(tuple(gs) if isinstance(g, tuple) else gs[0], *wide, **attrs)
        return [None if d is None else d.cast(dtype) for d in grads]

    return call


# -------------------------------------------------------------------------- over the last axes
def _last_axes(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(range(axis_of(axis, rank), rank))


def _last_type(x: TensorType, *params: TensorType, axis: int, eps: float) -> TensorType:
    if not x.rank:
        raise ShapeError("a scalar has no axes to normalise")
    wanted = x.shape[axis_of(axis, x.rank) :]
    for t, what in zip(params, ("weight", "bias"), strict=False):
        _require_like(t, wanted, what)
    return x


def _layer_norm_ref(x: Array, *params: Array, axis: int, eps: float) -> Array:
    out = _standard(x, _last_axes(axis, x.ndim), eps) if x.size else x
    if params:
        out = out * params[0]
    return out + params[1] if len(params) > 1 else out


def _layer_norm_vjp(g: Any, x: Any, *rest: Any, axis: int, eps: float) -> Sequence[Any]:
    params = rest[:-1]
    axes = _last_axes(axis, x.ndim)
    hat, r = _standardised(x, axes, eps)
    grads = [_through(g * params[0] if params else g, hat, r, axes)]
    before = tuple(range(axes[0]))
    if params:
        grads.append(_summed(g * hat, before))
    if len(params) > 1:
        grads.append(_summed(g, before))
    return grads


def _summed(g: Any, axes: Sequence[int]) -> Any:
    return sum_(g, axes=axes) if axes else g


layer_norm = op(
    "layer_norm", cost=8,
    **_NORM, infer=_last_type, ref=_layer_norm_ref, vjp=_wide(_layer_norm_vjp),
    inputs=("x", "weight?", "bias?"), axis=INT(-1, "the first of the axes that are normalised"),
    doc="(x - mean) / sqrt(variance + eps) * weight + bias over the axes from `axis` on",
)  # fmt: skip


def _rms_norm_ref(x: Array, *params: Array, axis: int, eps: float) -> Array:
    wide = x.astype(np.float64)
    axes = _last_axes(axis, x.ndim)
    out = wide / np.sqrt(np.mean(wide * wide, axes, keepdims=True) + eps) if x.size else wide
    return out * params[0] if params else out


def _rms_norm_vjp(g: Any, x: Any, *rest: Any, axis: int, eps: float) -> Sequence[Any]:
    params = rest[:-1]
    axes = _last_axes(axis, x.ndim)
    r = rsqrt(mean(x * x, axes=axes, keepdims=True) + eps)
    hat = x * r
    grads = [_through(g * params[0] if params else g, hat, r, axes, centred=False)]
    if params:
        grads.append(_summed(g * hat, tuple(range(axes[0]))))
    return grads


rms_norm = op(
    "rms_norm", cost=5,
    **_NORM, infer=_last_type, ref=_rms_norm_ref, vjp=_wide(_rms_norm_vjp),
    inputs=("x", "weight?"), axis=INT(-1, "the first of the axes that are normalised"),
    doc="x / sqrt(mean(x * x) + eps) * weight over the axes from `axis` on",
)  # fmt: skip


# -------------------------------------------------------------------------------- over groups
def _channels_type(x: TensorType, params: Sequence[tuple[TensorType, str]]) -> None:
    if x.rank < 2:
        raise ShapeError(f"x must have a batch and a channel axis, {x} has {x.rank} dimensions")
    for t, what in params:
        _require_like(t, (x.shape[1],), what)


def _group_type(x: TensorType, *params: TensorType, groups: int, eps: float) -> TensorType:
    _channels_type(x, list(zip(params, ("weight", "bias"), strict=False)))
    channels = x.shape[1]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise ShapeError(f"{channels} channels do not divide into {groups} groups")
    return x


def _grouped(shape: Sequence[Dim], groups: int) -> tuple[Dim, ...]:
    """[N, C, spatial...] as [N, groups, C / groups, spatial...]."""
    return (shape[0], groups, floor_div(shape[1], groups), *shape[2:])


def _beside(shape: Sequence[Any]) -> tuple[Any, ...]:
    """The shape in which one number for each channel broadcasts against x."""
    return (1, shape[1], *([1] * (len(shape) - 2)))


def _group_norm_ref(x: Array, *params: Array, groups: int, eps: float) -> Array:
    apart = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    axes = tuple(range(2, apart.ndim))
    out = _standard(apart, axes, eps).reshape(x.shape) if x.size else x
    beside = _beside(x.shape)
    if params:
        out = out * params[0].reshape(beside)
    return out + params[1].reshape(beside) if len(params) > 1 else out


def _group_norm_vjp(g: Any, x: Any, *rest: Any, groups: int, eps: float) -> Sequence[Any]:
    params = rest[:-1]
    parts = _grouped(x.shape, groups)
    axes = tuple(range(2, len(parts)))
    hat, r = _standardised(reshaped(x, parts), axes, eps)
    h = g * reshaped(params[0], _beside(x.shape)) if params else g
    grads = [reshaped(_through(reshaped(h, parts), hat, r, axes), x.shape)]
    others = [i for i in range(x.ndim) if i != 1]
    if params:
        grads.append(sum_(g * reshaped(hat, x.shape), axes=others))
    if len(params) > 1:
        grads.append(sum_(g, axes=others))
    return grads


group_norm = op(
    "group_norm", cost=8,
    **_NORM, infer=_group_type, ref=_group_norm_ref, vjp=_wide(_group_norm_vjp),
    inputs=("x", "weight?", "bias?"), groups=INT,
    doc="Each group of channels of each sample normalised, then scaled and moved by channel; with "
    "as many groups as channels, instance normalisation",
)  # fmt: skip


# -------------------------------------------------------------------------------- over the batch
def _batch_type(
    x: TensorType, m: TensorType, var: TensorType, w: TensorType, b: TensorType, *, eps: float
) -> TensorType:
    _channels_type(x, [(m, "mean"), (var, "var"), (w, "weight"), (b, "bias")])
    return x


def _batch_norm_ref(x: Array, m: Array, var: Array, w: Array, b: Array, *, eps: float) -> Array:
    beside = _beside(x.shape)
    scale = w / np.sqrt(var.astype(np.float64) + eps)
    out: Array = (x - m.reshape(beside)) * scale.reshape(beside) + b.reshape(beside)
    return out


def _batch_norm_vjp(
    g: Any, x: Any, m: Any, var: Any, w: Any, b: Any, y: Any, *, eps: float
) -> Sequence[Any]:
    beside, others = _beside(x.shape), [i for i in range(x.ndim) if i != 1]
    r = rsqrt(var + eps)
    scale = w * r
    total = sum_(g, axes=others)
    along = sum_(g * (x - reshaped(m, beside)), axes=others) * r
    gx = g * reshaped(scale, beside)
    return gx, -(total * scale), along * (scale * r) * -0.5, along, total


batch_norm = op(
    "batch_norm", **{**_NORM, "kind": Kind.ELEMENTWISE}, infer=_batch_type, ref=_batch_norm_ref,
    vjp=_wide(_batch_norm_vjp), inputs=("x", "mean", "var", "weight", "bias"),
    doc="(x - mean) / sqrt(var + eps) * weight + bias, with one of each for every channel",
)  # fmt: skip


def _training_type(
    x: TensorType, w: TensorType, b: TensorType, *, eps: float
) -> tuple[TensorType, TensorType, TensorType]:
    _channels_type(x, [(w, "weight"), (b, "bias")])
    by_channel = tensor_type(x.dtype, (x.shape[1],))
    return x, by_channel, by_channel


def _training_ref(x: Array, w: Array, b: Array, *, eps: float) -> tuple[Array, Array, Array]:
    beside, others = _beside(x.shape), tuple(i for i in range(x.ndim) if i != 1)
    size = np.float64(np.prod([x.shape[i] for i in others]))
    m = np.asarray(np.sum(x, others, np.float64) / size)
    apart = x - m.reshape(beside)
    var = np.sum(apart * apart, others) / size
    scale = w / np.sqrt(var + eps)
    return apart * scale.reshape(beside) + b.reshape(beside), m, var


def _training_vjp(
    gs: Any, x: Any, w: Any, b: Any, y: Any, m: Any, var: Any, *, eps: float
) -> Sequence[Any]:
    beside, others = _beside(x.shape), [i for i in range(x.ndim) if i != 1]
    g, gm, gvar = gs
    apart = x - reshaped(m, beside)
    gx = gw = gb = None
    if g is not None:
        r = reshaped(rsqrt(var + eps), beside)
        hat = apart * r
        gx = _through(g, hat, r, others) * reshaped(w, beside)
        gw, gb = sum_(g * hat, axes=others), sum_(g, axes=others)
    # mean and var as outputs of their own: each element has its share of one over the count.
    size = tuple(x.shape[i] for i in others)
    if gvar is not None:
        share = apart * reshaped(shared(gvar * 2.0, size), beside)
        gx = share if gx is None else gx + share
    if gm is not None:
        share = reshaped(shared(gm, size), beside)
        gx = expand(share, shape=x.shape) if gx is None else gx + share
    return gx, gw, gb


batch_norm_training = op(
    "batch_norm_training", cost=8, image=True,
    **_NORM, infer=_training_type, ref=_training_ref,
    vjp=_wide(_training_vjp, y=-3), inputs=("x", "weight", "bias"),
    doc="Batch normalisation with the batch's own statistics; gives also their mean and (biased) "
    "variance, from which running statistics are made",
)  # fmt: skip
