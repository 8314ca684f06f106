"""Transforms of which few frequencies are kept or given, as products, against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import glasshouse as gh


class Band(nn.Module):
    """The part of a signal between two frequencies."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__()
        self.begin, self.end = begin, end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[-1]
        kept = torch.view_as_real(torch.fft.rfft(x))[..., self.begin : self.end, :]
        behind = n // 2 + 1 - self.end
        whole = torch.nn.functional.pad(kept, (0, 0, self.begin, behind))
        return torch.fft.irfft(torch.view_as_complex(whole), n)


def _ops(graph: gh.Graph) -> list[str]:
    return [n.op.name for n in gh.optimize(graph).nodes]


@pytest.mark.parametrize("n", [3, 8, 63, 64, 500, 1021])
@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_band_is_two_products(n: int, begin: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Band(begin, min(begin + 4, n // 2 + 1)), torch.randn(3, 5, n, dtype=dtype)
    graph = gh.trace(model, x)
    if min(begin + 4, n // 2 + 1) < n // 2 + 1:
        assert "fft" not in _ops(graph)
    found = torch.as_tensor(gh.compile(graph)(x))
    bound = 1e-5 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(found, model(x), atol=bound, rtol=bound)


def test_many_frequencies_stay_a_transform() -> None:
    assert _ops(gh.trace(Band(0, 40), torch.randn(2, 256))).count("fft") == 2


def test_what_is_imaginary_at_the_ends_is_ignored_whatever_it_is() -> None:
    class Line(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.irfft(torch.view_as_complex(x), 64)

    x = torch.randn(3, 4, 2)
    x[0, 0, 1], x[1, 0, 1] = float("nan"), float("inf")
    model = Line()
    graph = gh.trace(model, x)
    assert "fft" not in _ops(graph)
    found = torch.as_tensor(gh.compile(graph)(x))
    assert found.isfinite().all()
    torch.testing.assert_close(found, model(x), atol=1e-6, rtol=1e-5)
    x[2, 1, 0] = float("nan")
    found = torch.as_tensor(gh.compile(graph)(x))
    assert found[:2].isfinite().all()
    assert found[2].isnan().all()
