"""Models with a batch and a length that are not known yet: captured once, right for every size."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.ir import verify
from glasshouse.nn import models
from glasshouse.numpy_ref import run

TOKENS = gh.spec(("batch", "length"), "int64")
SIZES = {"batch": 2, "length": 7}


def bert() -> nn.Module:
    config = models.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, dropout=0.0,
    )  # fmt: skip
    return models.Bert(config)


def gpt2() -> nn.Module:
    return models.GPT2(
        models.GPT2Config(50, n_positions=16, n_embd=32, n_layer=2, n_head=4, dropout=0.0)
    )


def llama() -> nn.Module:
    config = models.LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    return models.Llama(config)


def vit() -> nn.Module:
    config = models.ViTConfig(
        image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32,
        num_classes=5,
    )  # fmt: skip
    return models.ViT(config)


CASES = {
    "bert": (bert, [TOKENS, TOKENS], "float32[batch, length, 32]"),
    "gpt2": (gpt2, [TOKENS], "float32[batch, length, 50]"),
    "llama": (llama, [TOKENS], "float32[batch, length, 50]"),
    "vit": (vit, [gh.spec(("batch", 3, 16, 16))], "float32[batch, 5]"),
}


def arrays(graph: gh.Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    made = []
    for value in graph.inputs:
        shape = [d if isinstance(d, int) else SIZES[str(d)] for d in value.type.shape]
        floats = value.type.dtype.is_float
        made.append(rng.standard_normal(shape, "f") if floats else rng.integers(1, 2, shape))
    return made


@pytest.mark.parametrize("name", CASES)
def test_forward(name: str) -> None:
    make, specs, wanted = CASES[name]
    model = make().eval()
    graph = gh.trace(model, *specs)
    verify(graph)
    assert str(graph.outputs[0].type) == wanted
    inputs = arrays(graph)
    lazy = model(*[gh.array(a) for a in inputs])
    for found, tensor in zip(
        run(graph, inputs), lazy if isinstance(lazy, tuple) else (lazy,), strict=True
    ):
        np.testing.assert_allclose(found, tensor.numpy(), 1e-6, 1e-7)


@pytest.mark.parametrize("name", CASES)
def test_training_step(name: str) -> None:
    make, specs, _ = CASES[name]
    model = make()
    optimizer = optim.SGD(model.named_parameters(), 0.01)

    def step(*inputs: gh.Tensor) -> gh.Tensor:
        out = model(*inputs)
        loss = (out[0] if isinstance(out, tuple) else out).square().mean()
        optimizer.step(loss)
        return loss

    graph = gh.trace(step, *specs)
    verify(graph)
    inputs = arrays(graph)
    state: dict[str, np.ndarray] = {}
    captured = [float(run(graph, inputs, variables=state)[0]) for _ in range(2)]
    lazy = [step(*[gh.array(a) for a in inputs]).item() for _ in range(2)]
    np.testing.assert_allclose(captured, lazy, 1e-5)
    assert captured[0] != captured[1]
