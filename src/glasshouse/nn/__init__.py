"""Modules, parameters and layers; `nn.models` has models written with them."""

# ruff: noqa: I001  # one name a line would make this list five times as long

from glasshouse.nn import functional, init
from glasshouse.nn.activation import (
    Dropout, ELU, Flatten, GELU, Hardsigmoid, Hardswish, LeakyReLU, LogSigmoid, LogSoftmax, Mish,
    ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softplus, Softsign, Tanh,
)  # fmt: skip
from glasshouse.nn.attention import MultiheadAttention
from glasshouse.nn.container import ModuleDict, ModuleList, ParameterList, Sequential
from glasshouse.nn.conv import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
)  # fmt: skip
from glasshouse.nn.embedding import Embedding
from glasshouse.nn.linear import Bilinear, Identity, Linear
from glasshouse.nn.loss import (
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss,
)  # fmt: skip
from glasshouse.nn.module import Module
from glasshouse.nn.norm import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, LayerNorm,
    RMSNorm,
)  # fmt: skip
from glasshouse.nn.parameter import Parameter
from glasshouse.nn.pool import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveMaxPool2d, AvgPool1d, AvgPool2d, AvgPool3d,
    MaxPool1d, MaxPool2d, MaxPool3d, Upsample,
)  # fmt: skip

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
    "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "CrossEntropyLoss", "Dropout", "ELU", "Embedding", "Flatten", "GELU",
    "GroupNorm", "Hardsigmoid", "Hardswish", "Identity", "InstanceNorm1d", "InstanceNorm2d",
    "KLDivLoss", "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax",
    "MSELoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish", "Module", "ModuleDict", "ModuleList",
    "MultiheadAttention", "NLLLoss", "Parameter", "ParameterList", "RMSNorm", "ReLU", "ReLU6",
    "SELU", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "Softplus", "Softsign",
    "Tanh", "Upsample", "functional", "init",
]  # fmt: skip
