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
