"""What a model turns to channels first for a convolution is not moved, whoever else reads it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh


class Turned(nn.Module):
    """A LayerNorm over channels last in front of a convolution, with another reader of the same."""

    def __init__(self, reader: str, rank: int, width: int) -> None:
        super().__init__()
        self.reader, self.norm = reader, nn.LayerNorm(width)
        self.conv = (nn.Conv1d if rank == 3 else nn.Conv2d)(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = self.norm(x).movedim(-1, 1)
        y = self.conv(turned)
        match self.reader:
            case "add":
                return y + turned
            case "held":
                return torch.stack([y, turned])
            case "softmax":
                return y * turned.softmax(-1)
            case "product":
                return y @ turned.transpose(-1, -2)
            case "reshape":
                return y.flatten() + turned.flatten()
            case "sort":
                return y + turned.sort(-1)[0]
        return y


READERS = ["none", "add", "held", "softmax", "product", "reshape", "sort"]
CASES = [("interp", r, shape) for r in READERS for shape in [(2, 5, 7, 6), (1, 9, 3), (2, 4, 4, 1)]]


@pytest.mark.parametrize(("target", "reader", "shape"), [*CASES, ("cpu", "product", (2, 5, 7, 6))])
def test_readers(target: str, reader: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model, x = Turned(reader, len(shape), shape[-1]).eval(), torch.randn(shape)
    flat = x.view(-1)
    flat[:3] = torch.tensor([float("inf"), -0.0, 1e-41])
    flat[-1] = float("nan")
    with torch.no_grad():
        expected = model(x)
    module = gh.compile(model, x, target=target, progress=False)
    np.testing.assert_allclose(module(x).numpy(), expected.numpy(), rtol=2e-4, atol=2e-5)
    if reader in ("none", "add") and shape[-1] > 1:
        norm = next(s for s in module.program.steps if "LayerNorm" in s.kernel.ops)
        orders = [module.program.orders.get(v) for v in norm.outputs]
        assert (0, *range(2, len(shape)), 1) in orders or "Conv" in norm.kernel.ops


def test_a_norm_over_all_but_the_batch_keeps_channels_last() -> None:
    torch.manual_seed(0)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv1d(4, 24, 1), nn.Conv1d(24, 3, 3)
            self.slope = nn.PReLU()
            self.scale = nn.Parameter(torch.rand(1, 24, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.slope(self.first(x))
            mean = x.mean((1, 2), keepdim=True)
            power = ((x - mean) ** 2).mean((1, 2), keepdim=True)
            return self.second(self.scale * (x - mean) / torch.sqrt(power + 1e-8))

    model, x = Whole().eval(), torch.randn(2, 4, 33)
    module = gh.compile(model, x, progress=False)
    with torch.no_grad():
        np.testing.assert_allclose(np.asarray(module(x)), model(x).numpy(), rtol=1e-4, atol=1e-5)
    assert all(v.type.rank != 3 or v in module.program.orders
               for n in module.program.graph.nodes if n.op.name == "fused"
               for v in n.outputs if v not in module.program.graph.outputs)  # fmt: skip
