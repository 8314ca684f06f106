"""What a model turns to channels first for a convolution is not moved, whoever else reads it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.lower.order import choose_orders


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


class Masked(nn.Module):
    """As in a backward graph: what was saved with its channels last masks a gradient, which goes
    through a norm's gradient, element by element, to a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, 5, 1)

    def forward(self, saved: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        masked = torch.where(saved.movedim(-1, 1) <= 0, 0.0, g)
        apart = masked - masked.mean((0, 2), keepdim=True)
        return self.conv(apart) * apart.sum((1, 2), keepdim=True)


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_what_leads_to_a_convolution_element_by_element_has_channels_last(target: str) -> None:
    torch.manual_seed(0)
    model, saved, g = Masked(24).eval(), torch.randn(2, 33, 24), torch.randn(2, 24, 33)
    saved.view(-1)[:4] = torch.tensor([float("nan"), -0.0, float("inf"), 1e-41])
    module = gh.compile(model, saved, g, target=target, progress=False)
    with torch.no_grad():
        expected = model(saved, g).numpy()
    np.testing.assert_allclose(np.asarray(module(saved, g)), expected, rtol=1e-4, atol=1e-4)
    graph = gh.trace(model, saved, g)
    orders = choose_orders(graph)
    images = [
        v for n in graph.nodes for v in n.outputs
        if n.op.name in ("permute", "where", "subtract")
    ]  # fmt: skip
    assert [orders.get(v) for v in images] == [(0, 2, 1)] * 3


def test_what_a_product_reads_is_not_moved() -> None:
    class Scores(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            turned = (k.transpose(1, 2) * 2).relu()
            return (q @ turned) * turned.sum((1, 2), keepdim=True)

    q, k = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    assert not choose_orders(gh.trace(Scores(), q, k))


class Parts(nn.Module):
    """Convolutions around something that only moves pixels or channels."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.first, self.second = way, nn.Conv2d(3, 12, 1), nn.LazyConv2d(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        n, c, h, w = y.shape
        match self.way:
            case "pad":
                y = nn.functional.pad(y, (2, 1, 0, 3), value=0.5)
            case "slice":
                y = y[:, 2:9, 1:, ::2]
            case "shuffle":
                y = y.view(n, 3, c // 3, h, w).transpose(1, 2).reshape(n, c, h, w)
            case "turn":  # pixels move too: no shuffle of channels
                y = y.view(n, 3, c // 3, h, w).permute(0, 2, 1, 4, 3).reshape(n, c, w, h)
        return self.second(y) * y.sum((1, 2, 3), keepdim=True)


@pytest.mark.parametrize("way", ["pad", "slice", "shuffle", "turn"])
@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_parts_and_shuffles_of_images_are_images(way: str, target: str) -> None:
    torch.manual_seed(0)
    model, x = Parts(way).eval(), torch.randn(2, 3, 7, 7)
    with torch.no_grad():
        expected = model(x).numpy()
    module = gh.compile(model, x, target=target, progress=False)
    np.testing.assert_allclose(np.asarray(module(x)), expected, rtol=1e-4, atol=1e-4)
    graph = gh.trace(model, x)
    second = [n for n in graph.nodes if n.op.name == "conv"][1]
    assert (second.inputs[0] in choose_orders(graph)) == (way != "turn")


class Pooled(nn.Module):
    """The gradient of a maximum along lines on its way to a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(20, 5, 1)

    def forward(self, x: torch.Tensor, places: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        found = (x * 2 + 1).scatter(2, places, g)
        return self.conv(found) * found.sum((1, 2), keepdim=True)


def test_rows_that_a_convolution_wants_otherwise_are_turned_as_a_whole() -> None:
    torch.manual_seed(0)
    x, places, g = torch.randn(3, 20, 37), torch.randint(37, (3, 20, 1)), torch.randn(3, 20, 1)
    model = Pooled().eval()
    module = gh.compile(model, x, places, g, target="cpu", progress=False)
    with torch.no_grad():
        expected = model(x, places, g).numpy()
    np.testing.assert_allclose(np.asarray(module(x, places, g)), expected, rtol=1e-4, atol=1e-4)
    (scatter,) = [n for n in module.program.graph.nodes if n.op.name == "scatter"]
    assert module.program.orders.get(scatter.output) == (0, 2, 1)
