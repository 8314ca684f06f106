"""The models that are timed on a GPU: an MLP, attention, ResNet-18 and BERT's encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cpu.models import Mlp, ResNet, SelfAttention


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
            model = model.to(memory_format=torch.channels_last)
            inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
        return model, inputs


def _mlp(batch: int, size: int, floor: float) -> Workload:
    return Workload(lambda: Mlp(size), lambda: (torch.randn(batch, size),), floor)


def _attention(batch: int, length: int, floor: float) -> Workload:
    return Workload(
        SelfAttention,
        lambda: (torch.randn(batch, length, 768), torch.randn(batch, 1, 1, length)),
        floor,
    )


def _resnet(batch: int, floor: float) -> Workload:
    return Workload(
        lambda: ResNet(18), lambda: (torch.randn(batch, 3, 224, 224),), floor, images=True
    )


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
