"""Sound, from small configs."""

from __future__ import annotations

import torch
import transformers as T

from hf_models.common import CONV, NOPOS, TEXT, TOKENS, Case, case, ids, sound


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
def wavlm() -> Case:
    return T.WavLMModel(T.WavLMConfig(**NOPOS, **CONV)), sound()


@case
def sew() -> Case:
    return T.SEWModel(T.SEWConfig(**NOPOS, **CONV, squeeze_factor=2)), sound()


@case
def sew_d() -> Case:
    return T.SEWDModel(T.SEWDConfig(**TEXT, **CONV, squeeze_factor=2)), sound()


@case
def unispeech() -> Case:
    return T.UniSpeechModel(T.UniSpeechConfig(**NOPOS, **CONV)), sound()


@case
def unispeech_sat() -> Case:
    return T.UniSpeechSatModel(T.UniSpeechSatConfig(**NOPOS, **CONV)), sound()


@case
def data2vec_audio() -> Case:
    return T.Data2VecAudioModel(
        T.Data2VecAudioConfig(
            **NOPOS,
            **{k: v for k, v in CONV.items() if k != "num_conv_pos_embeddings"},
            num_conv_pos_embeddings=2,
            conv_pos_kernel_size=5,
        )
    ), sound()


@case
def wav2vec2_conformer() -> Case:
    return T.Wav2Vec2ConformerModel(T.Wav2Vec2ConformerConfig(**NOPOS, **CONV)), sound()


@case
def wav2vec2_bert() -> Case:
    return T.Wav2Vec2BertModel(
        T.Wav2Vec2BertConfig(**dict(NOPOS.items()), feature_projection_input_dim=16)
    ), {"input_features": torch.randn(2, 20, 16)}


@case
def wav2vec2_ctc() -> Case:
    return T.Wav2Vec2ForCTC(T.Wav2Vec2Config(**NOPOS, **CONV)), {
        **sound(),
        "attention_mask": torch.cat(
            [torch.ones(2, 800), torch.tensor([[1.0], [0.0]]).expand(2, 200)], 1
        ).long(),
    }


@case
def speecht5() -> Case:
    return T.SpeechT5ForSpeechToText(
        T.SpeechT5Config(
            vocab_size=99,
            hidden_size=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            **CONV,
        )
    ), {**sound(), "decoder_input_ids": ids(5)}


@case
def speech_to_text() -> Case:
    return T.Speech2TextForConditionalGeneration(
        T.Speech2TextConfig(
            vocab_size=99,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            input_feat_per_channel=16,
            input_channels=1,
            conv_channels=16,
            max_source_positions=64,
            max_target_positions=20,
            **TOKENS,
        )
    ), {"input_features": torch.randn(2, 40, 16), "decoder_input_ids": ids(5)}


@case
def ast() -> Case:
    return T.ASTModel(
        T.ASTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=37,
            patch_size=4,
            max_length=24,
            num_mel_bins=16,
        )
    ), {"input_values": torch.randn(2, 24, 16)}


@case
def encodec() -> Case:
    return T.EncodecModel(
        T.EncodecConfig(
            num_filters=4,
            hidden_size=16,
            codebook_size=32,
            codebook_dim=16,
            num_lstm_layers=1,
            upsampling_ratios=[4, 2],
            target_bandwidths=[24.0],
            sampling_rate=800,
            chunk_length_s=None,
        )
    ), {"input_values": torch.randn(1, 1, 320)}


@case
def dac() -> Case:
    return T.DacModel(
        T.DacConfig(
            encoder_hidden_size=8,
            downsampling_ratios=[2, 4],
            decoder_hidden_size=32,
            n_codebooks=2,
            codebook_size=16,
            codebook_dim=4,
        )
    ), {"input_values": torch.randn(1, 1, 320)}


@case
def mimi() -> Case:
    return T.MimiModel(
        T.MimiConfig(
            num_filters=4,
            hidden_size=32,
            codebook_size=32,
            codebook_dim=16,
            vector_quantization_hidden_dimension=16,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=8,
            intermediate_size=37,
            upsampling_ratios=[4, 2],
            num_quantizers=4,
            upsample_groups=32,
            sliding_window=8,
            frame_rate=50.0,
            sampling_rate=800,
        )
    ), {"input_values": torch.randn(1, 1, 320)}


@case
def vits() -> Case:
    return T.VitsModel(
        T.VitsConfig(
            vocab_size=38,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            ffn_dim=24,
            flow_size=16,
            spectrogram_bins=9,
            prior_encoder_num_flows=1,
            prior_encoder_num_wavenet_layers=1,
            posterior_encoder_num_wavenet_layers=1,
            upsample_initial_channel=16,
            upsample_rates=[4, 4],
            upsample_kernel_sizes=[8, 8],
            resblock_kernel_sizes=[3],
            resblock_dilation_sizes=[[1, 3]],
            use_stochastic_duration_prediction=False,
            duration_predictor_filter_channels=16,
            noise_scale=0.0,
        )
    ), {"input_ids": torch.randint(1, 38, (1, 7))}


@case
def univnet() -> Case:
    return T.UnivNetModel(
        T.UnivNetConfig(
            model_in_channels=8,
            model_hidden_channels=8,
            num_mel_bins=16,
            resblock_kernel_sizes=[3, 3],
            resblock_stride_sizes=[4, 4],
            resblock_dilation_sizes=[[1, 3], [1, 3]],
            kernel_predictor_hidden_channels=8,
        )
    ), {"input_features": torch.randn(1, 7, 16), "noise_sequence": torch.randn(1, 7, 8)}


@case
def moonshine() -> Case:
    return T.MoonshineForConditionalGeneration(
        T.MoonshineConfig(
            vocab_size=99,
            hidden_size=32,
            intermediate_size=37,
            encoder_num_hidden_layers=2,
            decoder_num_hidden_layers=2,
            encoder_num_attention_heads=4,
            decoder_num_attention_heads=4,
            max_position_embeddings=64,
            **TOKENS,
        )
    ), {"input_values": torch.randn(2, 4000), "decoder_input_ids": ids(5)}


@case
def musicgen_decoder() -> Case:
    return T.MusicgenForCausalLM(
        T.MusicgenDecoderConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=37,
            num_codebooks=2,
            max_position_embeddings=64,
            **TOKENS,
        )
    ), {"input_ids": torch.randint(3, 99, (4, 7)), "encoder_hidden_states": torch.randn(2, 3, 32)}
