"""The embedding layer: a row of a table for each index."""

from __future__ import annotations

from typing import Any

from glasshouse.nn import init
from glasshouse.nn.functional import embedding
from glasshouse.nn.module import Module
from glasshouse.nn.parameter import Parameter
from glasshouse.tensor.create import arange


class Embedding(Module):
    """`weight[indices]`; the gradient of the row `padding_idx` is dropped."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        table = init.normal((num_embeddings, embedding_dim), 1.0)
        if self.padding_idx is not None:
            rows = arange(num_embeddings).unsqueeze(1)
            table = table.masked_fill(rows == self.padding_idx, 0.0)
        self.weight = Parameter(table)

    def forward(self, indices: Any) -> Any:
        found = embedding(indices, self.weight)
        if self.padding_idx is None or not self.training:
            return found
        padding = (indices == self.padding_idx).unsqueeze(-1)
        return padding.apply("where", found.detach(), found)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
