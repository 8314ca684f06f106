"""What ops that PyTorch has for GPUs alone give, spelled with those that it has everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch.nn.functional import dropout as dropped


def _sees(q: Any, k: Any, begins_q: Any, begins_k: Any, mask_type: int) -> Any:
    """[queries, keys], by loops."""
    m, n = q.shape[1], k.shape[1]
    seen = torch.ones(m, n, dtype=torch.bool, device=q.device)
    if begins_q is not None:
        seen[:] = False
        for (a, b), (c, d) in zip(pairwise(begins_q), pairwise(begins_k), strict=True):
            seen[a:b, c:d] = True
    return seen.tril({0: n, 1: 0, 2: n - m}[mask_type])


def _attention(
    q: Any, k: Any, v: Any, seen: Any, bias: Any, dropout: float, scale: Any
) -> tuple[Any, Any]:
    """The result as the kernels lay it out, and the logarithm of what each query's weights add up
    to: [batch, heads, length]."""
    wide = [x.transpose(1, 2).to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v)]
    scores = wide[0] @ wide[1].mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    scores = scores.masked_fill(~seen, -math.inf)
    weights = scores.softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0.0)
    weights = dropped(weights, dropout) if dropout else weights
    out = (weights @ wide[2]).transpose(1, 2)
    return out.to(q.dtype), scores.logsumexp(-1).detach()


def efficient_attention(
    q: Any, k: Any, v: Any, *, bias: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any,
    max_seqlen_k: Any, dropout_p: float, custom_mask_type: int, compute_log_sumexp: bool,
    scale: Any, seqlen_k: Any,
) -> Any:  # fmt: skip
    seen = _sees(q, k, cu_seqlens_q, cu_seqlens_k, custom_mask_type)
    out, kept = _attention(q, k, v, seen, bias, dropout_p, scale)
    most = q.shape[1] if max_seqlen_q is None else max_seqlen_q
    begins = [0, q.shape[1]] if cu_seqlens_q is None else cu_seqlens_q.tolist()
    batch = q.shape[0] if cu_seqlens_q is None else len(begins) - 1
    blocks = math.ceil(most / 32) * 32 if compute_log_sumexp else 0
    padded = torch.full((batch, q.shape[2], blocks), math.inf, device=q.device)
    for i in range(batch if compute_log_sumexp else 0):
        row, (a, b) = (i, begins[:2]) if cu_seqlens_q is None else (0, begins[i : i + 2])
        padded[i, :, : b - a] = kept[row, :, a:b]
    seed = torch.zeros((), dtype=torch.int64, device=q.device)
    return out, padded, seed, seed, most, k.shape[1] if max_seqlen_k is None else max_seqlen_k


def flash_attention(
    q: Any, k: Any, v: Any, *, cum_seq_q: Any, cum_seq_k: Any, max_q: Any, max_k: Any,
    dropout_p: float, is_causal: bool, return_debug_mask: bool, scale: Any,
) -> Any:  # fmt: skip
    seen = _sees(q, k, cum_seq_q, cum_seq_k, 2 if is_causal else 0)
    out, kept = _attention(q, k, v, seen, None, dropout_p, scale)
    state = torch.zeros(2, dtype=torch.uint64, device=q.device)
    return out, kept, state, state[0].clone(), q.new_empty(0)


REFERENCES: dict[str, Callable[..., Any]] = {
    "torch.ops.aten._efficient_attention_forward": efficient_attention,
    "torch.ops.aten._flash_attention_forward": flash_attention,
}
