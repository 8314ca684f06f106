"""The models that are measured, in plain PyTorch; `jax_models.py` says the same in JAX."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    """Two linear layers with a GELU between, a residual, a layer norm."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.dense1 = nn.Linear(hidden, 4 * hidden)
        self.dense2 = nn.Linear(4 * hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Any) -> Any:
        return self.norm(self.dense2(F.gelu(self.dense1(x))) + x)


class SelfAttention(nn.Module):
    """Attention spelled out: three projections, scores, mask, softmax, mix."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def split(self, x: Any) -> Any:
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Any, mask: Any) -> Any:
        query, key, value = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)


def convolution(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution with its batch norm."""
    conv = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outside))


class Block(nn.Module):
    """A residual block: two 3x3 convolutions, or 1x1, 3x3, 1x1 with four times the channels."""

    def __init__(self, inside: int, channels: int, stride: int, deep: bool) -> None:
        super().__init__()
        out = channels * 4 if deep else channels
        if deep:
            self.path = nn.ModuleList(
                [
                    convolution(inside, channels, 1),
                    convolution(channels, channels, 3, stride),
                    convolution(channels, out, 1),
                ]
            )
        else:
            first = convolution(inside, channels, 3, stride)
            self.path = nn.ModuleList([first, convolution(channels, channels, 3)])
        same = stride == 1 and inside == out
        self.shortcut = nn.Identity() if same else convolution(inside, out, 1, stride)

    def forward(self, x: Any) -> Any:
        y = x
        for step in self.path[:-1]:
            y = F.relu(step(y))
        return F.relu(self.path[-1](y) + self.shortcut(x))


class ResNet(nn.Module):
    """ResNet-18 and -50."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        deep = depth == 50
        counts = (3, 4, 6, 3) if deep else (2, 2, 2, 2)
        self.stem = convolution(3, 64, 7, 2)
        blocks: list[nn.Module] = []
        inside = 64
        for stage, count in enumerate(counts):
            for number in range(count):
                channels = 64 << stage
                blocks.append(Block(inside, channels, 2 if stage and not number else 1, deep))
                inside = channels * 4 if deep else channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inside, 1000)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, nn.BatchNorm2d):  # statistics that folding has to respect
                nn.init.uniform_(module.running_mean, -0.2, 0.2)
                nn.init.uniform_(module.running_var, 0.5, 1.5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class Layer(nn.Module):
    """A transformer layer: norms after (BERT, exact GELU) or before, causal (GPT-2, tanh GELU)."""

    def __init__(self, width: int, heads: int, before: bool) -> None:
        super().__init__()
        self.heads, self.before = heads, before
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x: Any, mask: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.reshape(shape).transpose(1, 2) for t in self.qkv(x).split(width, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.before)
        return self.out(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x: Any, mask: Any = None) -> Any:
        if self.before:
            x = x + self.attend(self.norm1(x), None)
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """The encoder of BERT-base."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(768, 12, False) for _ in range(12))

    def forward(self, x: Any, mask: Any) -> Any:
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Gpt2(nn.Module):
    """GPT-2 small with the logits of every position; the head shares the embedding's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)
        self.layers = nn.ModuleList(Layer(768, 12, True) for _ in range(12))
        self.norm = nn.LayerNorm(768)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.words.weight)


class TwoLayers(nn.Module):
    """Ten hidden units: nothing but overhead."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(1, 10), nn.Linear(10, 1)

    def forward(self, x: Any) -> Any:
        return self.two(F.relu(self.one(x)))
