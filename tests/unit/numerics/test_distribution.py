"""Samples of one distribution pass as often as is said, others do not."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.numerics.distribution import apart

N = 4000


def test_false_alarms_stay_below_their_rate() -> None:
    """All three figures, on continuous numbers and on numbers of which many are equal."""
    rng = np.random.default_rng(0)
    tries = 400
    for drop in (False, True):
        alarms = 0
        for _ in range(tries):
            a, b = rng.standard_normal((2, N))
            if drop:
                a, b = (np.where(rng.random(N) < 0.5, 0.0, x) for x in (a, b))
            alarms += apart(a, b, rate=0.05) is not None
        assert alarms <= 0.05 * tries + 3 * (0.05 * tries) ** 0.5


@pytest.mark.parametrize(
    ("name", "figure"),
    [("moved", "mean"), ("wider", "mean square"), ("uniform", "distribution"), ("nan", "mean")],
)
def test_what_differs_is_named(name: str, figure: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 5 * N))
    other = {
        "moved": a + 0.2,
        "wider": a * 1.3,
        "uniform": (rng.random(5 * N) - 0.5) * 12**0.5,
        "nan": np.where(rng.random(5 * N) < 0.1, np.nan, a),
    }[name]
    found = apart(other, b, rate=1e-6)
    assert found is not None
    assert found.figure == figure


def test_rounding_is_no_difference() -> None:
    kept = np.random.default_rng(2).random(N) < 0.5
    assert apart(np.where(kept, 0.1, 0.3), np.where(kept, np.float32(0.1), 0.3), 1e-6) is None
    assert apart(np.zeros(N), np.zeros(N), 1e-6) is None
