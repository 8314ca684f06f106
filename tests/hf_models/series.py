"""Time series and decisions, from small configs."""

from __future__ import annotations

import torch
import transformers as T

from hf_models.common import Case, case


def forecast(cls, config) -> Case:
    made = config(
        prediction_length=4,
        context_length=12,
        lags_sequence=[1, 2, 3],
        num_time_features=2,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        num_static_categorical_features=0,
        embedding_dimension=[8],
    )
    inputs = {
        "past_values": torch.randn(2, 15),
        "past_time_features": torch.randn(2, 15, 2),
        "past_observed_mask": torch.ones(2, 15),
        "future_values": torch.randn(2, 4),
        "future_time_features": torch.randn(2, 4, 2),
    }
    return cls(made), inputs


@case
def patchtst() -> Case:
    return T.PatchTSTForPrediction(
        T.PatchTSTConfig(
            num_input_channels=3,
            context_length=24,
            patch_length=4,
            patch_stride=4,
            prediction_length=6,
            d_model=32,
            num_attention_heads=4,
            ffn_dim=37,
            num_hidden_layers=2,
            loss="mse",
        )
    ), {"past_values": torch.randn(2, 24, 3)}


@case
def patchtsmixer() -> Case:
    return T.PatchTSMixerForPrediction(
        T.PatchTSMixerConfig(
            num_input_channels=3,
            context_length=24,
            patch_length=4,
            patch_stride=4,
            prediction_length=6,
            d_model=16,
            num_layers=2,
            loss="mse",
        )
    ), {"past_values": torch.randn(2, 24, 3)}


@case
def autoformer() -> Case:
    return forecast(T.AutoformerModel, T.AutoformerConfig)


@case
def time_series_transformer() -> Case:
    return forecast(T.TimeSeriesTransformerModel, T.TimeSeriesTransformerConfig)


@case
def decision_transformer() -> Case:
    return T.DecisionTransformerModel(
        T.DecisionTransformerConfig(
            state_dim=5,
            act_dim=3,
            hidden_size=32,
            n_layer=2,
            n_head=4,
            max_ep_len=64,
            n_positions=64,
        )
    ), {
        "states": torch.randn(2, 4, 5),
        "actions": torch.randn(2, 4, 3),
        "rewards": torch.randn(2, 4, 1),
        "returns_to_go": torch.randn(2, 4, 1),
        "timesteps": torch.arange(4)[None].expand(2, 4).clone(),
        "attention_mask": torch.ones(2, 4).long(),
    }


@case
def timesfm() -> Case:
    return T.TimesFmModel(
        T.TimesFmConfig(
            patch_length=4,
            context_length=16,
            horizon_length=4,
            hidden_size=32,
            intermediate_size=37,
            head_dim=8,
            num_hidden_layers=2,
            num_attention_heads=4,
        )
    ), {
        "past_values": torch.randn(2, 16),
        "past_values_padding": torch.zeros(2, 16).long(),
        "freq": torch.zeros(2, 1).long(),
    }
