"""Attention that is trained on a GPU stays one op, forward and backward.

PyTorch would hand over either its flash attention, whose saved values only its own gradient reads,
or products and a softmax in float32, which tensor cores do not compute. So calls of it become an op
of ours before gradients are taken; it saves its operands and its result, and its gradient computes
the weights again: products of half floats, what stands between them in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.ir.dtype import bool_, float32
from glasshouse.ops.attention import group_size, scale_of
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import reshaped

_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


@torch.library.custom_op("glasshouse::attention", mutates_args=())
def whole_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None
) -> Tensor:
    """What PyTorch computes, for whoever runs the graph by himself."""
    made: Tensor = scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale)
    return made.contiguous()


@whole_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


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
    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        changed = False
        for node in part.graph.nodes:
            if node.op == "call_function" and node.target is scaled_dot_product_attention:
                changed |= _replaced(node)
        if changed:
            part.recompile()


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
@aten("glasshouse::attention")
def _attention(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    if mask is not None and mask.dtype is not bool_:
        mask = mask.cast(q.dtype)
    return q.apply("attention", k, v, mask, causal=causal, scale=scale)


@aten("glasshouse::attention_backward")
def _attention_backward(
    g: Any, q: Any, k: Any, v: Any, out: Any, mask: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any]:
    assert group_size(q.shape, k.shape) == 1, "heads are as many"
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
    shift = (g.cast(wide) * out.cast(wide)).apply("sum", axes=[-1], keepdims=True)
    inner = (weights * (slopes - shift) * factor).cast(dtype)
    gq, gk = inner.apply("matmul", k), inner.apply("matmul", q, transpose_x=True)
    return gq, gk, weights.cast(dtype).apply("matmul", g, transpose_x=True)
