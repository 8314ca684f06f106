"""Modes and histograms: ties, NaN, infinities, lines of one element, integers."""

from __future__ import annotations

import pytest
import torch

import glasshouse as gh

NAN, INF = float("nan"), float("inf")
LINES = [
    torch.tensor([[2.0, 1.0, 2.0, 1.0, 3.0], [5.0, 4.0, 3.0, 2.0, 1.0], [7.0] * 5]),
    torch.tensor([[0.0, -0.0, INF, INF, INF], [-INF, -INF, 1.0, 1.0, 2.0]]),
    torch.tensor([[1.0, 2.0, 2.0, NAN, NAN]]),
    torch.randint(-3, 4, (4, 30), generator=torch.Generator().manual_seed(0)),
    torch.tensor([[3], [-1]]),
]


class _Mode(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, place = x.mode(self.dim)
        return value, place


@pytest.mark.parametrize("lines", LINES, ids=["ties", "infinities", "nan", "integers", "one"])
def test_the_mode_is_the_smallest_of_the_most_frequent(lines: torch.Tensor) -> None:
    for x, dim in ((lines, 1), (lines.t().contiguous(), 0)):
        value, place = map(torch.as_tensor, gh.compile(_Mode(dim), x, progress=False)(x))
        assert torch.equal(value, x.mode(dim)[0])
        # Any of the places where it stands: PyTorch's sort does not keep the order of equals.
        assert torch.equal(x.gather(dim, place.unsqueeze(dim)).squeeze(dim), value)


class _Bins(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.histc(x, 7, -2, 2), torch.histc(x, 1, 0, 1)


@pytest.mark.parametrize(
    "x",
    [
        torch.tensor([-2.0, -0.0, 2.0, 1.9999999, INF, -INF, NAN, 5.0, -2.0000002]),
        torch.randn(5, 600, generator=torch.Generator().manual_seed(0)),
        torch.randn(300, generator=torch.Generator().manual_seed(1)).double(),
        torch.zeros(1),
        torch.empty(0),
    ],
    ids=["hostile", "many", "double", "one", "empty"],
)
def test_elements_are_counted_in_their_bins(x: torch.Tensor) -> None:
    ours = gh.compile(_Bins(), x, progress=False)(x)
    for got, wanted in zip(ours, _Bins()(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=0, atol=0)


def test_without_limits_those_of_the_data() -> None:
    for x in (torch.randn(200, generator=torch.Generator().manual_seed(0)), torch.full((5,), 3.0)):
        found = gh.compile(lambda x: torch.histc(x, 10), x, progress=False)(x)
        assert torch.equal(torch.as_tensor(found), torch.histc(x, 10))
