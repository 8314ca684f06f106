"""Transforms of lines that go one at a time, by passes whose factors the compiler knows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.backend.cpu.fourier import line_factors


class Transforms(nn.Module):
    """A real signal there and back, and a complex one in both directions, for each length."""

    def forward(self, *lines: torch.Tensor) -> list[torch.Tensor]:
        out = []
        for x in lines:
            half = torch.fft.rfft(x)
            out += [half, torch.fft.irfft(half * half, x.shape[-1])]
            pairs = torch.complex(x, x.flip(-1))
            out += [torch.fft.fft(pairs), torch.fft.ifft(pairs)]
        return out


def _wanted(x: np.ndarray) -> list[np.ndarray]:
    half = np.fft.rfft(x)
    pairs = x + 1j * x[..., ::-1]
    return [half, np.fft.irfft(half * half, x.shape[-1]), np.fft.fft(pairs), np.fft.ifft(pairs)]


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [(torch.float32, (48, 256, 400, 512)), (torch.float64, (32, 512))],
    ids=["float32", "float64"],
)  # fmt: skip
def test_lines_of_every_kind_of_length(dtype: torch.dtype, lengths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    lines = [torch.randn(3, n, dtype=dtype) for n in lengths]
    found = gh.compile(Transforms(), *lines)(*lines)
    wanted = [y for x in lines for y in _wanted(x.numpy().astype(np.float64))]
    for y, exact in zip(found, wanted, strict=True):
        apart = np.abs(y.numpy() - exact).max() / np.abs(exact).max()
        assert apart < 8 * torch.finfo(dtype).eps, y.shape


def test_what_is_imaginary_at_the_ends_of_a_half_is_not_read() -> None:
    half = torch.randn(2, 129, dtype=torch.complex64)
    half[:, 0].imag, half[:, -1].imag = float("nan"), float("inf")
    wanted = half.clone()
    wanted[:, 0].imag, wanted[:, -1].imag = 0.0, 0.0

    class Back(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.irfft(torch.view_as_complex(x))

    found = gh.compile(Back(), torch.view_as_real(half))(torch.view_as_real(half))
    torch.testing.assert_close(found, torch.fft.irfft(wanted))


@pytest.mark.parametrize("itemsize", [4, 8])
def test_factors_of_a_line(itemsize: int) -> None:
    for length in range(1, 5000):
        factors = line_factors(length, itemsize)
        if factors:
            assert math.prod(factors) == length
            assert set(factors) <= {2, 3, 4, 5, 8, 16}
            assert length // factors[0] >= 4
    assert line_factors(256, itemsize) == (16, 16)
    assert line_factors(4096, itemsize) == (16, 16, 16)
    assert line_factors(8, itemsize) == line_factors(7 * 64, itemsize) == ()
