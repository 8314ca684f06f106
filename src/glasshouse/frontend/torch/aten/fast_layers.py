"""How the ops are spelled by which nn.TransformerEncoderLayer and nn.MultiheadAttention call one
kernel of PyTorch's in place of their modules: as the same arithmetic, apart.

They stand in graphs that `torch.compile` captured of a model in eval mode without gradients. A
query that sees no key gives NaN, unlike in `scaled_dot_product_attention` and in the core's
attention, where it gives zeros.
"""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.linear import linear
from glasshouse.frontend.torch.aten.norm import layer_norm
from glasshouse.frontend.torch.aten.registry import apply, aten
from glasshouse.ir.dtype import bool_
from glasshouse.ops import composite
from glasshouse.ops.attention import attention_weights
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import permuted, reshaped

_QUERIES, _PADDING, _WHOLE = 0, 1, 2
"""What a mask is for: pairs of places, places of each sentence, or both of each head."""


def _kept(mask: Any, kind: int | None) -> Any:
    """The mask of the core's attention: true where a key is seen. These ops take any number but
    zero for a key that is hidden, since they are given masks of minus infinities."""
    if mask is None:
        return None
    mask = mask.cast(bool_).apply("logical_not")
    if kind == _PADDING:
        batch, length = mask.shape
        return reshaped(mask, (batch, 1, 1, length))
    if kind not in (_QUERIES, _WHOLE, None):
        raise Unsupported(f"a mask of the kind {kind}")
    return mask


def _seen(rows: Any, keep: Any) -> Any:
    """Rows of queries, NaN where a query sees no key."""
    if keep is None:
        return rows
    some = keep.apply("any", axes=[-1], keepdims=True)
    return apply("where", some, rows, math.nan)


def _attended(
    x: tuple[Any, Any, Any], heads: int, weight: Any, bias: Any, keep: Any
) -> tuple[Any, Any, Any]:
    """Queries, keys and values through their part of the weight, and what is attended to."""
    width = x[0].shape[-1]
    same = x[0] is x[1] and x[1] is x[2]
    if same:
        made = list(composite.chunk(linear(x[0], weight, bias), 3, -1))
    else:
        weights = composite.chunk(weight, 3, 0)
        biases = [None] * 3 if bias is None else composite.chunk(bias, 3, 0)
        made = [linear(t, w, b) for t, w, b in zip(x, weights, biases, strict=True)]
    size = width // heads
    q, k, v = (permuted(reshaped(t, (*t.shape[:-1], heads, size)), [0, 2, 1, 3]) for t in made)
    out = permuted(_seen(q.apply("attention", k, v, keep), keep), [0, 2, 1, 3])
    return reshaped(out, (*out.shape[:2], width)), q, k


@aten("_native_multi_head_attention")
def multi_head_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any,
    weight: Any, bias: Any, mask: Any = None, need_weights: bool = True, average: bool = True,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    keep = _kept(mask, mask_type)
    out, q, k = _attended((query, key, value), heads, qkv_weight, qkv_bias, keep)
    out = linear(out, weight, bias)
    if not need_weights:
        return out, full_near(out, (0,), 0, out.dtype)
    weights = _seen(attention_weights(q, k, keep, causal=False, scale=None), keep)
    return out, weights.apply("mean", axes=[1], keepdims=False) if average else weights


@aten("_transformer_encoder_layer_fwd")
def encoder_layer(
    x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, weight: Any, bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, weight_1: Any, bias_1: Any, weight_2: Any,
    bias_2: Any, up: Any, up_bias: Any, down: Any, down_bias: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    keep = _kept(mask, mask_type)

    def attended(y: Any) -> Any:
        return linear(_attended((y, y, y), heads, qkv_weight, qkv_bias, keep)[0], weight, bias)

    def fed(y: Any) -> Any:
        y = linear(y, up, up_bias)
        y = y.apply("gelu", approximate="none") if use_gelu else y.apply("relu")
        return linear(y, down, down_bias)

    def first(y: Any) -> Any:
        return layer_norm(y, [width], weight_1, bias_1, eps)

    def second(y: Any) -> Any:
        return layer_norm(y, [width], weight_2, bias_2, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + fed(second(x))
    x = first(x + attended(x))
    return second(x + fed(x))
