"""Images, whole: classes and features, from small configs."""

from __future__ import annotations

import torch
import transformers as T

from hf_models.common import VISION, Case, case, ids, image, lively


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
    return lively(T.MobileNetV2Model(T.MobileNetV2Config(depth_multiplier=0.25))), image()


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


@case
def mobilevit() -> Case:
    return lively(
        T.MobileViTModel(
            T.MobileViTConfig(
                image_size=64,
                hidden_sizes=[16, 24, 32],
                neck_hidden_sizes=[4, 8, 8, 16, 16, 16, 32],
                num_attention_heads=2,
            )
        )
    ), image(64)


@case
def mobilevitv2() -> Case:
    return lively(
        T.MobileViTV2Model(T.MobileViTV2Config(image_size=64, width_multiplier=0.25))
    ), image(64)


@case
def mobilenet_v1() -> Case:
    return lively(T.MobileNetV1Model(T.MobileNetV1Config(depth_multiplier=0.25))), image()


@case
def efficientnet() -> Case:
    return lively(
        T.EfficientNetForImageClassification(
            T.EfficientNetConfig(
                image_size=32, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320
            )
        )
    ), image()


@case
def regnet() -> Case:
    return T.RegNetForImageClassification(
        T.RegNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], groups_width=8)
    ), image()


@case
def convnextv2() -> Case:
    return T.ConvNextV2ForImageClassification(
        T.ConvNextV2Config(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], image_size=32)
    ), image()


@case
def swinv2() -> Case:
    return T.Swinv2ForImageClassification(
        T.Swinv2Config(
            image_size=32,
            patch_size=2,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        )
    ), image()


@case
def poolformer() -> Case:
    return T.PoolFormerForImageClassification(
        T.PoolFormerConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 16])
    ), image(64)


@case
def pvt() -> Case:
    return T.PvtForImageClassification(
        T.PvtConfig(
            image_size=64,
            depths=[1, 1, 1, 1],
            hidden_sizes=[8, 16, 16, 16],
            num_attention_heads=[1, 2, 2, 2],
        )
    ), image(64)


@case
def pvt_v2() -> Case:
    return T.PvtV2ForImageClassification(
        T.PvtV2Config(
            image_size=64,
            depths=[1, 1, 1, 1],
            hidden_sizes=[8, 16, 16, 16],
            num_attention_heads=[1, 2, 2, 2],
        )
    ), image(64)


@case
def levit() -> Case:
    return lively(
        T.LevitForImageClassification(
            T.LevitConfig(
                image_size=64,
                hidden_sizes=[16, 32, 32],
                num_attention_heads=[2, 4, 4],
                depths=[1, 1, 1],
                key_dim=[4, 4, 4],
            )
        )
    ), image(64)


@case
def focalnet() -> Case:
    return T.FocalNetForImageClassification(
        T.FocalNetConfig(
            image_size=32,
            embed_dim=16,
            depths=[1, 1],
            focal_levels=[2, 2],
            focal_windows=[3, 3],
            patch_size=4,
        )
    ), image()


@case
def bit() -> Case:
    return T.BitForImageClassification(
        T.BitConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=1)
    ), image(64)


@case
def vit_mae() -> Case:
    return T.ViTMAEModel(T.ViTMAEConfig(**VISION)), {**image(), "noise": torch.rand(2, 16)}


@case
def vit_msn() -> Case:
    return T.ViTMSNModel(T.ViTMSNConfig(**VISION)), image()


@case
def ijepa() -> Case:
    return T.IJepaModel(T.IJepaConfig(**VISION)), image()


@case
def dinov2_registers() -> Case:
    return T.Dinov2WithRegistersModel(T.Dinov2WithRegistersConfig(**VISION)), image()


@case
def dinov3_vit() -> Case:
    return T.DINOv3ViTModel(T.DINOv3ViTConfig(**VISION)), image()


@case
def hiera() -> Case:
    return T.HieraModel(
        T.HieraConfig(image_size=[64, 64], embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2])
    ), image(64)


@case
def timesformer() -> Case:
    return T.TimesformerModel(T.TimesformerConfig(**VISION, num_frames=2)), {
        "pixel_values": torch.randn(1, 2, 3, 32, 32)
    }


@case
def videomae() -> Case:
    return T.VideoMAEModel(T.VideoMAEConfig(**VISION, num_frames=4)), {
        "pixel_values": torch.randn(1, 4, 3, 32, 32)
    }


@case
def vivit() -> Case:
    return T.VivitModel(T.VivitConfig(**VISION, num_frames=4, tubelet_size=[2, 8, 8])), {
        "pixel_values": torch.randn(1, 4, 3, 32, 32)
    }


@case
def swin2sr() -> Case:
    return T.Swin2SRForImageSuperResolution(
        T.Swin2SRConfig(
            image_size=16, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, upscale=2
        )
    ), image(16)


@case
def swiftformer() -> Case:
    return T.SwiftFormerForImageClassification(
        T.SwiftFormerConfig(image_size=64, depths=[1, 1, 1, 1], embed_dims=[8, 16, 16, 16])
    ), image(64)


@case
def imagegpt() -> Case:
    return T.ImageGPTModel(
        T.ImageGPTConfig(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    ), {"input_ids": ids(16)}


@case
def textnet() -> Case:
    return T.TextNetForImageClassification(T.TextNetConfig()), image(64)
