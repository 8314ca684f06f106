"""Encoders of text, from small configs."""

from __future__ import annotations

import torch
import transformers as T

from hf_models.common import GROUPED, TEXT, TOKENS, Case, case, ids, image, mask, text


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


@case
def mpnet() -> Case:
    return T.MPNetModel(T.MPNetConfig(**TEXT)), text()


@case
def deberta() -> Case:
    return T.DebertaModel(
        T.DebertaConfig(**TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"])
    ), text()


@case
def longformer() -> Case:
    return T.LongformerModel(T.LongformerConfig(**TEXT, attention_window=4)), {
        "input_ids": ids(8),
        "attention_mask": mask(8),
    }


@case
def big_bird() -> Case:
    return T.BigBirdModel(T.BigBirdConfig(**TEXT, attention_type="original_full")), text()


@case
def big_bird_sparse() -> Case:
    return T.BigBirdModel(
        T.BigBirdConfig(
            **{**TEXT, "max_position_embeddings": 128},
            attention_type="block_sparse",
            block_size=8,
            num_random_blocks=2,
        )
    ), {"input_ids": torch.randint(3, 99, (1, 96))}


@case
def xlnet() -> Case:
    return T.XLNetModel(
        T.XLNetConfig(vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=37)
    ), text()


@case
def funnel() -> Case:
    return T.FunnelModel(
        T.FunnelConfig(
            vocab_size=99,
            block_sizes=[1, 1],
            num_decoder_layers=1,
            d_model=32,
            n_head=4,
            d_head=8,
            d_inner=37,
        )
    ), text()


@case
def reformer() -> Case:
    return T.ReformerModel(
        T.ReformerConfig(
            vocab_size=99,
            hidden_size=32,
            num_attention_heads=2,
            attention_head_size=16,
            feed_forward_size=37,
            attn_layers=["local", "local"],
            local_attn_chunk_length=4,
            max_position_embeddings=64,
            axial_pos_shape=(8, 8),
            axial_pos_embds_dim=(16, 16),
            is_decoder=False,
        )
    ), {"input_ids": ids(64)}


@case
def xlm_roberta() -> Case:
    return T.XLMRobertaModel(T.XLMRobertaConfig(**TEXT)), text()


@case
def convbert() -> Case:
    return T.ConvBertModel(T.ConvBertConfig(**TEXT, embedding_size=32)), text()


@case
def squeezebert() -> Case:
    return T.SqueezeBertModel(
        T.SqueezeBertConfig(
            **TEXT,
            embedding_size=32,
            q_groups=2,
            k_groups=2,
            v_groups=2,
            post_attention_groups=2,
            intermediate_groups=1,
            output_groups=1,
        )
    ), text()


@case
def mobilebert() -> Case:
    return T.MobileBertModel(
        T.MobileBertConfig(**TEXT, embedding_size=32, intra_bottleneck_size=16)
    ), text()


@case
def fnet() -> Case:
    return T.FNetModel(
        T.FNetConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            intermediate_size=37,
            max_position_embeddings=64,
        )
    ), {"input_ids": ids()}


@case
def canine() -> Case:
    return T.CanineModel(
        T.CanineConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=37,
            max_position_embeddings=256,
            num_hash_buckets=64,
            local_transformer_stride=32,
            downsampling_rate=4,
        )
    ), {"input_ids": torch.randint(3, 900, (2, 64))}


@case
def roformer() -> Case:
    return T.RoFormerModel(T.RoFormerConfig(**TEXT, embedding_size=32)), text()


@case
def rembert() -> Case:
    return T.RemBertModel(T.RemBertConfig(**TEXT, input_embedding_size=16)), text()


@case
def nystromformer() -> Case:
    return T.NystromformerModel(
        T.NystromformerConfig(**TEXT, segment_means_seq_len=16, num_landmarks=8)
    ), {"input_ids": ids(16)}


@case
def yoso() -> Case:
    return T.YosoModel(T.YosoConfig(**TEXT)), text()


@case
def ibert() -> Case:
    return T.IBertModel(T.IBertConfig(**TEXT)), text()


@case
def esm() -> Case:
    return T.EsmModel(T.EsmConfig(**TEXT, pad_token_id=1, mask_token_id=3)), text()


@case
def ernie() -> Case:
    return T.ErnieModel(T.ErnieConfig(**TEXT)), text()


@case
def luke() -> Case:
    return T.LukeModel(T.LukeConfig(**TEXT, entity_vocab_size=10, entity_emb_size=8)), text()


@case
def layoutlm() -> Case:
    return T.LayoutLMModel(T.LayoutLMConfig(**TEXT)), {
        **text(),
        "bbox": torch.randint(0, 900, (2, 7, 4)).sort(-1).values,
    }


@case
def layoutlmv3() -> Case:
    return T.LayoutLMv3Model(
        T.LayoutLMv3Config(**TEXT, input_size=32, patch_size=8, coordinate_size=4, shape_size=8)
    ), {**text(), "bbox": torch.randint(0, 900, (2, 7, 4)).sort(-1).values, **image()}


@case
def tapas() -> Case:
    return T.TapasModel(T.TapasConfig(**TEXT)), {**text()}


@case
def xlm() -> Case:
    return T.XLMModel(
        T.XLMConfig(
            vocab_size=99, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64, n_langs=1
        )
    ), text()


@case
def flaubert() -> Case:
    return T.FlaubertModel(
        T.FlaubertConfig(
            vocab_size=99, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64, n_langs=1
        )
    ), text()


@case
def megatron_bert() -> Case:
    return T.MegatronBertModel(T.MegatronBertConfig(**TEXT)), text()


@case
def visual_bert() -> Case:
    return T.VisualBertModel(T.VisualBertConfig(**TEXT, visual_embedding_dim=20)), {
        **text(),
        "visual_embeds": torch.randn(2, 3, 20),
    }


@case
def nomic_bert() -> Case:
    return T.NomicBertModel(T.NomicBertConfig(**TEXT)), text()


@case
def eurobert() -> Case:
    return T.EuroBertModel(T.EuroBertConfig(**GROUPED, **TOKENS)), text()


@case
def mra() -> Case:
    return T.MraModel(T.MraConfig(**{**TEXT, "max_position_embeddings": 128})), {
        "input_ids": ids(64)
    }


@case
def data2vec_text() -> Case:
    return T.Data2VecTextModel(T.Data2VecTextConfig(**TEXT)), text()


@case
def lilt() -> Case:
    return T.LiltModel(T.LiltConfig(**{**TEXT, "hidden_size": 48})), {
        **text(),
        "bbox": torch.randint(0, 900, (2, 7, 4)).sort(-1).values,
    }


@case
def splinter() -> Case:
    return T.SplinterModel(T.SplinterConfig(**TEXT)), text()
