"""The encoder BERT, with the parameter names of Hugging Face's `BertModel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.nn.activation import Dropout
from glasshouse.nn.container import ModuleList
from glasshouse.nn.embedding import Embedding
from glasshouse.nn.functional import gelu, scaled_dot_product_attention
from glasshouse.nn.linear import Linear
from glasshouse.nn.module import Module
from glasshouse.nn.norm import LayerNorm
from glasshouse.tensor.create import arange, zeros_like


@dataclass(frozen=True)
class BertConfig:
    """The sizes of BERT-base."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1


class BertEmbeddings(Module):
    """Words, positions and segments, added and normalised."""

    def __init__(self, config: BertConfig) -> None:
        size = config.hidden_size
        self.word_embeddings = Embedding(config.vocab_size, size, padding_idx=0)
        self.position_embeddings = Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = Embedding(config.type_vocab_size, size)
        self.LayerNorm = LayerNorm(size, config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, input_ids: Any, token_type_ids: Any) -> Any:
        positions = arange(input_ids.shape[1]).unsqueeze(0)
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        x = x + self.position_embeddings(positions)
        return self.dropout(self.LayerNorm(x))


class BertSelfAttention(Module):
    """Every position looks at every other that the mask allows."""

    def __init__(self, config: BertConfig) -> None:
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.query = Linear(size, size)
        self.key = Linear(size, size)
        self.value = Linear(size, size)

    def forward(self, x: Any, mask: Any) -> Any:
        batch, length, size = x.shape

        def heads(y: Any) -> Any:
            return y.reshape(batch, length, self.heads, size // self.heads).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        out = scaled_dot_product_attention(q, k, v, mask)
        return out.transpose(1, 2).reshape(batch, length, size)


class BertResidual(Module):
    """A projection added to what went in, then normalised."""

    def __init__(self, inside: int, config: BertConfig) -> None:
        self.dense = Linear(inside, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Any, residual: Any) -> Any:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class BertAttention(Module):
    """Self-attention and its projection."""

    def __init__(self, config: BertConfig) -> None:
        self.add_module("self", BertSelfAttention(config))
        self.output = BertResidual(config.hidden_size, config)

    def forward(self, x: Any, mask: Any) -> Any:
        attend: Module = self.self
        return self.output(attend(x, mask), x)


class BertIntermediate(Module):
    """The wide part of the feed-forward network."""

    def __init__(self, config: BertConfig) -> None:
        self.dense = Linear(config.hidden_size, config.intermediate_size)

    def forward(self, x: Any) -> Any:
        return gelu(self.dense(x))


class BertLayer(Module):
    """Attention, then a feed-forward network."""

    def __init__(self, config: BertConfig) -> None:
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertResidual(config.intermediate_size, config)

    def forward(self, x: Any, mask: Any) -> Any:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class BertEncoder(Module):
    """The layers."""

    def __init__(self, config: BertConfig) -> None:
        self.layer = ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Any, mask: Any) -> Any:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class BertPooler(Module):
    """The first position, projected."""

    def __init__(self, config: BertConfig) -> None:
        self.dense = Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Any) -> Any:
        return self.dense(x[:, 0]).tanh()


class Bert(Module):
    """Token ids to hidden states and a pooled state; a mask is 1 where a token counts."""

    def __init__(self, config: BertConfig | None = None) -> None:
        config = config or BertConfig()
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)

    def forward(
        self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None
    ) -> tuple[Any, Any]:
        if token_type_ids is None:
            token_type_ids = zeros_like(input_ids)
        mask = None if attention_mask is None else attention_mask.cast("bool").unsqueeze([1, 2])
        hidden = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        return hidden, self.pooler(hidden)
