"""`jittor.nn`: layers and functions under Jittor's names."""

from __future__ import annotations

from typing import Any

from glasshouse import nn
from glasshouse.compat.jittor.module import Module
from glasshouse.compat.missing import names_what_is_there
from glasshouse.nn import functional as F

Linear = nn.Linear
Conv = nn.Conv2d
Conv2d = nn.Conv2d
BatchNorm = nn.BatchNorm2d
BatchNorm2d = nn.BatchNorm2d
LayerNorm = nn.LayerNorm
Embedding = nn.Embedding
Dropout = nn.Dropout
ReLU = nn.ReLU
Relu = nn.ReLU
Sequential = nn.Sequential
ModuleList = nn.ModuleList
MSELoss = nn.MSELoss
CrossEntropyLoss = nn.CrossEntropyLoss
relu = F.relu
softmax = F.softmax
mse_loss = F.mse_loss


def matmul(a: Any, b: Any) -> Any:
    return a @ b


def cross_entropy_loss(output: Any, target: Any) -> Any:
    return F.cross_entropy(output, target)


__all__ = [
    "BatchNorm", "BatchNorm2d", "Conv", "Conv2d", "CrossEntropyLoss", "Dropout", "Embedding",
    "LayerNorm", "Linear", "MSELoss", "Module", "ModuleList", "ReLU", "Relu", "Sequential",
    "cross_entropy_loss", "matmul", "mse_loss", "relu", "softmax",
]  # fmt: skip
__getattr__ = names_what_is_there("jittor.nn", __all__)
