"""The models that are timed on a GPU: an MLP, attention, ResNets, BERT's encoder, a Llama; and
products of 8-bit floats."""

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


class LlamaLayer(nn.Module):
    """A layer with grouped heads, rotary positions and a cache of keys and values."""

    def __init__(self, size: int, heads: int, key_heads: int, inner: int, context: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.dim = heads, key_heads, size // heads
        kept = key_heads * self.dim
        self.q, self.k, self.v = (nn.Linear(size, n, bias=False) for n in (size, kept, kept))
        self.out = nn.Linear(size, size, bias=False)
        self.gate, self.up = (nn.Linear(size, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, size, bias=False)
        self.norm1, self.norm2 = (nn.RMSNorm(size, 1e-5) for _ in range(2))
        self.register_buffer("keys", torch.zeros(1, key_heads, context, self.dim))
        self.register_buffer("values", torch.zeros(1, key_heads, context, self.dim))

    def turned(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * cosine + torch.cat((-b, a), -1) * sine

    def forward(
        self, x: Tensor, places: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor
    ) -> Tensor:
        batch, length, size = x.shape
        y = self.norm1(x)
        q = self.q(y).view(batch, length, self.heads, self.dim).transpose(1, 2)
        k, v = (
            f(y).view(batch, length, self.key_heads, self.dim).transpose(1, 2)
            for f in (self.k, self.v)
        )
        q, k = self.turned(q, cosine, sine), self.turned(k, cosine, sine)
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        seen = F.scaled_dot_product_attention(
            q, self.keys, self.values, attn_mask=mask, enable_gqa=True
        )
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, size))
        y = self.norm2(x)
        out: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return out


class Llama(nn.Module):
    """The shape of Llama-1B: 16 layers of 2048, 32 heads over 8, a context of 1024."""

    def __init__(self, layers: int = 16, size: int = 2048, context: int = 1024) -> None:
        super().__init__()
        self.embed = nn.Embedding(128256, size)
        self.layers = nn.ModuleList(LlamaLayer(size, 32, 8, 8192, context) for _ in range(layers))
        self.norm = nn.RMSNorm(size, 1e-5)
        turns = 1.0 / (500000 ** (torch.arange(0, 64, 2) / 64))
        angles = torch.outer(torch.arange(context).float(), turns)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).bool())

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        x = self.embed(tokens)
        cosine, sine, mask = self.cosine[places], self.sine[places], self.mask[places][None, None]
        for layer in self.layers:
            x = layer(x, places, cosine, sine, mask)
        return F.linear(self.norm(x), self.embed.weight)


class ScaledProduct(nn.Module):
    """A product of 8-bit floats with one scale for each operand."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(())

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        return torch._scaled_mm(x, w.t(), self.scale, self.scale, out_dtype=torch.bfloat16)


@dataclass(frozen=True)
class Workload:
    """A model, its inputs, and the least time that a H200 needs for it, in microseconds."""

    model: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    floor: float
    images: bool = False
    dtype: torch.dtype = torch.float16

    def made(self, dtype: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """On the GPU, where weights are drawn too: a host takes long to draw a billion of them.
        Images lie with their channels last, which PyTorch likes best."""
        with torch.device("cuda"):
            model = self.model()
        model = model.to(dtype).eval()
        inputs = tuple(
            x.to("cuda").to(dtype) if x.is_floating_point() else x.to("cuda") for x in self.inputs()
        )
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


def _resnet(depth: int, batch: int, floor: float) -> Workload:
    return Workload(
        lambda: ResNet(depth), lambda: (torch.randn(batch, 3, 224, 224),), floor, images=True
    )


def _llama(places: Tensor, floor: float) -> Workload:
    tokens = torch.zeros(1, len(places), dtype=torch.long)
    return Workload(Llama, lambda: (tokens, places), floor, dtype=torch.bfloat16)


def _bert(batch: int, floor: float) -> Workload:
    return Workload(bert, lambda: (torch.randn(batch, 128, 768),), floor)


def _float8(rows: int, columns: int, depth: int, floor: float) -> Workload:
    return Workload(
        ScaledProduct,
        lambda: (torch.randn(rows, depth), torch.randn(columns, depth)),
        floor,
        dtype=torch.float8_e4m3fn,
    )


WORKLOADS = {
    "mlp b1024 h512": _mlp(1024, 512, 5.4),
    "mlp b512 h1024": _mlp(512, 1024, 10.9),
    "mlp b1 h1024": _mlp(1, 1024, 3.9),
    "mlp b16384 h1024": _mlp(16384, 1024, 348),
    "attn b1 s128 h768": _attention(1, 128, 0.9),
    "attn b16 s512 h768": _attention(16, 512, 53),
    "resnet18 b1": _resnet(18, 1, 5),
    "resnet18 b64": _resnet(18, 64, 292),
    "resnet50 b1": _resnet(50, 1, 12),
    "resnet50 b64": _resnet(50, 64, 664),
    "bert-base b1 s128": _bert(1, 40),
    "bert-base b32 s128": _bert(32, 905),
    "llama-1b decode": _llama(torch.tensor([512]), 575),
    "llama-1b prefill 512": _llama(torch.arange(512), 1602),
    "float8 1024x4096x1024": _float8(1024, 4096, 1024, 4.3),
    "float8 8192x8192x8192": _float8(8192, 8192, 8192, 556),
}
