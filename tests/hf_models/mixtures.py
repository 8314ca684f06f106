"""Decoders of text with experts, or with a state in the place of attention, from small configs."""

from __future__ import annotations

import transformers as T

from hf_models.common import GROUPED, TOKENS, Case, case, ids, text


@case
def mixtral() -> Case:
    # PyTorch's grouped product wants rows of a multiple of 16 bytes.
    sizes = {**GROUPED, "intermediate_size": 40}
    config = T.MixtralConfig(**sizes, **TOKENS, num_local_experts=4, num_experts_per_tok=2)
    return T.MixtralForCausalLM(config), text()


@case
def mamba() -> Case:
    config = T.MambaConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, **TOKENS
    )
    return T.MambaForCausalLM(config), {"input_ids": ids()}


@case
def mamba2() -> Case:
    config = T.Mamba2Config(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8,
        n_groups=2, chunk_size=4, **TOKENS,
    )  # fmt: skip
    return T.Mamba2ForCausalLM(config), {"input_ids": ids()}


@case
def qwen2_moe() -> Case:
    return T.Qwen2MoeForCausalLM(
        T.Qwen2MoeConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=24,
        )
    ), text()


@case
def qwen3_moe() -> Case:
    return T.Qwen3MoeForCausalLM(
        T.Qwen3MoeConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            head_dim=8,
        )
    ), text()


@case
def rwkv() -> Case:
    return T.RwkvForCausalLM(
        T.RwkvConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            attention_hidden_size=32,
            intermediate_size=40,
            context_length=16,
            bos_token_id=1,
            eos_token_id=2,
        )
    ), {"input_ids": ids(), "use_cache": False}


@case
def olmoe() -> Case:
    return T.OlmoeForCausalLM(
        T.OlmoeConfig(
            **{**GROUPED, "intermediate_size": 40}, **TOKENS, num_experts=4, num_experts_per_tok=2
        )
    ), text()


@case
def deepseek_v3() -> Case:
    return T.DeepseekV3ForCausalLM(
        T.DeepseekV3Config(
            **{**GROUPED, "num_key_value_heads": 4, "intermediate_size": 40},
            **TOKENS,
            moe_intermediate_size=16,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_group=2,
            topk_group=1,
            first_k_dense_replace=1,
            q_lora_rank=8,
            kv_lora_rank=8,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=8,
        )
    ), text()


@case
def gpt_oss() -> Case:
    return T.GptOssForCausalLM(
        T.GptOssConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            num_local_experts=4,
            num_experts_per_tok=2,
            head_dim=8,
            sliding_window=4,
        )
    ), text()


@case
def jamba() -> Case:
    return T.JambaForCausalLM(
        T.JambaConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            num_experts=2,
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
            mamba_d_state=8,
            use_mamba_kernels=False,
        )
    ), {**text(), "use_cache": False}


@case
def falcon_mamba() -> Case:
    return T.FalconMambaForCausalLM(
        T.FalconMambaConfig(
            vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, **TOKENS
        )
    ), {"input_ids": ids()}


@case
def recurrent_gemma() -> Case:
    return T.RecurrentGemmaForCausalLM(
        T.RecurrentGemmaConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=40,
            lru_width=32,
            attention_window_size=8,
            **TOKENS,
        )
    ), {**text(), "use_cache": False}


@case
def xlstm() -> Case:
    return T.xLSTMForCausalLM(
        T.xLSTMConfig(
            vocab_size=99,
            hidden_size=32,
            embedding_dim=32,
            num_hidden_layers=2,
            num_blocks=2,
            num_heads=4,
            chunk_size=8,
            **TOKENS,
        )
    ), {"input_ids": ids(8), "use_cache": False}


@case
def phimoe() -> Case:
    return T.PhimoeForCausalLM(
        T.PhimoeConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            num_local_experts=4,
            num_experts_per_tok=2,
        )
    ), text()


@case
def bamba() -> Case:
    return T.BambaForCausalLM(
        T.BambaConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            attn_layer_indices=[1],
            mamba_n_heads=8,
            mamba_d_head=8,
            mamba_n_groups=2,
            mamba_d_state=8,
            mamba_expand=2,
            mamba_chunk_size=4,
        )
    ), {**text(), "use_cache": False}


@case
def lfm2() -> Case:
    return T.Lfm2ForCausalLM(
        T.Lfm2Config(**GROUPED, **TOKENS, layer_types=["conv", "full_attention"])
    ), {**text(), "use_cache": False}


@case
def qwen3_next() -> Case:
    return T.Qwen3NextForCausalLM(
        T.Qwen3NextConfig(
            **{**GROUPED, "intermediate_size": 40},
            **TOKENS,
            head_dim=8,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            layer_types=["linear_attention", "full_attention"],
        )
    ), {**text(), "use_cache": False}
