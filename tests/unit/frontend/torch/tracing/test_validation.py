"""Questions about data that PyTorch asks in Python: graphs are captured without them."""

import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.frontend import dynamo


class _Causal(nn.Module):
    """An encoder and a decoder that are given masks, as the documentation of both shows."""

    def __init__(self) -> None:
        super().__init__()
        made = {"dim_feedforward": 32, "dropout": 0.0, "batch_first": True}
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, **made), 1)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, **made), 1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        memory = self.encoder(x, mask=mask)
        return self.decoder(x, memory, tgt_mask=mask)


CAUSAL = nn.Transformer.generate_square_subsequent_mask(6)


@pytest.fixture
def model() -> _Causal:
    torch.manual_seed(0)
    return _Causal().eval()


def _other() -> torch.Tensor:
    """Of the causal mask's size, with one more place that is hidden."""
    other = CAUSAL.clone()
    other[5, 0] = -torch.inf
    return other


def test_masks_are_applied_as_they_are_given(model: _Causal) -> None:
    x = torch.randn(2, 6, 16)
    compiled = gh.compile(model, x, CAUSAL, progress=False)
    assert compiled.graph  # one graph, not parts around the question
    for mask in (CAUSAL, _other()):
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, mask), model(x, mask))


def test_dynamo_captures_layers_with_masks_whole(model: _Causal) -> None:
    torch._dynamo.reset()
    dynamo.reset()
    run = torch.compile(model, backend="glasshouse", fullgraph=True)
    x = torch.randn(2, 6, 16)
    for mask in (CAUSAL, _other()):
        with torch.no_grad():
            torch.testing.assert_close(run(x, mask), model(x, mask))
    assert len(dynamo.compiled_graphs()) == 1


def test_layers_ask_again_once_a_model_is_captured(model: _Causal) -> None:
    from torch.nn.modules.transformer import _detect_is_causal_mask

    gh.trace(model, torch.randn(2, 6, 16), CAUSAL)
    assert _detect_is_causal_mask(CAUSAL)
    assert not _detect_is_causal_mask(_other())
