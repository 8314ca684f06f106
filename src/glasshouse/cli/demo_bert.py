"""The model that demo.html opens on: BERT, compiled, measured, the slowest kernel in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasshouse.record.reader import Recording

WORDS = 2000
"""The page shows no weights; a vocabulary of 30,000 would only take time to make up."""
START: dict[str, Any] = {
    "color": "time",
    "select": "slowest",
    "hint": "This is the slowest kernel, with its code and the line it comes from. "
    "Press [ and ] to step through the passes that made it, k for all kernels.",
}
"""How the page starts (docs/guides/viewer.md)."""


def bert_recording(layers: int, hidden: int, length: int) -> Recording | None:
    """BERT's encoder with random weights, compiled and run; None where there is no compiler."""
    import numpy as np

    from glasshouse.cli.demo_compiled import compiled, show_kernels
    from glasshouse.nn.models.bert import Bert, BertConfig
    from glasshouse.tensor.trace import trace

    config = BertConfig(
        vocab_size=WORDS, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64), intermediate_size=4 * hidden,
        max_position_embeddings=max(length, 2),
    )  # fmt: skip
    model = Bert(config)
    model.eval()
    words = np.random.default_rng(0).integers(1, WORDS, (1, length))
    print(f"\nBERT, {layers} layers of {hidden}, {length} words:")
    graph = trace(model, words)
    graph.name = "BERT"
    module = compiled(graph, [words])
    if module is None:
        return None
    recording = module.recording(words, count=5)
    show_kernels(recording)
    return recording
