"""Attention that is trained on a GPU stays one op, forward and backward.

PyTorch would hand over either its flash attention, whose saved values only its own gradient reads,
or products and a softmax in float32, which tensor cores do not compute. So calls of it become an op
of ours before gradients are taken; it saves its operands and its result, and its gradient
(`attention_grad`) computes the weights again: products of half floats, what stands between them in
float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from glasshouse.frontend.dynamo.replaced_calls import replace_calls
from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.ir.dtype import bool_
from glasshouse.ops.attention import attention_gradients
from glasshouse.ops.shape import reshaped

_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


@torch.library.custom_op("glasshouse::attention", mutates_args=())
def whole_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None
) -> Tensor:
    """What PyTorch computes, for whoever runs the graph by himself.

    Heads of a token lie beside each other: what follows puts them together, and both it and the
    gradient can then read the one result.
    """
    made: Tensor = scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale)
    return made.transpose(1, 2).contiguous().transpose(1, 2)


@whole_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    batch, heads, length, _ = q.shape
    return q.new_empty((batch, length, heads, v.shape[-1])).transpose(1, 2)


@torch.library.custom_op("glasshouse::attention_backward", mutates_args=())
def whole_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, mask: Tensor | None, causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    wide = torch.float32 if q.dtype.itemsize < 4 else q.dtype
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q @ k.transpose(-1, -2)).to(wide) * factor
    if mask is not None:
        hides = mask.dtype is torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if hides else scores + mask
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(scores.amax(-1, keepdim=True) == -torch.inf, 0.0)
    slopes = (g @ v.transpose(-1, -2)).to(wide)
    shift = (g.to(wide) * out.to(wide)).sum(-1, keepdim=True)
    inner = (weights * (slopes - shift) * factor).to(q.dtype)
    return inner @ k, inner.transpose(-1, -2) @ q, weights.to(q.dtype).transpose(-1, -2) @ g


@whole_backward.register_fake
def _(g: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, mask, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, output, mask)


def _gradient(ctx: Any, g: Tensor) -> Any:
    q, k, v, out, mask = ctx.saved_tensors
    return *whole_backward(g, q, k, v, out, mask, ctx.causal, ctx.scale), None, None, None


whole_attention.register_autograd(_gradient, setup_context=_keep)


def keep_attention(module: torch.fx.GraphModule) -> None:
    """Calls of PyTorch's attention become ours, where that says the same: four axes, as many heads
    of keys as of queries, no dropout, and a mask that takes no gradient."""
    replace_calls(module, {scaled_dot_product_attention}, _replaced)


def _replaced(node: torch.fx.Node) -> bool:
    given = {**dict(zip(_ARGUMENTS, node.args, strict=False)), **node.kwargs}
    q, k, v, mask = (_example(given.get(name)) for name in _ARGUMENTS[:4])
    if any(x is None or x.ndim != 4 for x in (q, k, v)) or given.get("dropout_p"):
        return False
    if q.shape[:2] != k.shape[:2] or k.shape[:3] != v.shape[:3]:
        return False
    if given.get("attn_mask") is not None and (mask is None or mask.requires_grad):
        return False
    operands = (*(given[name] for name in _ARGUMENTS[:3]), given.get("attn_mask"))
    node.target = torch.ops.glasshouse.attention.default
    node.args = (*operands, bool(given.get("is_causal", False)), given.get("scale"))
    node.kwargs = {}
    return True


def _example(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None


# --------------------------------------------------------------------------------- as core ops
_LARGEST = 128
"""Of a head, up to which kernels hold the sums of all three gradients in registers."""


def _is_small(dim: Any) -> bool:
    return isinstance(dim, int) and dim <= _LARGEST


@aten("glasshouse::attention")
def _attention(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    if mask is not None and mask.dtype is not bool_:
        mask = mask.cast(q.dtype)
    return q.apply("attention", k, v, mask, causal=causal, scale=scale)


@aten("glasshouse::attention_backward")
def _attention_backward(
    g: Any, q: Any, k: Any, v: Any, out: Any, mask: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any]:
    if mask is not None and mask.dtype is not bool_:
        mask = mask.cast(q.dtype)
    operands = (q, k, v, out) if mask is None else (q, k, v, out, mask)
    if not g.shape == q.shape == k.shape == v.shape or not _is_small(q.shape[-1]):
        return attention_gradients(g, *operands, causal=causal, scale=scale)
    batch, heads, length, dim = q.shape
    packed = g.apply("attention_grad", *operands, causal=causal, scale=scale)
    parts = packed.apply("split", sizes=[1, 1, 1], axis=2)
    rows = (reshaped(x, (batch, length, heads, dim)) for x in parts)
    gq, gk, gv = (x.apply("permute", axes=(0, 2, 1, 3)) for x in rows)
    return gq, gk, gv
