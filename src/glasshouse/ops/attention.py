"""Scaled dot-product attention: masks, causality, heads that share keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, OPT_FLOAT
from glasshouse.ir.dim import Dim, floor_div
from glasshouse.ir.dtype import bool_, float32
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import Shape, TensorType, tensor_type
from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.create import arange_near
from glasshouse.ops.declare import op
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import broadcast_shapes, require_equal, unbroadcast


def group_size(q: Shape, k: Shape) -> Dim:
    """How many heads of q share one head of k; shapes are [..., heads, length, dim]."""
    if len(q) < 3 or len(k) < 3 or q[-3] == k[-3]:
        return 1
    size = floor_div(q[-3], k[-3]) if k[-3] != 0 else 0
    if size * k[-3] != q[-3]:
        raise ShapeError(f"{q[-3]} heads of q cannot share {k[-3]} heads of k and v evenly")
    return size


def scale_of(q: Shape, scale: float | None) -> float:
    """The factor before the softmax: as given, or 1 / sqrt(dim)."""
    if scale is not None:
        return scale
    if not isinstance(q[-1], int):
        raise ShapeError(f"the default scale needs a fixed last axis, q has {q[-1]}; give scale=")
    return 1.0 / math.sqrt(q[-1]) if q[-1] else 1.0


def _infer(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None, *,
    causal: bool, scale: float | None, fill: float | None,
) -> TensorType:  # fmt: skip
    if not q.dtype.is_float or k.dtype is not q.dtype or v.dtype is not q.dtype:
        raise TypeMismatch("q, k and v must have one floating type")
    if q.rank < 2 or not q.rank == k.rank == v.rank:
        raise ShapeError("q, k and v must have the same number of dimensions, two or more")
    require_equal(q.shape[-1], k.shape[-1], "q and k differ in their last axis")
    length = require_equal(k.shape[-2], v.shape[-2], "k and v differ in length")
    scale_of(q.shape, scale)
    heads: Shape = ()
    if q.rank > 2:
        require_equal(k.shape[-3], v.shape[-3], "k and v differ in heads")
        group_size(q.shape, k.shape)
        heads = (q.shape[-3],)
    batch = broadcast_shapes([q.shape[:-3], k.shape[:-3], v.shape[:-3]])
    scores = (*batch, *heads, q.shape[-2], length)
    if mask is not None:
        if mask.dtype is not bool_ and not mask.dtype.is_float:
            raise TypeMismatch(f"a mask is bool or floating, not {mask.dtype}")
        if len(broadcast_shapes([mask.shape, scores])) != len(scores) or any(
            m != 1 and isinstance(m, int) and isinstance(s, int) and m != s
            for m, s in zip(mask.shape, scores[len(scores) - mask.rank :], strict=True)
        ):
            raise ShapeError(f"the mask does not broadcast to the scores {list(scores)}")
    return tensor_type(q.dtype, (*batch, *heads, q.shape[-2], v.shape[-1]))


def _ref(
    q: Array, k: Array, v: Array, mask: Array | None = None, *,
    causal: bool, scale: float | None, fill: float | None,
) -> Array:  # fmt: skip
    group = group_size(q.shape, k.shape)
    if group != 1:
        assert isinstance(group, int)  # shapes of arrays are numbers
        k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    scores: Array = np.matmul(widened(q), widened(k).swapaxes(-1, -2)) * scale_of(q.shape, scale)
    if mask is not None:
        low = -np.inf if fill is None else fill
        scores = np.where(mask, scores, low) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    top = np.max(scores, -1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    if fill is None:  # a row without any key left gives zeros, not 0 / 0
        total = np.where(total == 0, 1, total)
    out: Array = np.matmul(weights / total, widened(v))
    return out


def attention_weights(
    q: Any, k: Any, mask: Any, *, causal: bool, scale: float | None, fill: float | None = None
) -> Any:
    """The softmax of the scores with core ops; rows without a key are 0 where `fill` is None."""
    low = float("-inf")
    scores = q.apply("matmul", k, transpose_y=True) * scale_of(q.shape, scale)
    if mask is not None and mask.dtype is bool_:
        scores = mask.apply("where", scores, low if fill is None else fill)
    elif mask is not None:
        scores = scores + mask.cast(scores.dtype)
    if causal:
        rows = reshaped(arange_near(q, scores.shape[-2]), (scores.shape[-2], 1))
        before = rows.apply("greater_equal", arange_near(q, scores.shape[-1]))
        scores = before.apply("where", scores, low)
    if mask is None or fill is not None:
        return scores.apply("softmax", axis=-1)
    # A row without a key has NaN for its softmax and its gradient: it is not given to them.
    nothing = scores.apply("max", axes=[-1], keepdims=True).apply("equal", low)
    weights = nothing.apply("where", 0.0, scores).apply("softmax", axis=-1)
    return nothing.apply("where", 0.0, weights)


def _grouped(x: Any, group: Dim, shared: bool) -> Any:
    """Heads apart as [shared heads, heads of a group]; keys and masks have size 1 there."""
    if group == 1 or x.ndim < 3:
        return x
    heads = x.shape[-3]
    apart = (heads, 1) if shared or heads == 1 else (floor_div(heads, group), group)
    return reshaped(x, (*x.shape[:-3], *apart, *x.shape[-2:]))


def _vjp(
    g: Any, *rest: Any, causal: bool, scale: float | None, fill: float | None
) -> tuple[Any, ...]:
    *inputs, y = rest
    group = group_size(inputs[0].shape, inputs[1].shape)
    q, k, v = (
        _grouped(x, group, shared) for x, shared in zip(inputs, (False, True, True), strict=False)
    )
    mask = _grouped(inputs[3], group, False) if len(inputs) > 3 else None
    g, y = _grouped(g, group, False), _grouped(y, group, False)
    factor = scale_of(q.shape, scale)
    weights = attention_weights(q, k, mask, causal=causal, scale=scale, fill=fill)
    slopes = g.apply("matmul", v, transpose_y=True)
    shift = (g * y).apply("sum", axes=[-1], keepdims=True)
    scores = weights * (slopes - shift)
    if mask is not None and mask.dtype is bool_ and fill is not None:
        scores = mask.apply("where", scores, 0.0)  # a masked score is a number, not q @ k
    gq = scores.apply("matmul", k) * factor
    gk = scores.apply("matmul", q, transpose_x=True) * factor
    gv = weights.apply("matmul", g, transpose_x=True)
    grads = [
        reshaped(unbroadcast(d, x), i.shape)
        for d, x, i in zip((gq, gk, gv), (q, k, v), inputs, strict=False)
    ]
    if mask is not None:
        floating = inputs[3].dtype.is_float
        gm = reshaped(unbroadcast(scores, mask), inputs[3].shape) if floating else None
        grads.append(gm.cast(inputs[3].dtype) if gm is not None else None)
    return tuple(grads)


attention = op(
    "attention", kind=Kind.CONTRACTION, family="attention", infer=_infer, ref=_ref, vjp=_vjp,
    inputs=("q", "k", "v", "mask?"),
    doc="softmax(q @ k.T * scale + mask) @ v over [..., heads, length, dim]. k and v may have "
    "fewer heads than q, by a whole factor. A bool mask keeps where it is True; a floating one is "
    "added. `causal` lets position i see keys 0 to i. A row that sees no key gives zeros; with "
    "`fill`, the number that a bool mask then puts in place of a score, softmax is plain: NaN.",
    causal=BOOL(False), scale=OPT_FLOAT, fill=OPT_FLOAT,
)  # fmt: skip


# ------------------------------------------------------------------------------------- gradients
def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, y: Any, mask: Any = None, *, causal: bool, scale: float | None
) -> tuple[Any, Any, Any]:
    """What `attention_grad` means with core ops: products in the operands' type, the rest wider."""
    dtype, factor = q.dtype, scale_of(q.shape, scale)
    wide = float32 if dtype.bits < 32 else dtype
    low = float("-inf")
    scores = q.apply("matmul", k, transpose_y=True).cast(wide) * factor
    if mask is not None:
        hides = mask.dtype is bool_
        scores = mask.apply("where", scores, low) if hides else scores + mask.cast(wide)
    if causal:
        rows = reshaped(arange_near(q, scores.shape[-2]), (scores.shape[-2], 1))
        before = rows.apply("greater_equal", arange_near(q, scores.shape[-1]))
        scores = before.apply("where", scores, low)
    if mask is None:
        weights = scores.apply("softmax", axis=-1)
    else:  # a row without a key has no weights
        nothing = scores.apply("max", axes=[-1], keepdims=True).apply("equal", low)
        weights = nothing.apply("where", 0.0, scores).apply("softmax", axis=-1)
        weights = nothing.apply("where", 0.0, weights)
    slopes = g.apply("matmul", v, transpose_y=True).cast(wide)
    shift = (g.cast(wide) * y.cast(wide)).apply("sum", axes=[-1], keepdims=True)
    inner = (weights * (slopes - shift) * factor).cast(dtype)
    gq, gk = inner.apply("matmul", k), inner.apply("matmul", q, transpose_x=True)
    return gq, gk, weights.cast(dtype).apply("matmul", g, transpose_x=True)


