"""Small models of the zoo, and its registry: functions that give a module and its inputs.

Sizes are such that a call of plain PyTorch takes 1 to 100 ms on one core.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

Case = tuple[nn.Module, tuple[Any, ...]]


@dataclass(frozen=True)
class Row:
    """A line of the table. Of a training row, a step is measured: the mean of squares, and SGD."""

    name: str
    make: Callable[..., Case]
    training: bool = False
    dtype: torch.dtype = torch.float32
    batch: int | None = None

    def case(self) -> Case:
        """The model and its inputs, always the same ones."""
        torch.manual_seed(0)
        module, inputs = self.make() if self.batch is None else self.make(self.batch)
        if self.dtype is torch.float32:
            return module, inputs
        cast = [x.to(self.dtype) if x.is_floating_point() else x for x in inputs]
        return module.to(self.dtype), tuple(cast)


ROWS: dict[str, Row] = {}


def rows() -> dict[str, Row]:
    """All rows: those of every file of this folder, which each register their own."""
    import benchmarks.zoo

    for found in pkgutil.iter_modules(benchmarks.zoo.__path__):
        if not found.name.startswith("_"):
            importlib.import_module(f"benchmarks.zoo.{found.name}")
    return ROWS


def model(
    name: str, training: bool = False, trained: bool = False
) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Give a function a row of the table, and where `trained`, one of its training step."""

    def add(function: Callable[..., Case]) -> Callable[..., Case]:
        _add(Row(name, function, training))
        if trained:
            _add(Row(f"{name}, training", function, True))
        return function

    return add


def vary(name: str) -> None:
    """Rows of a model for other batches and element types; its maker takes a batch."""
    plain = ROWS[name]
    for batch in (1, 32):
        _add(replace(plain, name=f"{name}, batch {batch}", batch=batch))
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        _add(replace(plain, name=f"{name}, {str(dtype)[6:]}", dtype=dtype))


def _add(row: Row) -> None:
    assert row.name not in ROWS, row.name
    ROWS[row.name] = row


def _mlp(dtype: torch.dtype) -> Case:
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 64)]
    return nn.Sequential(*layers).to(dtype), (torch.randn(64, 256).to(dtype),)


@model("mlp", trained=True)
def mlp(batch: int = 256) -> Case:
    return _mlp(torch.float32)[0], (torch.randn(batch, 256),)


@model("two tiny layers", trained=True)
def tiny(batch: int = 1) -> Case:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), (torch.randn(batch, 16),)


@model("mlp, one sample")
def wide(batch: int = 1) -> Case:
    layers = [nn.Linear(1024, 2816), nn.GELU(), nn.Linear(2816, 1024)]
    return nn.Sequential(*layers), (torch.randn(batch, 1024),)


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
