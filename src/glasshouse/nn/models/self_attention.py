"""The model of `glasshouse demo`: one layer of self-attention, as in BERT."""

from __future__ import annotations

import math
from typing import Any

from glasshouse import nn


class SelfAttention(nn.Module):
    """Every position looks at all others: softmax(Q K^T / sqrt(d) + mask) V for each head."""

    def __init__(self, hidden: int = 768, heads: int = 12) -> None:
        self.heads = heads
        self.head_size = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)

    def split_heads(self, x: Any) -> Any:
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, x: Any, mask: Any) -> Any:
        query = self.split_heads(self.query(x))
        key = self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        scores = query @ key.permute(0, 1, 3, 2) / math.sqrt(self.head_size)
        weights = (scores + mask).softmax(-1)
        return (weights @ value).permute(0, 2, 1, 3).reshape(*x.shape)