def beside_each_other(gradients: Sequence[Any]) -> Any:
    """Gradients [batch, heads, length, dim] of q, k and v as `attention_grad` has them."""
    rows = [x.apply("permute", axes=(0, 2, 1, 3)) for x in gradients]
    batch, length, heads, dim = rows[0].shape
    parts = [reshaped(x, (batch, length, 1, heads, dim)) for x in rows]
    return parts[0].apply("concat", *parts[1:], axis=2)


def _infer_grad(
    g: TensorType, q: TensorType, k: TensorType, v: TensorType, y: TensorType,
    mask: TensorType | None = None, *, causal: bool, scale: float | None,
) -> TensorType:  # fmt: skip
    _infer(q, k, v, mask, causal=causal, scale=scale, fill=None)
    if q.rank != 4 or not g == q == k == v == y:
        raise ShapeError("the operands must be alike, [batch, heads, length, dim]")
    batch, heads, length, dim = q.shape
    return tensor_type(q.dtype, (batch, length, 3, heads, dim))


def _ref_grad(
    g: Array, q: Array, k: Array, v: Array, y: Array, mask: Array | None = None, *,
    causal: bool, scale: float | None,
) -> Array:  # fmt: skip
    g, q, k, v, y = (widened(x) for x in (g, q, k, v, y))
    factor = scale_of(q.shape, scale)
    scores: Array = np.matmul(q, k.swapaxes(-1, -2)) * factor
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    top = np.max(scores, -1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    inner = weights * (np.matmul(g, v.swapaxes(-1, -2)) - (g * y).sum(-1, keepdims=True)) * factor
    turned = inner.swapaxes(-1, -2)
    made = np.matmul(inner, k), np.matmul(turned, q), np.matmul(weights.swapaxes(-1, -2), g)
    return np.stack(made).transpose(1, 3, 0, 2, 4)


attention_grad = op(
    "attention_grad", kind=Kind.CONTRACTION, family="attention", infer=_infer_grad, ref=_ref_grad,
    vjp=NoGradient("it is a gradient itself, which only compiled training steps hold"),
    inputs=("g", "q", "k", "v", "y", "mask?"),
    doc="The gradients of q, k and v, all [batch, heads, length, dim], beside each other as "
    "[batch, length, 3, heads, dim]; `g` is the gradient of `y`, which `attention` gives for them "
    "without `fill`. The weights are computed again.",
    causal=BOOL(False), scale=OPT_FLOAT,
)  # fmt: skip
