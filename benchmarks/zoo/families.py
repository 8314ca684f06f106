# ruff: noqa: E501  # a table
"""Models of Hugging Face `transformers` at small to medium sizes, with random weights.

One line a model: its class, the sizes of its config, and what it is called with. Families are those
of `docs/models.md`; sizes are such that a call takes some milliseconds on one core, as layers of
the published models do.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.zoo.models import Case, model, vary
from torch import nn

Sizes = dict[str, Any]
Inputs = Callable[[int], dict[str, torch.Tensor]]

TEXT: Sizes = {
    "vocab_size": 2000, "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8,
    "intermediate_size": 768, "max_position_embeddings": 512, "pad_token_id": 0,
}  # fmt: skip
GROUPED: Sizes = {**TEXT, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
GPT: Sizes = {
    "vocab_size": 2000, "n_embd": 256, "n_layer": 3, "n_head": 8, "n_positions": 512,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
PAIR: Sizes = {
    "vocab_size": 2000, "d_model": 256, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 768,
    "decoder_ffn_dim": 768, "max_position_embeddings": 512, "pad_token_id": 0,
    "decoder_start_token_id": 2, "bos_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip
IMAGE: Sizes = {
    "hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 768,
    "image_size": 128, "patch_size": 16,
}  # fmt: skip
SOUND: Sizes = {
    "hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512,
    "conv_dim": (64,) * 7, "num_conv_pos_embeddings": 32, "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 7, "apply_spec_augment": False,
}  # fmt: skip
EXPERTS: Sizes = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256}


def words(batch: int, length: int = 64) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(3, 2000, (batch, length))}


def padded(batch: int, length: int = 64) -> dict[str, torch.Tensor]:
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, -length // 4 :] = 0
    return {**words(batch, length), "attention_mask": mask}


def both(batch: int) -> dict[str, torch.Tensor]:
    return {**padded(batch), "decoder_input_ids": torch.randint(3, 2000, (batch, 32))}


def pictures(batch: int, size: int = 128) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def wave(batch: int) -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(batch, 8000)}


def mel(batch: int) -> dict[str, torch.Tensor]:
    spoken = torch.randint(3, 2000, (batch, 16))
    return {"input_features": torch.randn(batch, 80, 400), "decoder_input_ids": spoken}


def captions(batch: int) -> dict[str, torch.Tensor]:
    return {**words(batch, 32), **pictures(batch)}


def series(batch: int) -> dict[str, torch.Tensor]:
    return {"past_values": torch.randn(batch, 512, 7)}


class Positional(nn.Module):
    """A model that is called with keywords, called by place; its first result."""

    def __init__(self, module: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        found = self.module(**dict(zip(self.names, inputs, strict=True)), return_dict=False)
        return found[0] if isinstance(found, tuple) else found


def _make(kind: str, sizes: Sizes, inputs: Inputs, batch: int) -> Case:
    import transformers

    transformers.logging.set_verbosity_error()
    made = getattr(transformers, kind)
    config = made.config_class(**sizes)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    given = inputs(batch)
    return Positional(made(config), tuple(given)), tuple(given.values())


def family(name: str, kind: str, sizes: Sizes, inputs: Inputs, **options: bool) -> None:
    """Rows for a model, with `model`'s options; two samples where nothing else is asked for."""

    def make(batch: int = 2) -> Case:
        return _make(kind, sizes, inputs, batch)

    model(name, **options)(make)


