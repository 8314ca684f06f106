"""The models that are timed on a GPU: an MLP, attention, ResNet-18 and BERT's encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Mlp(nn.Module):
    """Two layers with GELU, a residual and a layer norm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first = nn.Linear(size, 4 * size)
        self.second = nn.Linear(4 * size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.second(F.gelu(self.first(x))) + x)
        return out


class Attention(nn.Module):
    """Self-attention written out: three projections, scores with a mask, softmax."""

    def __init__(self, size: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads, self.dim = heads, size // heads
        self.q, self.k, self.v = (nn.Linear(size, size) for _ in range(3))

    def _split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.view(batch, length, self.heads, self.dim).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        weights = torch.softmax(q @ k.transpose(-1, -2) / self.dim**0.5 + mask, -1)
        return (weights @ v).transpose(1, 2).reshape(x.shape)


class Block(nn.Module):
    """Two convolutions with batch norms around a shortcut."""

    def __init__(self, channels: int, filters: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != filters:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Eight blocks between a stem and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        blocks: list[nn.Module] = []
        channels = 64
        for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(channels, filters, stride), Block(filters, filters)]
            channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.classify = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classify(self.blocks(self.stem(x)).mean((2, 3)))
        return out


class Encoder(nn.Module):
    """A layer of BERT, its attention as PyTorch's fused one."""

    def __init__(self, size: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, size // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, size)
        x = self.norm1(x + self.out(seen))
        out: Tensor = self.norm2(x + self.down(F.gelu(self.up(x))))
        return out


def bert() -> nn.Module:
    return nn.Sequential(*[Encoder() for _ in range(12)])


@dataclass(frozen=True)
class Workload:
    """A model, its inputs, and the least time that a H200 needs for it, in microseconds."""

    model: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    floor: float
    images: bool = False

    def made(self, dtype: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """On the GPU; images lie with their channels last, which PyTorch likes best."""
        model = self.model().to("cuda").to(dtype).eval()
        inputs = tuple(x.to("cuda").to(dtype) for x in self.inputs())
        if self.images:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
        return model, inputs


def _mlp(batch: int, size: int, floor: float) -> Workload:
    return Workload(lambda: Mlp(size), lambda: (torch.randn(batch, size),), floor)


def _attention(batch: int, length: int, floor: float) -> Workload:
    return Workload(
        Attention,
        lambda: (torch.randn(batch, length, 768), torch.randn(batch, 1, 1, length)),
        floor,
    )


def _resnet(batch: int, floor: float) -> Workload:
    return Workload(ResNet18, lambda: (torch.randn(batch, 3, 224, 224),), floor, images=True)


def _bert(batch: int, floor: float) -> Workload:
    return Workload(bert, lambda: (torch.randn(batch, 128, 768),), floor)


WORKLOADS = {
    "mlp b1024 h512": _mlp(1024, 512, 5.4),
    "mlp b512 h1024": _mlp(512, 1024, 10.9),
    "mlp b1 h1024": _mlp(1, 1024, 3.9),
    "mlp b16384 h1024": _mlp(16384, 1024, 348),
    "attn b1 s128 h768": _attention(1, 128, 0.9),
    "attn b16 s512 h768": _attention(16, 512, 53),
    "resnet18 b1": _resnet(1, 5),
    "resnet18 b64": _resnet(64, 292),
    "bert-base b1 s128": _bert(1, 40),
    "bert-base b32 s128": _bert(32, 905),
}
