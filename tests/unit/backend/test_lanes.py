"""Functions of elements that lie apart, or are to, are computed by vectors with lanes filled, or
written, one by one; folds of truth values go over vectors of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh

HOSTILE = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0, 1e-40, 3e38, -3e38, 90.0])


class _Gate(nn.Module):
    """A convolution writes channels last; the result is wanted channels first."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Conv1d(3, 26, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.both(x).chunk(2, 1)
        return torch.tanh(a) * torch.sigmoid(b)


class _Turned(nn.Module):
    """Steps of several sizes, a mask that lies apart as well, and a number in its place."""

    def forward(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return torch.where(kept.transpose(0, 1), torch.exp(x.transpose(0, 1)), -1.0)[:, :, ::2]


class _Bordered(nn.Module):
    """Places that are held inside."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(nn.functional.pad(x, (2, 3), mode="replicate"))


class _Woven(nn.Module):
    """Results that come between each other, in three types and as truth values."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts = [x.exp(), x.tanh(), x.sigmoid()]
        return (
            torch.stack(parts, -1),
            torch.stack([p.double() for p in parts], -1),
            torch.stack([p.bfloat16() for p in parts], -1),
            torch.stack([p > 0.5 for p in parts], -1),
        )


class _Folded(nn.Module):
    """Whether some, and whether all: of rows, of columns, of everything, of numbers themselves."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        near = (x - 0.1).abs() < 5.0
        folds = [f for axis in (0, 1, 2) for f in ((x > 2.5).any(axis), near.all(axis))]
        wide = x.double()
        of_all = [near.all(), near.any(), (x == x).all(), (x != x).any(), wide.any(), (x * 0).any()]
        return (*folds, *of_all, x.all(0), wide.all(2), torch.isclose(x, x * 1.00001).all(1))


def _hostile(*shape: int) -> torch.Tensor:
    x = torch.randn(shape)
    x.view(-1)[: len(HOSTILE)] = HOSTILE
    return x


CASES = {
    "a gate": lambda: (_Gate(), (_hostile(2, 3, 37),)),
    "turned": lambda: (_Turned(), (_hostile(21, 5, 11), torch.rand(21, 5, 11) > 0.3)),
    "bordered": lambda: (_Bordered(), (_hostile(3, 7, 21),)),
    "woven": lambda: (_Woven(), (_hostile(3, 61),)),
}


@pytest.mark.parametrize("name", CASES)
def test_lanes_hold_what_the_elements_are(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    with torch.no_grad():
        expected = model(*inputs)
    module = gh.compile(model.eval(), *inputs, progress=False)
    torch.testing.assert_close(module(*inputs), expected, rtol=2e-6, atol=2e-6, equal_nan=True)
    text = "".join(module.source.kernels.values())
    assert "lane_" in text, "vectors whose lanes are filled one by one"


@pytest.mark.parametrize("shape", [(5, 3, 37), (1, 2, 3)])
def test_truth_values_are_folded_in_vectors(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module = gh.compile(_Folded(), torch.randn(shape), progress=False)
    if shape[-1] > 16:
        text = "".join(module.source.kernels.values())
        assert all(words in text for words in ("gh::any(", "gh::all(", "gh::vm acc"))
    for x in (torch.randn(shape) / 9, torch.zeros(shape), torch.full(shape, float("nan"))):
        assert all(map(torch.equal, module(x), _Folded()(x)))
    x = torch.randn(shape)
    x.view(-1)[: len(HOSTILE)] = HOSTILE[: x.numel()]
    assert all(map(torch.equal, module(x), _Folded()(x)))
