"""Text and images together, from small configs."""

from __future__ import annotations

import torch
import transformers as T

from hf_models.common import (
    GROUPED,
    TEXT,
    TOKENS,
    VISION,
    Case,
    case,
    ids,
    image,
    lively,
    pair,
    text,
)


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
def blip() -> Case:
    return T.BlipForConditionalGeneration(
        T.BlipConfig(
            text_config={**TEXT, **TOKENS, "encoder_hidden_size": 32, "sep_token_id": 3},
            vision_config=dict(VISION),
            projection_dim=16,
        )
    ), {**text(), **image()}


@case
def blip_2() -> Case:
    return T.Blip2ForConditionalGeneration(
        T.Blip2Config(
            vision_config=dict(VISION),
            qformer_config={
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 37,
                "encoder_hidden_size": 32,
                "vocab_size": 99,
            },
            text_config=T.OPTConfig(
                vocab_size=99,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                ffn_dim=37,
                word_embed_proj_dim=32,
                max_position_embeddings=64,
                **TOKENS,
            ),
            num_query_tokens=4,
            image_token_index=98,
        )
    ), {
        "input_ids": torch.cat([torch.full((2, 4), 98), torch.randint(3, 97, (2, 4))], 1),
        **image(),
    }


@case
def perceiver() -> Case:
    return T.PerceiverForMaskedLM(
        T.PerceiverConfig(
            vocab_size=99,
            d_model=32,
            d_latents=32,
            num_latents=8,
            num_self_attends_per_block=2,
            num_self_attention_heads=4,
            num_cross_attention_heads=4,
            max_position_embeddings=64,
        )
    ), {"inputs": ids(16)}


@case
def chinese_clip() -> Case:
    return T.ChineseCLIPModel(
        T.ChineseCLIPConfig(
            text_config={**TEXT, **TOKENS}, vision_config=dict(VISION), projection_dim=16
        )
    ), {**text(), **image()}


@case
def clipseg() -> Case:
    return T.CLIPSegForImageSegmentation(
        T.CLIPSegConfig(
            text_config={**TEXT, **TOKENS},
            vision_config={**VISION, "num_hidden_layers": 4},
            projection_dim=16,
            extract_layers=[1, 2, 3],
            reduce_dim=16,
            decoder_num_attention_heads=4,
            decoder_intermediate_size=37,
        )
    ), {**text(), **image()}


@case
def groupvit() -> Case:
    return T.GroupViTModel(
        T.GroupViTConfig(
            text_config={**TEXT, **TOKENS},
            vision_config={
                "hidden_size": 32,
                "depths": [1, 1],
                "num_group_tokens": [8, 0],
                "num_output_groups": [4, 2],
                "num_attention_heads": 4,
                "intermediate_size": 37,
                "image_size": 32,
                "patch_size": 8,
            },
            projection_dim=16,
            projection_intermediate_dim=24,
        )
    ), {**text(), **image()}


@case
def llava() -> Case:
    return T.LlavaForConditionalGeneration(
        T.LlavaConfig(
            vision_config=T.CLIPVisionConfig(**VISION),
            text_config=T.LlamaConfig(**GROUPED, **TOKENS),
            image_token_index=98,
            vision_feature_layer=-1,
        )
    ), {
        "input_ids": torch.cat([torch.full((2, 16), 98), torch.randint(3, 97, (2, 4))], 1),
        **image(),
    }


@case
def trocr() -> Case:
    return T.TrOCRForCausalLM(
        T.TrOCRConfig(
            vocab_size=99,
            d_model=32,
            decoder_layers=2,
            decoder_attention_heads=4,
            decoder_ffn_dim=37,
            max_position_embeddings=64,
            **TOKENS,
        )
    ), text()


@case
def pix2struct() -> Case:
    return lively(
        T.Pix2StructVisionModel(
            T.Pix2StructVisionConfig(
                hidden_size=32,
                d_ff=37,
                d_kv=8,
                num_hidden_layers=2,
                num_attention_heads=4,
                patch_embed_hidden_size=24,
                seq_len=64,
            )
        )
    ), {
        "flattened_patches": torch.cat(
            [torch.arange(8).float()[None, :, None].expand(2, 8, 2) + 1, torch.randn(2, 8, 24)], -1
        )
    }


@case
def git() -> Case:
    return T.GitForCausalLM(T.GitConfig(**TEXT, **TOKENS, vision_config=dict(VISION))), {
        **text(),
        **image(),
    }


@case
def lxmert() -> Case:
    return T.LxmertModel(
        T.LxmertConfig(
            vocab_size=99,
            hidden_size=32,
            num_attention_heads=4,
            intermediate_size=37,
            max_position_embeddings=64,
            l_layers=1,
            x_layers=1,
            r_layers=1,
            visual_feat_dim=16,
        )
    ), {**text(), "visual_feats": torch.randn(2, 3, 16), "visual_pos": torch.rand(2, 3, 4)}


@case
def vision_encoder_decoder() -> Case:
    c = T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        T.ViTConfig(**VISION), T.BertConfig(**TEXT, is_decoder=True, add_cross_attention=True)
    )
    return T.VisionEncoderDecoderModel(c), {**image(), "decoder_input_ids": ids(5)}


@case
def encoder_decoder() -> Case:
    c = T.EncoderDecoderConfig.from_encoder_decoder_configs(
        T.BertConfig(**TEXT), T.BertConfig(**TEXT, is_decoder=True, add_cross_attention=True)
    )
    return T.EncoderDecoderModel(c), pair()


@case
def qwen2_vl() -> Case:
    return T.Qwen2VLForConditionalGeneration(
        T.Qwen2VLConfig(
            text_config={
                **GROUPED,
                **TOKENS,
                "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]},
            },
            vision_config={
                "depth": 1,
                "embed_dim": 16,
                "hidden_size": 32,
                "num_heads": 2,
                "patch_size": 4,
            },
            image_token_id=98,
            video_token_id=97,
            vision_start_token_id=96,
            vision_end_token_id=95,
        )
    ), text()