if importlib.util.find_spec("transformers"):
    # fmt: off
    # encoders of text
    family("bert", "BertModel", TEXT, padded, trained=True)
    family("distilbert", "DistilBertModel", {"vocab_size": 2000, "dim": 256, "n_layers": 3, "n_heads": 8, "hidden_dim": 768}, padded)
    family("roberta", "RobertaForMaskedLM", TEXT, padded)
    family("albert", "AlbertModel", {**TEXT, "embedding_size": 64}, words)
    family("electra", "ElectraModel", {**TEXT, "embedding_size": 128}, words)
    family("deberta v2", "DebertaV2Model", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, words)
    family("modernbert", "ModernBertModel", {**TEXT, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2}, padded)
    family("mpnet", "MPNetModel", TEXT, words)
    family("xlnet", "XLNetModel", {"vocab_size": 2000, "d_model": 256, "n_layer": 3, "n_head": 8, "d_inner": 768}, words)
    family("squeezebert", "SqueezeBertModel", {**TEXT, "embedding_size": 256}, words)
    family("mobilebert", "MobileBertModel", {**TEXT, "num_attention_heads": 4, "embedding_size": 64}, words)
    family("fnet", "FNetModel", TEXT, words)
    family("roformer", "RoFormerModel", {**TEXT, "embedding_size": 256}, words)
    family("convbert", "ConvBertModel", {**TEXT, "embedding_size": 256}, words)
    family("canine", "CanineModel", TEXT, words)
    family("big bird", "BigBirdModel", {**TEXT, "attention_type": "original_full"}, words)
    family("funnel", "FunnelModel", {"vocab_size": 2000, "d_model": 256, "block_sizes": [1, 1], "n_head": 8, "d_head": 32, "d_inner": 768}, words)
    family("esm", "EsmModel", {**TEXT, "position_embedding_type": "rotary", "mask_token_id": 1}, words)
    # decoders of text
    family("gpt2", "GPT2LMHeadModel", GPT, padded, trained=True)
    family("gpt neox", "GPTNeoXForCausalLM", TEXT, words)
    family("opt", "OPTForCausalLM", {**TEXT, "ffn_dim": 768, "word_embed_proj_dim": 256}, words)
    family("llama", "LlamaForCausalLM", GROUPED, padded, trained=True)
    family("mistral", "MistralForCausalLM", {**GROUPED, "sliding_window": 32}, words)
    family("qwen2", "Qwen2ForCausalLM", GROUPED, words)
    family("qwen3", "Qwen3ForCausalLM", {**GROUPED, "head_dim": 32}, words)
    family("gemma2", "Gemma2ForCausalLM", {**GROUPED, "head_dim": 32, "sliding_window": 32}, words)
    family("gemma3", "Gemma3ForCausalLM", {**GROUPED, "head_dim": 32, "sliding_window": 32}, words)
    family("phi3", "Phi3ForCausalLM", GROUPED, words)
    family("falcon", "FalconForCausalLM", {"vocab_size": 2000, "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8}, words)
    family("gptj", "GPTJForCausalLM", {**GPT, "rotary_dim": 16}, words)
    family("bloom", "BloomForCausalLM", {"vocab_size": 2000, "hidden_size": 256, "n_layer": 3, "n_head": 8}, words)
    family("stablelm", "StableLmForCausalLM", GROUPED, words)
    family("starcoder2", "Starcoder2ForCausalLM", GROUPED, words)
    family("olmo2", "Olmo2ForCausalLM", GROUPED, words)
    family("cohere", "CohereForCausalLM", GROUPED, words)
    family("mpt", "MptForCausalLM", {"d_model": 256, "n_heads": 8, "n_layers": 3, "vocab_size": 2000, "max_seq_len": 512}, words)
    family("granite", "GraniteForCausalLM", GROUPED, words)
    # experts, and states in the place of attention
    family("mixtral", "MixtralForCausalLM", {**GROUPED, "num_local_experts": 4}, words)
    family("qwen3 moe", "Qwen3MoeForCausalLM", {**GROUPED, **EXPERTS, "head_dim": 32}, words)
    family("mamba", "MambaForCausalLM", {"vocab_size": 2000, "hidden_size": 192, "num_hidden_layers": 2, "state_size": 16}, words)
    family("mamba2", "Mamba2ForCausalLM", {"vocab_size": 2000, "hidden_size": 128, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 32, "n_groups": 2, "state_size": 32, "chunk_size": 32}, words)
    family("rwkv", "RwkvForCausalLM", {"vocab_size": 2000, "hidden_size": 192, "num_hidden_layers": 2, "attention_hidden_size": 192, "context_length": 64}, words)
    family("lfm2", "Lfm2ForCausalLM", {**GROUPED, "layer_types": ["conv", "full_attention", "conv"]}, words)
    # an encoder and a decoder
    family("t5", "T5Model", {"vocab_size": 2000, "d_model": 256, "d_kv": 32, "d_ff": 768, "num_layers": 2, "num_heads": 8, "decoder_start_token_id": 0}, both, trained=True)
    family("bart", "BartModel", PAIR, both)
    family("marian", "MarianModel", PAIR, both)
    family("pegasus", "PegasusModel", PAIR, both)
    family("m2m100", "M2M100Model", PAIR, both)
    family("blenderbot", "BlenderbotModel", PAIR, both)
    # images
    family("vit", "ViTForImageClassification", IMAGE, pictures, trained=True)
    family("deit", "DeiTForImageClassification", IMAGE, pictures)
    family("beit", "BeitForImageClassification", {**IMAGE, "use_relative_position_bias": True}, pictures)
    family("dinov2", "Dinov2Model", {**IMAGE, "mlp_ratio": 4}, pictures)
    family("swin", "SwinForImageClassification", {"image_size": 128, "patch_size": 4, "embed_dim": 48, "depths": [1, 1, 2], "num_heads": [2, 4, 8], "window_size": 4}, pictures)
    family("swin v2", "Swinv2ForImageClassification", {"image_size": 128, "patch_size": 4, "embed_dim": 48, "depths": [1, 1, 2], "num_heads": [2, 4, 8], "window_size": 4}, pictures)
    family("convnext", "ConvNextForImageClassification", {"hidden_sizes": [48, 96, 192], "depths": [1, 1, 2], "num_stages": 3}, pictures, trained=True)
    family("convnext v2", "ConvNextV2ForImageClassification", {"hidden_sizes": [48, 96, 192], "depths": [1, 1, 2], "num_stages": 3}, pictures)
    family("resnet", "ResNetForImageClassification", {"embedding_size": 32, "hidden_sizes": [64, 128, 256], "depths": [1, 2, 2], "layer_type": "bottleneck"}, pictures, trained=True)
    family("regnet", "RegNetForImageClassification", {"embedding_size": 32, "hidden_sizes": [48, 96, 192], "depths": [1, 2, 2], "groups_width": 24}, pictures)
    family("mobilenet v1", "MobileNetV1ForImageClassification", {"depth_multiplier": 0.5}, pictures)
    family("mobilenet v2", "MobileNetV2ForImageClassification", {"depth_multiplier": 0.5}, pictures, trained=True)
    family("efficientnet", "EfficientNetForImageClassification", {"width_coefficient": 0.5, "depth_coefficient": 0.5, "hidden_dim": 640}, pictures)
    family("mobilevit", "MobileViTForImageClassification", {"image_size": 128, "hidden_sizes": [64, 80, 96], "neck_hidden_sizes": [16, 24, 32, 48, 64, 80, 96]}, pictures)
    family("segformer", "SegformerForSemanticSegmentation", {"hidden_sizes": [16, 32, 80, 128], "depths": [1, 1, 1, 1], "decoder_hidden_size": 128}, pictures)
    family("poolformer", "PoolFormerForImageClassification", {"hidden_sizes": [32, 64, 128, 160], "depths": [1, 1, 1, 1]}, pictures)
    family("levit", "LevitForImageClassification", {"image_size": 128, "hidden_sizes": [64, 96, 128], "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1]}, pictures)
    family("cvt", "CvtForImageClassification", {"embed_dim": [32, 64, 128], "num_heads": [1, 2, 4], "depth": [1, 2, 3], "cls_token": [False, False, True]}, pictures)
    family("pvt", "PvtForImageClassification", {"image_size": 128, "hidden_sizes": [32, 64, 160, 256], "depths": [1, 1, 1, 1]}, pictures)
    family("yolos", "YolosForObjectDetection", {**IMAGE, "image_size": [128, 128], "num_detection_tokens": 50}, pictures)
    family("glpn", "GLPNForDepthEstimation", {"hidden_sizes": [16, 32, 80, 128], "depths": [1, 1, 1, 1]}, pictures)
    # images and text
    family("clip", "CLIPModel", {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 128}, captions)
    family("siglip", "SiglipModel", {"text_config": {**TEXT, "hidden_size": 192, "num_attention_heads": 3, "max_position_embeddings": 32}, "vision_config": IMAGE}, captions)
    # sound
    family("wav2vec2", "Wav2Vec2Model", SOUND, wave)
    family("hubert", "HubertModel", SOUND, wave)
    family("wavlm", "WavLMModel", SOUND, wave)
    family("whisper", "WhisperModel", {**PAIR, "max_source_positions": 200, "num_mel_bins": 80}, mel)
    # series
    family("patchtst", "PatchTSTModel", {"num_input_channels": 7, "context_length": 512, "patch_length": 16, "patch_stride": 16, "d_model": 128, "num_attention_heads": 8, "num_hidden_layers": 3, "ffn_dim": 256}, series)
    family("patchtsmixer", "PatchTSMixerModel", {"num_input_channels": 7, "context_length": 512, "patch_length": 16, "patch_stride": 16, "d_model": 64, "num_layers": 3}, series)
    # fmt: on
    for name in ("bert", "gpt2", "llama", "t5", "vit", "resnet", "mobilenet v2", "convnext"):
        vary(name)
