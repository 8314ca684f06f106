"""Encoders with decoders of text, from small configs."""

from __future__ import annotations

import transformers as T

from hf_models.common import SEQ, TOKENS, Case, case, ids, pair, text


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


@case
def mt5() -> Case:
    return T.MT5ForConditionalGeneration(
        T.MT5Config(
            vocab_size=99,
            d_model=32,
            d_kv=8,
            d_ff=37,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    ), pair()


@case
def pegasus() -> Case:
    return T.PegasusForConditionalGeneration(T.PegasusConfig(**SEQ)), pair()


@case
def marian() -> Case:
    return T.MarianMTModel(T.MarianConfig(**SEQ, decoder_vocab_size=99)), pair()


@case
def mbart() -> Case:
    return T.MBartForConditionalGeneration(T.MBartConfig(**SEQ)), pair()


@case
def blenderbot() -> Case:
    return T.BlenderbotForConditionalGeneration(T.BlenderbotConfig(**SEQ)), pair()


@case
def m2m_100() -> Case:
    return T.M2M100ForConditionalGeneration(T.M2M100Config(**SEQ)), pair()


@case
def led() -> Case:
    return T.LEDModel(
        T.LEDConfig(
            **{k: v for k, v in SEQ.items() if k != "max_position_embeddings"},
            attention_window=4,
            max_encoder_position_embeddings=64,
            max_decoder_position_embeddings=64,
        )
    ), {"input_ids": ids(8), "decoder_input_ids": ids(5)}


@case
def switch_transformers() -> Case:
    return T.SwitchTransformersForConditionalGeneration(
        T.SwitchTransformersConfig(
            vocab_size=99,
            d_model=32,
            d_kv=8,
            d_ff=40,
            num_layers=2,
            num_decoder_layers=2,
            num_heads=4,
            num_experts=4,
            expert_capacity=8,
            num_sparse_encoder_layers=1,
            num_sparse_decoder_layers=1,
            decoder_start_token_id=0,
        )
    ), pair()


@case
def longt5() -> Case:
    return T.LongT5ForConditionalGeneration(
        T.LongT5Config(
            vocab_size=99,
            d_model=32,
            d_kv=8,
            d_ff=37,
            num_layers=2,
            num_heads=4,
            local_radius=3,
            decoder_start_token_id=0,
        )
    ), pair()


@case
def umt5() -> Case:
    return T.UMT5ForConditionalGeneration(
        T.UMT5Config(
            vocab_size=99,
            d_model=32,
            d_kv=8,
            d_ff=37,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    ), pair()


@case
def prophetnet() -> Case:
    return T.ProphetNetForConditionalGeneration(
        T.ProphetNetConfig(
            vocab_size=99,
            hidden_size=32,
            encoder_ffn_dim=37,
            num_encoder_layers=2,
            num_encoder_attention_heads=4,
            decoder_ffn_dim=37,
            num_decoder_layers=2,
            num_decoder_attention_heads=4,
            max_position_embeddings=64,
        )
    ), pair()


@case
def fsmt() -> Case:
    return T.FSMTForConditionalGeneration(
        T.FSMTConfig(
            langs=["en", "de"],
            src_vocab_size=99,
            tgt_vocab_size=99,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            max_position_embeddings=64,
        )
    ), pair()


@case
def plbart() -> Case:
    return T.PLBartForConditionalGeneration(T.PLBartConfig(**SEQ)), pair()


@case
def bigbird_pegasus() -> Case:
    return T.BigBirdPegasusForConditionalGeneration(
        T.BigBirdPegasusConfig(**SEQ, attention_type="original_full")
    ), pair()


@case
def nllb_moe() -> Case:
    return T.NllbMoeForConditionalGeneration(
        T.NllbMoeConfig(
            **SEQ, num_experts=4, encoder_sparse_step=2, decoder_sparse_step=2, expert_capacity=16
        )
    ), pair()
