"""Special functions close to where their results vanish."""

from __future__ import annotations

import pytest
import torch

import glasshouse as gh


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 3e-14), (torch.float32, 2e-6)])
def test_lgamma_about_its_zeros(dtype: torch.dtype, near: float) -> None:
    apart = 10.0 ** torch.arange(-7, -0.4, 0.05, dtype=torch.float64)
    x = torch.cat([1 + apart, 1 - apart, 2 + apart, 2 - apart]).to(dtype)
    got = gh.compile(torch.lgamma, x)(x)
    torch.testing.assert_close(got.double(), torch.lgamma(x.double()), rtol=near, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sinc_of_many_half_turns_in_half_floats(dtype: torch.dtype) -> None:
    """Pi is no half float: of 33.25 half turns the sine was off by 3 %."""
    x = torch.tensor([0.0, 0.5, 1.0, 33.25, 100.5, -7.75], dtype=dtype)
    torch.testing.assert_close(gh.compile(torch.sinc, x)(x), torch.sinc(x), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_frexp_of_all_magnitudes(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    powers = torch.exp2(torch.arange(-149, 128).to(dtype))
    ends = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, info.max, -info.max, info.tiny / 4]
    x = torch.cat([torch.tensor(ends, dtype=dtype), powers, powers * (1 - info.eps / 2), -powers])
    mantissa, exponent = gh.compile(torch.frexp, x)(x)
    wanted = torch.frexp(x)
    torch.testing.assert_close(mantissa, wanted[0], rtol=0.0, atol=0.0, equal_nan=True)
    finite = x.isfinite()  # of others nothing is said
    assert torch.equal(exponent[finite], wanted[1][finite])
