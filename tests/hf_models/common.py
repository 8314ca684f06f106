"""Sizes and inputs that the small models share, and the list that `case` puts them into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Case = tuple[torch.nn.Module, dict[str, Any]]
CASES: dict[str, Callable[[], Case]] = {}

TEXT = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 37, "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
NOPOS = {k: v for k, v in TEXT.items() if k != "max_position_embeddings"}
SEQ = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37, "max_position_embeddings": 64, "decoder_start_token_id": 2,
    "forced_eos_token_id": 2, **TOKENS,
}  # fmt: skip
CONV = {
    "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}  # fmt: skip


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def ids(length: int = 7) -> torch.Tensor:
    return torch.randint(3, 99, (2, length))


def mask(length: int = 7) -> torch.Tensor:
    kept = torch.ones(2, length, dtype=torch.long)
    kept[1, -2:] = 0
    return kept


def text() -> dict[str, Any]:
    return {"input_ids": ids(), "attention_mask": mask()}


def image(size: int = 32) -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, size, size)}


def pair() -> dict[str, Any]:
    """Text, and what a decoder has said so far."""
    return {**text(), "decoder_input_ids": ids(5)}


def sound(length: int = 1000) -> dict[str, Any]:
    return {"input_values": torch.randn(2, length)}


def lively(model: torch.nn.Module) -> torch.nn.Module:
    """Weights as large as layers need to pass on what they get; a fresh model fades to nothing."""
    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=1.4 / weight[0].numel() ** 0.5)
        elif name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.1)
    return model
