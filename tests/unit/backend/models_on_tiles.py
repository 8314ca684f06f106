"""Small models in bfloat16 and in bytes, compiled and compared with PyTorch: says `close` or fails.

`test_tiles.py` runs it with AMX emulated. Sizes leave tails in rows, columns and depth.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from glasshouse.backend.cpu import matmul

matmul._CACHED = 0  # few weights are treated as many are


class Attention(nn.Module):
    """One block of a transformer, with a residual and a gated layer behind it."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.split, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, 2 * width + 10)
        self.out = nn.Linear(width + 5, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.split(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=self.causal)
        x = self.norm(x + self.merge(seen.transpose(1, 2).reshape(batch, length, width)))
        value, gate = self.gate(x).chunk(2, -1)
        return x + self.out(value * F.silu(gate))


class Products(nn.Module):
    """Products of two inputs, whose operands are packed in each call."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2) @ y + (x[:, :, :3] @ y[:, :3, :]).sum(1, keepdim=True)


class Groups(nn.Module):
    """Rows in three groups, one of them of a single row, with matrices that are constant."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 40, 56) / 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:  # of which PyTorch has no grouped product
            parts = zip(x.split([30, 1, 22]), self.weight, strict=True)
            return torch.cat([rows @ weight for rows, weight in parts])
        return torch._grouped_mm(x, self.weight, offs=torch.tensor([30, 31, 53], dtype=torch.int32))


def _cases() -> list[tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    mlp = nn.Sequential(nn.Linear(40, 72), nn.GELU(), nn.Linear(72, 33))
    deep = nn.Linear(4099, 20, bias=False)  # an odd depth, cut into chunks
    large = nn.Linear(2050, 2060, bias=False)  # more than 8 MB: read where it lies
    images = nn.Sequential(
        nn.Conv2d(16, 24, 3, 1, 1), nn.ReLU(), nn.Conv2d(24, 20, 3, 2, 1), nn.Conv2d(20, 40, 1)
    )
    return [
        *((mlp, (torch.randn(rows, 40),)) for rows in (1, 3, 50)),
        (deep, (torch.randn(37, 4099),)),
        (large, (torch.randn(67, 2050),)),
        (images, (torch.randn(2, 16, 20, 37),)),
        (Attention(64, 2, False), (torch.randn(2, 37, 64),)),
        (Attention(48, 4, True), (torch.randn(1, 70, 48),)),
        (Groups(), (torch.randn(53, 40),)),
        (Products(), (torch.randn(3, 41, 29), torch.randn(3, 41, 50))),
    ]


def main() -> None:
    torch.manual_seed(0)
    for model, inputs in _cases():
        model.eval().bfloat16()
        given = tuple(x.bfloat16() for x in inputs)
        with torch.no_grad():
            exact = model.double()(*(x.double() for x in given))
            model.bfloat16()
            found = [gh.compile(model, *given, threads=n)(*given) for n in (1, 3)]
        results = [x[0] if isinstance(x, (list, tuple)) else x for x in found]
        one, three = (torch.as_tensor(x).double() for x in results)
        error = float((one - exact).abs().max() / exact.abs().max())
        assert error < 2e-2, (model, error)
        assert torch.equal(one, three), model
    print("close")


if __name__ == "__main__":
    main()
