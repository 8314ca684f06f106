"""Small Hugging Face models with random weights: what each is built from, and inputs for it.

Nothing is downloaded. Sizes are as small as a model's structure allows: two layers, four heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as T

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


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def build(name: str) -> Case:
    """A model in evaluation and its inputs, the same each time."""
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    return model.eval(), inputs


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


# -------------------------------------------------------------------------------------- encoders
@case
def bert() -> Case:
    return T.BertModel(T.BertConfig(**TEXT)), text()


@case
def distilbert() -> Case:
    config = T.DistilBertConfig(
        vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=37, max_position_embeddings=64
    )
    return T.DistilBertModel(config), text()


@case
def roberta() -> Case:
    return T.RobertaForMaskedLM(T.RobertaConfig(**TEXT)), text()


@case
def albert() -> Case:
    return T.AlbertModel(T.AlbertConfig(**TEXT, embedding_size=16)), text()


@case
def electra() -> Case:
    return T.ElectraForSequenceClassification(T.ElectraConfig(**TEXT, embedding_size=16)), text()


@case
def deberta_v2() -> Case:
    config = T.DebertaV2Config(**TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"])
    return T.DebertaV2Model(config), text()


@case
def modernbert() -> Case:
    return T.ModernBertModel(T.ModernBertConfig(**TEXT, **TOKENS)), text()


# -------------------------------------------------------------------------------------- decoders
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
def mixtral() -> Case:
    # PyTorch's grouped product wants rows of a multiple of 16 bytes.
    sizes = {**GROUPED, "intermediate_size": 40}
    config = T.MixtralConfig(**sizes, **TOKENS, num_local_experts=4, num_experts_per_tok=2)
    return T.MixtralForCausalLM(config), text()


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


# ---------------------------------------------------------------------------- encoder and decoder
@case
def t5() -> Case:
    config = T.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    return T.T5ForConditionalGeneration(config), {**text(), "decoder_input_ids": ids(5)}


@case
def bart() -> Case:
    config = T.BartConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37,
        max_position_embeddings=64, decoder_start_token_id=2, forced_eos_token_id=2, **TOKENS,
    )  # fmt: skip
    return T.BartForConditionalGeneration(config), {**text(), "decoder_input_ids": ids(5)}


# ---------------------------------------------------------------------------------------- images
@case
def vit() -> Case:
    return T.ViTForImageClassification(T.ViTConfig(**VISION)), image()


@case
def deit() -> Case:
    return T.DeiTModel(T.DeiTConfig(**VISION)), image()


@case
def dinov2() -> Case:
    return T.Dinov2Model(T.Dinov2Config(**VISION)), image()


@case
def swin() -> Case:
    config = T.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return T.SwinForImageClassification(config), image()


@case
def convnext() -> Case:
    config = T.ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], image_size=32)
    return T.ConvNextForImageClassification(config), image()


@case
def resnet() -> Case:
    config = T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2])
    return T.ResNetForImageClassification(config), image()


@case
def mobilenet_v2() -> Case:
    return T.MobileNetV2Model(T.MobileNetV2Config(depth_multiplier=0.25)), image()


@case
def segformer() -> Case:
    config = T.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2],
        decoder_hidden_size=16,
    )  # fmt: skip
    return T.SegformerForSemanticSegmentation(config), image(64)


@case
def beit() -> Case:
    return T.BeitModel(T.BeitConfig(**VISION)), image()


# ------------------------------------------------------------------------------- sound, two kinds
@case
def whisper() -> Case:
    config = T.WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=16,
        max_source_positions=20, max_target_positions=20, decoder_start_token_id=1, **TOKENS,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": ids(5)}
    return T.WhisperForConditionalGeneration(config), inputs


@case
def wav2vec2() -> Case:
    config = T.Wav2Vec2Config(
        **{k: v for k, v in TEXT.items() if k != "max_position_embeddings"},
        conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return T.Wav2Vec2Model(config), {"input_values": torch.randn(2, 1000)}


@case
def hubert() -> Case:
    config = T.HubertConfig(
        **{k: v for k, v in TEXT.items() if k != "max_position_embeddings"},
        conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return T.HubertModel(config), {"input_values": torch.randn(2, 1000)}


@case
def clip() -> Case:
    config = T.CLIPConfig(
        text_config={**TEXT, **TOKENS}, vision_config=dict(VISION), projection_dim=16
    )
    return T.CLIPModel(config), {**text(), **image()}


@case
def siglip() -> Case:
    config = T.SiglipConfig(text_config={**TEXT, "pad_token_id": 0}, vision_config=dict(VISION))
    return T.SiglipModel(config), {"input_ids": ids(), **image()}


@case
def vilt() -> Case:
    config = T.ViltConfig(**{**TEXT, "image_size": 32, "patch_size": 8})
    return T.ViltModel(config), {**text(), **image(), "pixel_mask": torch.ones(2, 32, 32).long()}
