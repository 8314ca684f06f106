"""Multi-head attention, with PyTorch's parameter names."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import ShapeError
from glasshouse.nn import init
from glasshouse.nn.functional import dropout, linear, scaled_dot_product_attention
from glasshouse.nn.linear import Linear
from glasshouse.nn.module import Module
from glasshouse.nn.parameter import Parameter
from glasshouse.tensor.create import arange


class MultiheadAttention(Module):
    """Projections to heads, scaled dot-product attention, and the projection back."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ) -> None:
        if embed_dim % num_heads:
            raise ShapeError(f"{num_heads} heads do not divide {embed_dim} features")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self.in_proj_weight = Parameter(init.xavier_uniform((3 * embed_dim, embed_dim)))
        self.register_parameter(
            "in_proj_bias", Parameter(init.zeros((3 * embed_dim,))) if bias else None
        )
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Parameter(init.zeros((embed_dim,)))

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = False,
        attn_mask: Any = None,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The output, and the weights (mean over heads) when asked for.

        A bool mask is True where attention is *not* allowed, as in PyTorch's module.
        """
        if not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q, k, v = self._projected(query, key, value)
        mask = _joined(attn_mask, key_padding_mask, q.dtype, self.num_heads)
        if need_weights or (self.dropout and self.training):
            scores = q.apply("matmul", k, transpose_y=True) * (1 / math.sqrt(self.head_dim))
            if is_causal and mask is None:
                mask = _causal(scores)
            weights = (scores if mask is None else scores + mask).softmax(-1)
            out = dropout(weights, self.dropout, self.training) @ v
        else:
            weights = None
            out = scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal and mask is None)
        batch, _, length, _ = out.shape
        out = self.out_proj(out.transpose(1, 2).reshape(batch, length, self.embed_dim))
        out = out if self.batch_first else out.transpose(0, 1)
        return out, weights.mean(1) if need_weights else None

    def _projected(self, query: Any, key: Any, value: Any) -> tuple[Any, ...]:
        size = self.embed_dim
        if query is key and key is value:
            together = linear(query, self.in_proj_weight, self.in_proj_bias)
            parts = together.split([size] * 3, -1)
        else:
            weights = self.in_proj_weight.split([size] * 3, 0)
            biases = [None] * 3
            if self.in_proj_bias is not None:
                biases = self.in_proj_bias.split([size] * 3, 0)
            parts = [
                linear(x, w, b)
                for x, w, b in zip((query, key, value), weights, biases, strict=True)
            ]
        return tuple(
            p.reshape(p.shape[0], p.shape[1], self.num_heads, self.head_dim).transpose(1, 2)
            for p in parts
        )


def _added(mask: Any, dtype: Any) -> Any:
    """A mask to be added to scores: minus infinity where a bool mask is True."""
    if mask.dtype.name != "bool":
        return mask.cast(dtype)
    return mask.cast(dtype).masked_fill(mask, -math.inf)


def _joined(attn_mask: Any, padding: Any, dtype: Any, heads: int) -> Any:
    mask = None
    if attn_mask is not None:
        mask = _added(attn_mask, dtype)
        if mask.ndim == 3:  # [batch * heads, length, length]
            mask = mask.reshape(-1, heads, *mask.shape[1:])
    if padding is not None:
        hidden = _added(padding, dtype).unsqueeze([1, 2])
        mask = hidden if mask is None else mask + hidden
    return mask


def _causal(scores: Any) -> Any:
    rows, columns = scores.shape[-2:]
    later = arange(columns).unsqueeze(0) > arange(rows).unsqueeze(1)
    return _added(later, scores.dtype)
