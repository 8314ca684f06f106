"""The reference's own error function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from glasshouse.ops.erf import erf


def test_absolute_error_in_float64() -> None:
    x = np.concatenate([np.linspace(-7, 7, 200_001), np.linspace(-1.001, -0.999, 1001)])
    assert np.abs(erf(x) - special.erf(x)).max() <= 1e-15


def test_relative_error_near_zero() -> None:
    x = np.logspace(-300, -1, 1000)
    np.testing.assert_allclose(erf(x), special.erf(x), 1e-15)


def test_special_values_and_signs() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 6.0, -6.0])
    y = erf(x)
    np.testing.assert_array_equal(y, [np.nan, 1, -1, 0, 0, 1, -1])
    assert np.signbit(y[4])


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_type_and_shape(kind: str) -> None:
    for shape in [(), (0, 2), (3, 1)]:
        out = erf(np.ones(shape, kind))
        assert out.shape == shape
        assert out.dtype == kind
