"""Images, in parts: boxes, masks, depth, points, from small configs."""

from __future__ import annotations

import torch
import transformers as T

from hf_models.common import VISION, Case, case, image, lively


@case
def detr() -> Case:
    return T.DetrForObjectDetection(
        T.DetrConfig(
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            num_queries=5,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=T.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
            ),
        )
    ), image(64)


@case
def yolos() -> Case:
    return T.YolosForObjectDetection(
        T.YolosConfig(**{**VISION, "image_size": [32, 32]}, num_detection_tokens=5)
    ), image()


@case
def conditional_detr() -> Case:
    return T.ConditionalDetrForObjectDetection(
        T.ConditionalDetrConfig(
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            num_queries=5,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=T.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
            ),
        )
    ), image(64)


@case
def deformable_detr() -> Case:
    return T.DeformableDetrForObjectDetection(
        T.DeformableDetrConfig(
            d_model=32,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            num_queries=5,
            num_feature_levels=2,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=T.ResNetConfig(
                embedding_size=8,
                hidden_sizes=[8, 16],
                depths=[1, 1],
                out_features=["stage1", "stage2"],
            ),
        )
    ), image(64)


@case
def rt_detr() -> Case:
    return lively(
        T.RTDetrForObjectDetection(
            T.RTDetrConfig(
                backbone_config=T.RTDetrResNetConfig(
                    embedding_size=8,
                    hidden_sizes=[8, 16, 16, 16],
                    depths=[1, 1, 1, 1],
                    out_features=["stage2", "stage3", "stage4"],
                ),
                encoder_hidden_dim=32,
                encoder_in_channels=[16, 16, 16],
                encoder_ffn_dim=37,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                d_model=32,
                num_queries=2,  # the fifth and the sixth score are the same float32
                decoder_in_channels=[32, 32, 32],
                decoder_ffn_dim=37,
                decoder_layers=2,
                num_denoising=0,
                anchor_image_size=None,
            )
        )
    ), image(64)


@case
def mask2former() -> Case:
    return T.Mask2FormerForUniversalSegmentation(
        T.Mask2FormerConfig(
            backbone_config=T.SwinConfig(
                image_size=64,
                patch_size=4,
                embed_dim=16,
                depths=[1, 1, 1, 1],
                num_heads=[2, 2, 2, 2],
                window_size=2,
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
            hidden_dim=32,
            feature_size=32,
            mask_feature_size=32,
            encoder_layers=1,
            decoder_layers=2,
            num_attention_heads=4,
            encoder_feedforward_dim=37,
            dim_feedforward=37,
            num_queries=5,
            num_labels=4,
        )
    ), image(64)


@case
def maskformer() -> Case:
    return T.MaskFormerForInstanceSegmentation(
        T.MaskFormerConfig(
            backbone_config=T.SwinConfig(
                image_size=64,
                patch_size=4,
                embed_dim=16,
                depths=[1, 1, 1, 1],
                num_heads=[2, 2, 2, 2],
                window_size=2,
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
            decoder_config=T.DetrConfig(
                d_model=32,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=37,
                decoder_ffn_dim=37,
                num_queries=5,
                use_timm_backbone=False,
                backbone=None,
                backbone_config=T.ResNetConfig(),
            ),
            fpn_feature_size=32,
            mask_feature_size=32,
            num_labels=4,
        )
    ), image(64)


@case
def dpt() -> Case:
    return lively(
        T.DPTForDepthEstimation(
            T.DPTConfig(
                **{**VISION, "num_hidden_layers": 4},
                backbone_out_indices=[0, 1, 2, 3],
                neck_hidden_sizes=[8, 8, 8, 8],
                fusion_hidden_size=8,
            )
        )
    ), image()


@case
def glpn() -> Case:
    return T.GLPNForDepthEstimation(
        T.GLPNConfig(
            depths=[1, 1, 1, 1],
            hidden_sizes=[8, 16, 16, 16],
            num_attention_heads=[1, 2, 2, 2],
            decoder_hidden_size=16,
        )
    ), image(64)


@case
def upernet() -> Case:
    return T.UperNetForSemanticSegmentation(
        T.UperNetConfig(
            backbone_config=T.ConvNextConfig(
                hidden_sizes=[8, 16, 16, 16],
                depths=[1, 1, 1, 1],
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
            hidden_size=16,
            num_labels=5,
            auxiliary_in_channels=16,
            auxiliary_channels=8,
        )
    ), image(64)


@case
def depth_anything() -> Case:
    return T.DepthAnythingForDepthEstimation(
        T.DepthAnythingConfig(
            backbone_config=T.Dinov2Config(
                **{**VISION, "num_hidden_layers": 4, "image_size": 56, "patch_size": 14},
                out_features=["stage1", "stage2", "stage3", "stage4"],
                reshape_hidden_states=False,
            ),
            reassemble_hidden_size=32,
            patch_size=14,
            neck_hidden_sizes=[8, 8, 8, 8],
            fusion_hidden_size=8,
            head_hidden_size=8,
        )
    ), image(56)


@case
def vitdet() -> Case:
    return T.VitDetModel(
        T.VitDetConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            pretrain_image_size=32,
            window_size=2,
            window_block_indices=[0],
            use_relative_position_embeddings=True,
        )
    ), image()


@case
def superpoint() -> Case:
    return T.SuperPointForKeypointDetection(
        T.SuperPointConfig(
            encoder_hidden_sizes=[8, 8, 16, 16],
            decoder_hidden_size=16,
            keypoint_decoder_dim=65,
            descriptor_decoder_dim=16,
        )
    ), {"pixel_values": torch.rand(1, 3, 32, 32)}
