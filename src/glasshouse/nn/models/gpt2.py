"""The decoder GPT-2, with the parameter names of Hugging Face's `GPT2Model`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.nn import init
from glasshouse.nn.activation import Dropout
from glasshouse.nn.container import ModuleList
from glasshouse.nn.embedding import Embedding
from glasshouse.nn.functional import gelu, linear, scaled_dot_product_attention
from glasshouse.nn.module import Module
from glasshouse.nn.norm import LayerNorm
from glasshouse.nn.parameter import Parameter
from glasshouse.tensor.create import arange


@dataclass(frozen=True)
class GPT2Config:
    """The sizes of the small GPT-2."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    layer_norm_epsilon: float = 1e-5
    dropout: float = 0.1


class Conv1D(Module):
    """A linear layer whose weight is [in, out], as GPT-2's checkpoints have it."""

    def __init__(self, inside: int, outside: int) -> None:
        self.inside, self.outside = inside, outside
        self.weight = Parameter(init.normal((inside, outside), 0.02))
        self.bias = Parameter(init.zeros((outside,)))

    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.bias

    def extra_repr(self) -> str:
        return f"nx={self.inside}, nf={self.outside}"


class GPT2Attention(Module):
    """Every position looks at itself and those before it."""

    def __init__(self, config: GPT2Config) -> None:
        self.heads = config.n_head
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = Dropout(config.dropout)

    def forward(self, x: Any) -> Any:
        batch, length, size = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, size // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split([size] * 3, 2)
        )
        out = scaled_dot_product_attention(q, k, v, is_causal=True)
        out = out.transpose(1, 2).reshape(batch, length, size)
        return self.resid_dropout(self.c_proj(out))


class GPT2MLP(Module):
    """The feed-forward network."""

    def __init__(self, config: GPT2Config) -> None:
        self.c_fc = Conv1D(config.n_embd, 4 * config.n_embd)
        self.c_proj = Conv1D(4 * config.n_embd, config.n_embd)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Any) -> Any:
        return self.dropout(self.c_proj(gelu(self.c_fc(x), "tanh")))


class GPT2Block(Module):
    """Attention and feed-forward network, each on normalised input and added to what went in."""

    def __init__(self, config: GPT2Config) -> None:
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = GPT2Attention(config)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(Module):
    """Token ids to logits of the next token; the embedding serves as the last layer too."""

    def __init__(self, config: GPT2Config | None = None) -> None:
        config = config or GPT2Config()
        self.wte = Embedding(config.vocab_size, config.n_embd)
        self.wpe = Embedding(config.n_positions, config.n_embd)
        self.drop = Dropout(config.dropout)
        self.h = ModuleList(GPT2Block(config) for _ in range(config.n_layer))
        self.ln_f = LayerNorm(config.n_embd, config.layer_norm_epsilon)

    def forward(self, input_ids: Any) -> Any:
        positions = arange(input_ids.shape[1]).unsqueeze(0)
        x = self.drop(self.wte(input_ids) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        return linear(self.ln_f(x), self.wte.weight)
