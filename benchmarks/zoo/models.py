"""Models of the zoo: functions that give a module and its inputs, written as people write them.

Sizes are such that a call of plain PyTorch takes 1 to 100 ms on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Case = tuple[nn.Module, tuple[Any, ...]]
MODELS: dict[str, Callable[[], Case]] = {}
TRAINED: set[str] = set()
"""Models of which a training step is measured: the mean of squares of what they give, and SGD."""


def model(name: str, training: bool = False) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Give a function a row of the table."""

    def add(function: Callable[[], Case]) -> Callable[[], Case]:
        MODELS[name] = function
        if training:
            TRAINED.add(name)
        return function

    return add


def _mlp(dtype: torch.dtype) -> Case:
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 64)]
    return nn.Sequential(*layers).to(dtype), (torch.randn(64, 256).to(dtype),)


@model("mlp float64")
def mlp_float64() -> Case:
    return _mlp(torch.float64)


@model("mlp float16")
def mlp_float16() -> Case:
    return _mlp(torch.float16)


class _Products(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ y.transpose(-1, -2), -1) @ y


@model("batched products float64")
def products_float64() -> Case:
    return _Products(), (torch.randn(8, 128, 64).double(), torch.randn(8, 128, 64).double())


class _Bags(nn.Module):
    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width) for _ in range(tables))
        self.tables.requires_grad_(False)

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.cat([table(indices, offsets) for table in self.tables], 1)


@model("embedding bags")
def bags() -> Case:
    offsets = torch.arange(0, 4096, 8)
    return _Bags(8, 10_000, 32), (torch.randint(0, 10_000, (4096,)), offsets)


class _Running(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 1) + torch.cumsum(x, 2)


@model("cumsum over two axes")
def running() -> Case:
    return _Running(), (torch.randn(8, 256, 256),)


class _Scans(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.sigmoid(x) + 0.5
        return y.cumprod(1), y.cumprod(2), x.cummax(2)[0], x.cummin(1)[0], x.logcumsumexp(2)


@model("cumprod, cummax, logcumsumexp")
def scans() -> Case:
    return _Scans(), (torch.randn(8, 128, 200),)


class _States(nn.Module):
    """A recurrent layer of which the states count."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


@model("lstm of 2 layers")
def lstm() -> Case:
    return _States(nn.LSTM(256, 256, 2)), (torch.randn(50, 8, 256),)


@model("lstm both ways, batch first")
def lstm_both() -> Case:
    layer = nn.LSTM(128, 128, bidirectional=True, batch_first=True)
    return _States(layer), (torch.randn(16, 64, 128),)


@model("lstm of one sample")
def lstm_one() -> Case:
    return _States(nn.LSTM(128, 200)), (torch.randn(100, 1, 128),)


@model("lstm with projection")
def lstm_projected() -> Case:
    return _States(nn.LSTM(128, 256, proj_size=128)), (torch.randn(50, 8, 128),)


@model("gru")
def gru() -> Case:
    return _States(nn.GRU(200, 256)), (torch.randn(60, 8, 200),)


@model("rnn")
def rnn() -> Case:
    return _States(nn.RNN(256, 256)), (torch.randn(60, 8, 256),)


class _Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 128)
        self.layers = nn.LSTM(128, 128, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(256, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tags(self.layers(self.words(x))[0]).log_softmax(-1)


@model("lstm tagger")
def tagger() -> Case:
    return _Tagger(), (torch.randint(0, 5000, (8, 50)),)
