"""Complex results: signs of zero as PyTorch has them, and complex numbers as complex numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh


class Spectrum(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        found = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)
        return torch.angle(found), found


class Square(torch.nn.Module):
    def forward(self, z: Any) -> Any:
        return z * z


@pytest.fixture(scope="module")
def spectrum() -> Any:
    return gh.compile(Spectrum(), torch.zeros(2, 64))


def test_angles_of_a_spectrum(spectrum: Any) -> None:
    """The first and the last frequency are real: their angle is 0 or pi, never -pi."""
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    for given in (x, torch.zeros(2, 64), -torch.ones(2, 64)):
        (angle, found), (wanted, values) = spectrum(given), Spectrum()(given)
        torch.testing.assert_close(found, values, rtol=1e-5, atol=2e-6)
        meant = values.abs() > 1e-3  # the angle of rounding errors says nothing
        torch.testing.assert_close(
            torch.polar(meant.float(), angle), torch.polar(meant.float(), wanted), rtol=0, atol=1e-4
        )
        torch.testing.assert_close(angle[:, [0, -1]], wanted[:, [0, -1]])
        assert torch.equal(found.imag[:, [0, -1]], torch.zeros(2, 2, 17))
        assert not torch.signbit(found.imag[:, [0, -1]]).any()


def test_complex_outputs_and_inputs(spectrum: Any, tmp_path: Path) -> None:
    z = torch.tensor([1 + 2j, -0.5j, 3.0])
    module = gh.compile(Square(), z)
    module.save(tmp_path / "square")
    for of in (module, gh.load(tmp_path / "square")):
        assert of(z).dtype is torch.complex64
        torch.testing.assert_close(of(z), z * z)
        torch.testing.assert_close(of(z.conj()), z.conj() * z.conj())
        found = of(z.numpy())
        assert found.dtype == np.complex64
        np.testing.assert_allclose(found, (z * z).numpy(), rtol=1e-6)
    angle, found = spectrum(torch.ones(2, 64))
    assert (angle.dtype, found.dtype) == (torch.float32, torch.complex64)


def test_complex_through_torch_compile() -> None:
    z = torch.tensor([1 + 2j, -0.5j, 3.0])
    torch.testing.assert_close(torch.compile(Square(), backend="glasshouse")(z), z * z)


def test_no_complex_numbers_at_all_reach_pytorch() -> None:
    """SiLU of complex numbers is left to PyTorch, which asks for strides even of nothing."""
    empty = torch.zeros(1, 0, 3, dtype=torch.complex64)
    model = torch.nn.SiLU()
    for found in (
        gh.compile(model, empty)(empty),
        torch.compile(model, backend="glasshouse")(empty),
    ):
        assert found.shape == empty.shape
        assert found.dtype is torch.complex64
