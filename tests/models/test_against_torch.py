"""Outputs and gradients of `nn.models`, against PyTorch modules with the same weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.nn import models
from models import torch_models
from models.compare_torch import compare


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def ids(batch: int, length: int, vocabulary: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1, vocabulary, (batch, length))


def test_resnet18_training() -> None:
    model = models.resnet18(num_classes=10)
    reference = torch_models.ResNet((2, 2, 2, 2), False, 10)
    compare(model, reference, [_image(4, 48)], rounding=3)


def test_resnet18_inference() -> None:
    reference = torch_models.ResNet((2, 2, 2, 2), False, 10)
    with torch.no_grad():
        for _ in range(2):  # statistics that differ from their start
            reference(torch.randn(2, 3, 32, 32))
    compare(models.resnet18(num_classes=10).eval(), reference.eval(), [_image(2, 32)])


def test_bottlenecks_training() -> None:
    model = models.ResNet(models.resnet.Bottleneck, (1, 1, 1, 1), 10)
    compare(model, torch_models.ResNet((1, 1, 1, 1), True, 10), [_image(4, 32)], rounding=3)


def test_bert() -> None:
    config = models.BertConfig(num_hidden_layers=2, vocab_size=100, dropout=0.0)
    mask = np.ones((2, 12), np.int64)
    mask[1, 7:] = 0
    compare(models.Bert(config), torch_models.Bert(config), [ids(2, 12, 100), mask])


def test_gpt2() -> None:
    config = models.GPT2Config(n_layer=2, vocab_size=100, n_positions=32, dropout=0.0)
    compare(models.GPT2(config), torch_models.GPT2(config), [ids(2, 12, 100)])


def test_llama() -> None:
    config = models.LlamaConfig(
        vocab_size=100, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2,
    )  # fmt: skip
    compare(models.Llama(config), torch_models.Llama(config), [ids(2, 12, 100)])


def test_vit() -> None:
    config = models.ViTConfig(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128,
        num_classes=10,
    )  # fmt: skip
    compare(models.ViT(config), torch_models.ViT(config), [_image(2, 32)])


def _image(batch: int, size: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, 3, size, size), np.float32)
