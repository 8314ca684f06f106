"""Layers that PyTorch computes by one kernel in eval mode are taken apart by `torch.compile`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from glasshouse.frontend import dynamo

HIDDEN = torch.tensor([[False] * 5, [False, False, False, True, True]])
PADDING = torch.tensor([[False], [True]])
UNSEEN = torch.zeros(5, 5).index_fill_(0, torch.tensor([1]), float("-inf"))
CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)


class Layer(nn.Module):
    def __init__(self, layer: nn.Module, **kwargs: Any) -> None:
        super().__init__()
        self.layer, self.kwargs = layer, kwargs

    def forward(self, x: torch.Tensor) -> Any:
        if isinstance(self.layer, nn.MultiheadAttention):
            return self.layer(x, x, x, **self.kwargs)
        return self.layer(x, **self.kwargs)


def _encoder(**kwargs: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, **kwargs)


def _heads() -> nn.Module:
    return nn.MultiheadAttention(16, 2, batch_first=True)


CASES = {
    "plain": lambda: Layer(_encoder()),
    "gelu, norm first": lambda: Layer(_encoder(activation="gelu", norm_first=True)),
    "padding": lambda: Layer(_encoder(), src_key_padding_mask=HIDDEN),
    "causal": lambda: Layer(_encoder(), src_mask=CAUSAL),
    "both masks": lambda: Layer(_encoder(), src_mask=CAUSAL.bool(), src_key_padding_mask=HIDDEN),
    "a numbered mask": lambda: Layer(_encoder(), src_mask=CAUSAL.clamp(min=-3)),
    "a query that sees nothing": lambda: Layer(_encoder(), src_mask=UNSEEN),
    "a sentence of padding": lambda: Layer(_encoder(), src_key_padding_mask=HIDDEN | PADDING),
    "heads that see nothing": lambda: Layer(_heads(), attn_mask=UNSEEN),
    "heads": lambda: Layer(_heads()),
    "heads, each one's weights": lambda: Layer(_heads(), average_attn_weights=False),
    "heads, no weights": lambda: Layer(_heads(), need_weights=False),
    "heads with padding": lambda: Layer(_heads(), key_padding_mask=HIDDEN),
    "heads with a mask": lambda: Layer(_heads(), attn_mask=CAUSAL),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_layers_are_taken_apart(name: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    dynamo.reset()
    model, x = CASES[name]().eval(), torch.randn(2, 5, 16)
    compiled = torch.compile(model, backend="glasshouse")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5, equal_nan=True)
    graphs = [c.graph for c in dynamo.compiled_graphs()]
    assert graphs
    assert not [n for g in graphs for n in g.nodes if n.op.name == "opaque"]
