"""How ONNX's attention is spelled: as the core's, where it says the same."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import bool_
from glasshouse.ops import composite
from glasshouse.ops.shape import permuted, reshaped

_KNOWN = {"is_causal", "q_num_heads", "kv_num_heads", "scale", "softcap", "softmax_precision"}


@spell("Attention")
def attention(c: OnnxCall) -> Any:
    """Without a cache, a cap or a look inside; the body that ONNX defines takes the rest."""
    if set(c.attrs) - _KNOWN - {"qk_matmul_output_mode"}:
        raise Unsupported(f"attention with {', '.join(sorted(set(c.attrs) - _KNOWN))}")
    if c.attr("softcap", 0.0) or c.has(4) or c.has(5) or c.has(6) or c.outputs > 1:
        raise Unsupported("attention with a cache, a cap or its scores given out")
    q, k, v = c[0], c[1], c[2]
    flat = q.ndim == 3
    if flat:
        q_heads, kv_heads = c.attr("q_num_heads"), c.attr("kv_num_heads")
        q, k, v = _heads(q, q_heads), _heads(k, kv_heads), _heads(v, kv_heads)
    causal = bool(c.attr("is_causal", 0))
    mask = c[3]
    if mask is not None and mask.dtype is not bool_:
        mask = mask.cast(q.dtype)
    if mask is not None and mask.shape[-1] != k.shape[-2]:
        raise Unsupported(f"a mask of {mask.shape[-1]} keys for {k.shape[-2]}")
    if causal and q.shape[-2] != k.shape[-2]:
        raise Unsupported("causal attention of queries and keys of different lengths")
    given = [] if mask is None else [mask]
    out = q.apply("attention", k, v, *given, causal=causal, scale=c.attr("scale"))
    if not flat:
        return out
    batch, heads, length, size = out.shape
    return reshaped(permuted(out, [0, 2, 1, 3]), (batch, length, heads * size))


def _heads(x: Any, count: int) -> Any:
    batch, length, size = x.shape
    return permuted(composite.reshape(x, [batch, length, count, size // count]), [0, 2, 1, 3])
