"""A training step of GPT-2 on a GPU: eight texts of 512 tokens, bfloat16, with AdamW."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY, LENGTH, BATCH = 50257, 512, 8


class Block(nn.Module):
    """A layer of GPT-2, its attention as PyTorch's fused one."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, size // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, size))
        out: Tensor = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return out


class Gpt2(nn.Module):
    """GPT-2 of 12 layers; what it gives are logits of all tokens."""

    def __init__(self, size: int = 768, layers: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, size), nn.Embedding(LENGTH, size)
        self.layers = nn.Sequential(*[Block(size, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.layers(self.tokens(ids) + self.places(places))
        return F.linear(self.norm(x), self.tokens.weight)


def loss_of(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())


def stepping(system: str) -> Any:
    """A function that takes one step and gives its loss: "eager", or compiled by a backend."""
    torch.manual_seed(0)
    model = Gpt2().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids, wanted = (torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda") for _ in range(2))
    run: Any = model
    if system == "compile":
        run = torch.compile(model)
    elif system == "ours":
        run = torch.compile(model, backend="glasshouse")

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(run(ids), wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
