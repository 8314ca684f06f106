"""Hugging Face `generate()` through `torch.compile`: the same tokens from two graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo

from glasshouse.frontend import dynamo

pytestmark = pytest.mark.slow
transformers = pytest.importorskip("transformers")

TOKENS = {"vocab_size": 500, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}


def _gpt2() -> Any:
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=128, **TOKENS)
    return transformers.GPT2LMHeadModel(config)


def _llama() -> Any:
    config = transformers.LlamaConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=96, max_position_embeddings=128, **TOKENS,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("make", [_gpt2, _llama])
def test_two_graphs_generate_the_same_tokens(make: Any, cache: str) -> None:
    torch.manual_seed(0)
    model = make().eval()
    prompts = [torch.randint(3, 500, (1, length)) for length in (7, 12, 20)]
    options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}  # compiled below
    expected = [model.generate(p, **options) for p in prompts]
    torch._dynamo.reset()
    dynamo.reset()
    model.forward = torch.compile(model.forward, backend="glasshouse", dynamic=True)
    for prompt, wanted in zip(prompts, expected, strict=True):
        assert torch.equal(model.generate(prompt, **options), wanted)
    graphs = dynamo.compiled_graphs()
    assert all(g.runner.module is not None for g in graphs), "none on the reference"
    assert len(graphs) <= 2, [g.phase for g in graphs]


def _cache(model: Any, length: int) -> Any:
    """A static cache whose tensors are there before the first call."""
    config = model.config
    cache = transformers.StaticCache(config=config, max_cache_len=length)
    cache.early_initialization(
        batch_size=1,
        num_heads=getattr(config, "num_key_value_heads", config.num_attention_heads),
        head_dim=config.hidden_size // config.num_attention_heads,
        dtype=model.dtype,
        device=model.device,
    )
    return cache


@pytest.mark.parametrize("make", [_gpt2, _llama])
def test_prompts_of_one_token_need_no_graph_of_their_own(make: Any) -> None:
    torch.manual_seed(0)
    model = make().eval()
    prompts = [torch.randint(3, 500, (1, length)) for length in (7, 1, 12, 1)]

    def generated() -> list[torch.Tensor]:
        options = {"max_new_tokens": 6, "do_sample": False, "disable_compile": True}
        return [model.generate(p, past_key_values=_cache(model, 32), **options) for p in prompts]

    expected = generated()
    torch._dynamo.reset()
    dynamo.reset()
    model.forward = torch.compile(model.forward, backend="glasshouse", dynamic=True)
    assert all(torch.equal(a, b) for a, b in zip(generated(), expected, strict=True))
    graphs = dynamo.compiled_graphs()
    assert all(g.runner.module is not None for g in graphs), "none on the reference"
    assert len(graphs) <= 2, [g.phase for g in graphs]


@pytest.mark.parametrize(
    ("make", "cache", "options"),
    [
        (_gpt2, "dynamic", {"num_beams": 3}),
        (_gpt2, "static", {"do_sample": True, "top_k": 20}),
        (_llama, "dynamic", {"repetition_penalty": 1.7}),
        (_llama, "static", {"num_beams": 2, "do_sample": True}),
    ],
)
def test_two_graphs_serve_padded_batches_however_tokens_are_chosen(
    make: Any, cache: str, options: dict[str, Any]
) -> None:
    """Rows of a batch are padded on their left, each by another count."""
    torch.manual_seed(0)
    model = make().eval()
    options = {"max_new_tokens": 8, "do_sample": False, **options}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    prompts = []
    for length in (7, 11, 30):  # none as long as the batch has rows: Dynamo tells that apart
        ids = torch.randint(3, 500, (3, length))
        mask = (torch.arange(length) >= torch.tensor([[0], [1], [4]])).long()
        prompts.append({"input_ids": ids * mask, "attention_mask": mask})

    def generated() -> list[torch.Tensor]:
        found = []
        for seed, prompt in enumerate(prompts):
            torch.manual_seed(seed)
            found.append(model.generate(**prompt, **options))
        return found

    expected = generated()
    torch._dynamo.reset()
    dynamo.reset()
    model.forward = torch.compile(model.forward, backend="glasshouse", dynamic=True)
    for tokens, wanted in zip(generated(), expected, strict=True):
        assert torch.equal(tokens, wanted)
    graphs = dynamo.compiled_graphs()
    assert all(g.runner.module is not None for g in graphs), "none on the reference"
    assert len(graphs) <= 2, [g.phase for g in graphs]
