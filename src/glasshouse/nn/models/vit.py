"""The vision transformer ViT, with torchvision's parameter names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.nn import init
from glasshouse.nn.activation import GELU, Dropout
from glasshouse.nn.attention import MultiheadAttention
from glasshouse.nn.container import Sequential
from glasshouse.nn.conv import Conv2d
from glasshouse.nn.linear import Linear
from glasshouse.nn.module import Module
from glasshouse.nn.norm import LayerNorm
from glasshouse.nn.parameter import Parameter
from glasshouse.ops.pieces import concat


@dataclass(frozen=True)
class ViTConfig:
    """The sizes of ViT-B/16."""

    image_size: int = 224
    patch_size: int = 16
    num_layers: int = 12
    num_heads: int = 12
    hidden_dim: int = 768
    mlp_dim: int = 3072
    num_classes: int = 1000
    dropout: float = 0.0


class EncoderLayer(Module):
    """Attention and feed-forward network, each on normalised input and added to what went in."""

    def __init__(self, config: ViTConfig) -> None:
        size = config.hidden_dim
        self.ln_1 = LayerNorm(size, 1e-6)
        self.self_attention = MultiheadAttention(size, config.num_heads, batch_first=True)
        self.dropout = Dropout(config.dropout)
        self.ln_2 = LayerNorm(size, 1e-6)
        self.mlp = Sequential(
            Linear(size, config.mlp_dim),
            GELU(),
            Dropout(config.dropout),
            Linear(config.mlp_dim, size),
            Dropout(config.dropout),
        )

    def forward(self, x: Any) -> Any:
        y = self.ln_1(x)
        attended, _ = self.self_attention(y, y, y)
        x = x + self.dropout(attended)
        return x + self.mlp(self.ln_2(x))


class Encoder(Module):
    """Positions added, then the layers."""

    def __init__(self, length: int, config: ViTConfig) -> None:
        self.pos_embedding = Parameter(init.normal((1, length, config.hidden_dim), 0.02))
        self.dropout = Dropout(config.dropout)
        self.layers = Sequential(
            {f"encoder_layer_{i}": EncoderLayer(config) for i in range(config.num_layers)}
        )
        self.ln = LayerNorm(config.hidden_dim, 1e-6)

    def forward(self, x: Any) -> Any:
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class ViT(Module):
    """An image as a sequence of patches, classified by an extra first position."""

    def __init__(self, config: ViTConfig | None = None) -> None:
        config = config or ViTConfig()
        size, patch = config.hidden_dim, config.patch_size
        self.hidden_dim = size
        self.conv_proj = Conv2d(3, size, patch, patch)
        self.class_token = Parameter(init.zeros((1, 1, size)))
        self.encoder = Encoder((config.image_size // patch) ** 2 + 1, config)
        self.heads = Sequential({"head": Linear(size, config.num_classes)})

    def forward(self, x: Any) -> Any:
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        batch = patches.shape[0]
        first = self.class_token.expand(batch, 1, self.hidden_dim)
        x = self.encoder(concat(first, patches, axis=1))
        return self.heads(x[:, 0])
