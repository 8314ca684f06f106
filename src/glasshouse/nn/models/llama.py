"""A Llama-style decoder, with the parameter names of Hugging Face's `LlamaForCausalLM`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.nn.container import ModuleList
from glasshouse.nn.embedding import Embedding
from glasshouse.nn.functional import scaled_dot_product_attention, silu
from glasshouse.nn.linear import Linear
from glasshouse.nn.module import Module
from glasshouse.nn.norm import RMSNorm
from glasshouse.ops.pieces import concat
from glasshouse.tensor.create import arange


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a one-billion-parameter Llama 3."""

    vocab_size: int = 128256
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 16
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0


def rotary_angles(length: Any, dim: int, theta: float) -> tuple[Any, Any]:
    """Cosine and sine of position times frequency, [length, dim]: each frequency twice."""
    frequencies = theta ** (arange(0, dim, 2, dtype="float32") * (-1.0 / dim))
    angles = arange(length, dtype="float32").unsqueeze(1) * frequencies.unsqueeze(0)
    both = concat(angles, angles, axis=1)
    return both.cos(), both.sin()


def rotate(x: Any, cos: Any, sin: Any) -> Any:
    """Each pair (i, i + dim / 2) of features turned by its position's angle."""
    half = x.shape[-1] // 2
    first, second = x.split([half, half], -1)
    return x * cos + concat(-second, first, axis=-1) * sin


class LlamaAttention(Module):
    """Causal attention with rotary positions; several heads of queries share keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        self.heads, self.shared = config.num_attention_heads, config.num_key_value_heads
        self.dim = config.hidden_size // self.heads
        size, narrow = self.heads * self.dim, self.shared * self.dim
        self.q_proj = Linear(config.hidden_size, size, bias=False)
        self.k_proj = Linear(config.hidden_size, narrow, bias=False)
        self.v_proj = Linear(config.hidden_size, narrow, bias=False)
        self.o_proj = Linear(size, config.hidden_size, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        batch, length, _ = x.shape
        q = self.q_proj(x).reshape(batch, length, self.heads, self.dim).transpose(1, 2)
        k = self.k_proj(x).reshape(batch, length, self.shared, self.dim).transpose(1, 2)
        v = self.v_proj(x).reshape(batch, length, self.shared, self.dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        out = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, self.heads * self.dim))


class LlamaMLP(Module):
    """The gated feed-forward network."""

    def __init__(self, config: LlamaConfig) -> None:
        size, wide = config.hidden_size, config.intermediate_size
        self.gate_proj = Linear(size, wide, bias=False)
        self.up_proj = Linear(size, wide, bias=False)
        self.down_proj = Linear(wide, size, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(Module):
    """Attention and feed-forward network, each on normalised input and added to what went in."""

    def __init__(self, config: LlamaConfig) -> None:
        self.self_attn = LlamaAttention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(Module):
    """Token ids to hidden states."""

    def __init__(self, config: LlamaConfig) -> None:
        self.dim = config.hidden_size // config.num_attention_heads
        self.theta = config.rope_theta
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList(LlamaLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids: Any) -> Any:
        x = self.embed_tokens(input_ids)
        cos, sin = rotary_angles(input_ids.shape[1], self.dim, self.theta)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Llama(Module):
    """Token ids to logits of the next token."""

    def __init__(self, config: LlamaConfig | None = None) -> None:
        config = config or LlamaConfig()
        self.model = LlamaModel(config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids: Any) -> Any:
        return self.lm_head(self.model(input_ids))
