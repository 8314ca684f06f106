"""Decoders of text, from small configs."""

from __future__ import annotations

import transformers as T

from hf_models.common import GROUPED, TEXT, TOKENS, Case, case, text


@case
def gpt2() -> Case:
    config = T.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    return T.GPT2LMHeadModel(config), text()


@case
def gpt_neox() -> Case:
    return T.GPTNeoXForCausalLM(T.GPTNeoXConfig(**TEXT, **TOKENS)), text()


@case
def opt() -> Case:
    config = T.OPTConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=37,
        word_embed_proj_dim=32, max_position_embeddings=64, **TOKENS,
    )  # fmt: skip
    return T.OPTForCausalLM(config), text()


@case
def llama() -> Case:
    return T.LlamaForCausalLM(T.LlamaConfig(**GROUPED, **TOKENS)), text()


@case
def mistral() -> Case:
    return T.MistralForCausalLM(T.MistralConfig(**GROUPED, **TOKENS, sliding_window=4)), text()


@case
def qwen2() -> Case:
    return T.Qwen2ForCausalLM(T.Qwen2Config(**GROUPED, **TOKENS)), text()


@case
def qwen3() -> Case:
    return T.Qwen3ForCausalLM(T.Qwen3Config(**GROUPED, **TOKENS, head_dim=8)), text()


@case
def gemma2() -> Case:
    config = T.Gemma2Config(**GROUPED, **TOKENS, head_dim=8, sliding_window=4)
    return T.Gemma2ForCausalLM(config), text()


@case
def phi3() -> Case:
    return T.Phi3ForCausalLM(T.Phi3Config(**GROUPED, **TOKENS)), text()


@case
def falcon() -> Case:
    config = T.FalconConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **TOKENS
    )
    return T.FalconForCausalLM(config), text()


@case
def gpt_neo() -> Case:
    return T.GPTNeoForCausalLM(
        T.GPTNeoConfig(
            vocab_size=99,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=4,
            max_position_embeddings=64,
            intermediate_size=37,
            bos_token_id=1,
            eos_token_id=2,
        )
    ), text()


@case
def gptj() -> Case:
    return T.GPTJForCausalLM(
        T.GPTJConfig(
            vocab_size=99,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            rotary_dim=4,
            bos_token_id=1,
            eos_token_id=2,
        )
    ), text()


@case
def bloom() -> Case:
    return T.BloomForCausalLM(
        T.BloomConfig(vocab_size=99, hidden_size=32, n_layer=2, n_head=4, **TOKENS)
    ), text()


@case
def phi() -> Case:
    return T.PhiForCausalLM(T.PhiConfig(**GROUPED, **TOKENS)), text()


@case
def gemma() -> Case:
    return T.GemmaForCausalLM(T.GemmaConfig(**GROUPED, **TOKENS, head_dim=8)), text()


@case
def gemma3() -> Case:
    return T.Gemma3ForCausalLM(
        T.Gemma3TextConfig(**GROUPED, **TOKENS, head_dim=8, sliding_window=4)
    ), text()


@case
def stablelm() -> Case:
    return T.StableLmForCausalLM(T.StableLmConfig(**GROUPED, **TOKENS)), text()


@case
def starcoder2() -> Case:
    return T.Starcoder2ForCausalLM(T.Starcoder2Config(**GROUPED, **TOKENS)), text()


@case
def olmo() -> Case:
    return T.OlmoForCausalLM(T.OlmoConfig(**GROUPED, **TOKENS)), text()


@case
def olmo2() -> Case:
    return T.Olmo2ForCausalLM(T.Olmo2Config(**GROUPED, **TOKENS)), text()


@case
def cohere() -> Case:
    return T.CohereForCausalLM(T.CohereConfig(**GROUPED, **TOKENS)), text()


@case
def mpt() -> Case:
    return T.MptForCausalLM(
        T.MptConfig(d_model=32, n_heads=4, n_layers=2, vocab_size=99, max_seq_len=64)
    ), text()


@case
def gpt_bigcode() -> Case:
    return T.GPTBigCodeForCausalLM(
        T.GPTBigCodeConfig(
            vocab_size=99,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            n_inner=37,
            bos_token_id=1,
            eos_token_id=2,
        )
    ), text()


@case
def codegen() -> Case:
    return T.CodeGenForCausalLM(
        T.CodeGenConfig(
            vocab_size=99,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            rotary_dim=4,
            n_ctx=64,
            bos_token_id=1,
            eos_token_id=2,
        )
    ), text()


@case
def ctrl() -> Case:
    return T.CTRLLMHeadModel(
        T.CTRLConfig(vocab_size=99, n_embd=32, dff=37, n_layer=2, n_head=4, n_positions=64)
    ), text()


@case
def openai_gpt() -> Case:
    return T.OpenAIGPTLMHeadModel(
        T.OpenAIGPTConfig(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    ), text()


@case
def xglm() -> Case:
    return T.XGLMForCausalLM(
        T.XGLMConfig(
            vocab_size=99,
            d_model=32,
            ffn_dim=37,
            num_layers=2,
            attention_heads=4,
            max_position_embeddings=64,
            **TOKENS,
        )
    ), text()


@case
def biogpt() -> Case:
    return T.BioGptForCausalLM(T.BioGptConfig(**TEXT, **TOKENS)), text()


@case
def persimmon() -> Case:
    return T.PersimmonForCausalLM(T.PersimmonConfig(**TEXT, **TOKENS)), text()


@case
def glm() -> Case:
    return T.GlmForCausalLM(T.GlmConfig(**GROUPED, **TOKENS, head_dim=8)), text()


@case
def granite() -> Case:
    return T.GraniteForCausalLM(T.GraniteConfig(**GROUPED, **TOKENS)), text()


@case
def nemotron() -> Case:
    return T.NemotronForCausalLM(T.NemotronConfig(**GROUPED, **TOKENS, head_dim=8)), text()


@case
def diffllama() -> Case:
    return T.DiffLlamaForCausalLM(T.DiffLlamaConfig(**GROUPED, **TOKENS)), text()


@case
def smollm3() -> Case:
    return T.SmolLM3ForCausalLM(T.SmolLM3Config(**GROUPED, **TOKENS)), text()


@case
def helium() -> Case:
    return T.HeliumForCausalLM(T.HeliumConfig(**GROUPED, **TOKENS, head_dim=8)), text()


@case
def bitnet() -> Case:
    return T.BitNetForCausalLM(T.BitNetConfig(**GROUPED, **TOKENS)), text()
