"""How ATen's attention ops are spelled: all of them are the core's `attention`."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.random import dropped
from glasshouse.frontend.torch.aten.registry import Context, aten
from glasshouse.ir.dtype import bool_, float32
from glasshouse.ops import composite
from glasshouse.ops.attention import attention_weights, scale_of
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import expanded
from glasshouse.ops.shapes import broadcast_shapes


@aten("scaled_dot_product_attention", context=True)
def attention(
    ctx: Context, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0,
    causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if mask is not None and mask.dtype is not bool_:
        mask = mask.cast(q.dtype)
    if dropout > 0.0:
        if enable_gqa and q.shape[-3] != k.shape[-3]:
            times = q.shape[-3] // k.shape[-3]
            k, v = (composite.repeat_interleave(t, times, -3) for t in (k, v))
        weights = attention_weights(q, k, mask, causal=causal, scale=scale)
        return dropped(ctx, weights, dropout).apply("matmul", v)
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise Unsupported("attention of vectors")
    if not q.ndim == k.ndim == v.ndim:
        lead = broadcast_shapes([t.shape[:-2] for t in (q, k, v)])
        q, k, v = (expanded(t, (*lead, *t.shape[-2:])) for t in (q, k, v))
    return q.apply("attention", k, v, mask, causal=causal, scale=scale)


def _flash(
    ctx: Context, q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False,
    *_: Any, attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    out = attention(ctx, q, k, v, attn_mask, dropout, causal, scale)
    return out, logsumexp_of(q, k, attn_mask, causal, scale)


def logsumexp_of(q: Any, k: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    """[..., heads, length]: what a flash kernel keeps for its gradient, half floats in float32."""
    if q.dtype.bits < 32:
        q, k = q.cast(float32), k.cast(float32)
        mask = mask if mask is None or mask.dtype is bool_ else mask.cast(float32)
    scores = q.apply("matmul", k, transpose_y=True) * scale_of(q.shape, scale)
    if mask is not None:
        low = float("-inf")
        scores = mask.apply("where", scores, low) if mask.dtype is bool_ else scores + mask
    if causal:
        ones = full_near(q, scores.shape[-2:], True, bool_).apply("triangle")
        scores = ones.apply("where", scores, float("-inf"))
    return composite.logsumexp(scores, [-1])


aten("_scaled_dot_product_flash_attention_for_cpu", context=True)(_flash)


@aten("_scaled_dot_product_attention_math", context=True)
def attention_math(
    ctx: Context, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0,
    causal: bool = False, dropout_mask: Any = None, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_mask is not None:
        raise Unsupported("attention with a mask for its dropout")
    weights = attention_weights(q, k, mask, causal=causal, scale=scale)
    return attention(ctx, q, k, v, mask, dropout, causal, scale, enable_gqa), weights
