"""How the attention kernels that PyTorch has for GPUs alone are spelled: the core's `attention`.

Both take heads behind positions: [batch, length, heads, dim]. Sequences that lie behind each other
in one row (`cu_seqlens`: where each begins) see themselves alone. Programs that were exported on a
GPU call them, and run on any machine so.
"""

from __future__ import annotations

import operator
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.attention import attention, logsumexp_of
from glasshouse.frontend.torch.aten.index import searchsorted
from glasshouse.frontend.torch.aten.registry import Context, apply, aten
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32, int64, uint64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import expanded, permuted, reshaped

_FROM_TOP, _FROM_BOTTOM = 1, 2
"""Which query the first key is seen by alone, of as many queries as keys: the first one, or the one
that leaves the last query all keys."""

_BLOCK = 32
"""Of queries, up to whole ones of which the memory-efficient kernel pads what it keeps of them."""


@aten("_efficient_attention_forward", context=True)
def efficient_attention(
    ctx: Context, q: Any, k: Any, v: Any, bias: Any, begins_q: Any, begins_k: Any,
    most_q: Any, most_k: Any, dropout: float, mask_type: int, keeps: bool = False, *,
    scale: float | None = None, seqlen_k: Any = None, window_size: int | None = None,
) -> Any:  # fmt: skip
    """What it keeps for its gradient is padded with infinity."""
    if window_size or (mask_type and begins_q is not None):
        raise Unsupported("attention in windows, or causal in several sequences of one row")
    _check_seed(ctx, dropout)
    mask = _seen(q, k, begins_q, begins_k, mask_type)
    if seqlen_k is not None:
        inside = arange_near(q, k.shape[1]) < reshaped(seqlen_k.cast(int64), (q.shape[0], 1, 1, 1))
        mask = inside if mask is None else mask & inside
    if bias is not None:
        wide = bias.cast(q.dtype)
        mask = wide if mask is None else apply("where", mask, wide, float("-inf"))
    turned_q, turned_k, turned_v = (_turned(x) for x in (q, k, v))
    out = _turned(attention(ctx, turned_q, turned_k, turned_v, mask, dropout, scale=scale))
    length = q.shape[1] if begins_q is None else most_q
    kept = full_near(q, (_batch(q, begins_q), q.shape[2], 0), 0.0, float32)
    if keeps:
        kept = logsumexp_of(turned_q, turned_k, mask, False, scale).cast(float32)
        kept = _padded(kept, begins_q, length)
    seed, offset = (full_near(q, (), 0, int64) for _ in range(2))
    return out, kept, seed, offset, length, k.shape[1] if most_k is None else most_k


@aten("_flash_attention_forward", context=True)
def flash_attention(
    ctx: Context, q: Any, k: Any, v: Any, begins_q: Any, begins_k: Any, most_q: Any, most_k: Any,
    dropout: float, causal: bool, debug: bool, *, scale: float | None = None,
    window_size_left: Any = None, window_size_right: Any = None, seqused_k: Any = None,
    alibi_slopes: Any = None, block_table: Any = None, num_splits: int | None = None,
) -> Any:  # fmt: skip
    """Causal attention leaves the last query all keys, whatever the lengths."""
    windows = [w for w in (window_size_left, window_size_right) if w is not None and w >= 0]
    if debug or windows or any(x is not None for x in (seqused_k, alibi_slopes, block_table)):
        raise Unsupported("flash attention with windows, slopes, blocks or the weights it used")
    if causal and begins_q is not None:
        raise Unsupported("causal attention in several sequences of one row")
    _check_seed(ctx, dropout)
    flat = q.ndim == 3
    if flat:
        q, k, v = (composite.unsqueeze(x, 0) for x in (q, k, v))
    mask = _seen(q, k, begins_q, begins_k, _FROM_BOTTOM if causal else 0)
    heads_first = [_turned(x) for x in (q, k, v)]
    out = _turned(attention(ctx, *heads_first, mask, dropout, scale=scale, enable_gqa=True))
    kept = logsumexp_of(*_as_many_heads(*heads_first[:2]), mask, False, scale).cast(float32)
    if flat:
        out, kept = (composite.squeeze(x, 0) for x in (out, kept))
    state, unused = full_near(q, (2,), 0, uint64), full_near(q, (), 0, uint64)
    return out, kept, state, unused, full_near(q, (0,), 0.0, q.dtype)


def _turned(x: Any) -> Any:
    return permuted(x, (0, 2, 1, 3))


def _as_many_heads(q: Any, k: Any) -> tuple[Any, Any]:
    if q.shape[1] == k.shape[1]:
        return q, k
    return q, composite.repeat_interleave(k, q.shape[1] // k.shape[1], 1)


def _check_seed(ctx: Context, dropout: float) -> None:
    """A gradient of PyTorch's would draw from the seed again what was drawn here otherwise."""
    seeds = (u for u in ctx.fx_node.users if u.target is operator.getitem and u.args[1] in (2, 3))
    if dropout > 0.0 and any(reader.op != "output" for seed in seeds for reader in seed.users):
        raise Unsupported("dropout in attention whose seed is read")


def _seen(q: Any, k: Any, begins_q: Any, begins_k: Any, mask_type: int) -> Any:
    """Which key (the last axis) each query sees; None where that is every one."""
    lengths = (q.shape[1], k.shape[1])
    if begins_q is not None:
        of_q, of_k = (
            _sequence_of(b, n) for b, n in zip((begins_q, begins_k), lengths, strict=True)
        )
        return composite.unsqueeze(of_q, 1).apply("equal", of_k)
    if not mask_type:
        return None
    last = arange_near(q, lengths[0]) + (
        lengths[1] - lengths[0] if mask_type == _FROM_BOTTOM else 0
    )
    return composite.unsqueeze(last, 1).apply("greater_equal", arange_near(q, lengths[1]))


def _sequence_of(begins: Any, length: Dim) -> Any:
    """The number of the sequence that each position of a row is in."""
    return searchsorted(begins.cast(int64), arange_near(begins, length), right=True)


def _batch(q: Any, begins: Any) -> Dim:
    batch: Dim = q.shape[0] if begins is None else begins.shape[0] - 1
    return batch


def _padded(kept: Any, begins: Any, length: Dim) -> Any:
    """[batch, heads, length]: what is kept of each query, infinity behind the last of a sequence
    and up to whole blocks."""
    if not isinstance(length, int):
        raise Unsupported("attention of an unknown length that keeps something of each query")
    blocks = -(-length // _BLOCK) * _BLOCK
    if begins is None:
        return kept.apply("pad", padding=(0, 0, 0, 0, 0, blocks - length), value=float("inf"))
    batch, heads, total = _batch(kept, begins), kept.shape[1], kept.shape[2]
    starts = reshaped(composite.narrow(begins.cast(int64), 0, 0, batch), (batch, 1))
    ends = reshaped(composite.narrow(begins.cast(int64), 0, 1, batch), (batch, 1))
    places = starts + arange_near(kept, blocks)
    near = places.apply("minimum", full_near(kept, (), total - 1, int64))
    rows = reshaped(kept, (heads, total)).apply("take", near, axis=1)
    inside = expanded(composite.unsqueeze(places < ends, 1), (batch, heads, blocks))
    return apply("where", inside, permuted(rows, (1, 0, 2)), float("inf"))
