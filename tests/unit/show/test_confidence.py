"""Limits on time hold against noise: equal programs never fail, slower ones do."""

from __future__ import annotations

import numpy as np

from glasshouse.show.confidence import ratio


def turns(slower: float, seed: int, pairs: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Times as a busy machine gives them: a drift that both see, noise, now and then a stall."""
    rng = np.random.default_rng(seed)
    drift = 1 + 0.3 * np.sin(np.arange(pairs) / 9) ** 2
    out = []
    for factor in (1.0, slower):
        noise = 1 + np.abs(rng.normal(0, 0.03, pairs))
        stalls = np.where(rng.random(pairs) < 0.05, rng.uniform(1.5, 6, pairs), 1)
        out.append(factor * drift * noise * stalls)
    return out[0], out[1]


def test_equal_programs_do_not_fail_in_200_of_200_tries() -> None:
    assert sum(ratio(*turns(1.0, seed)).low > 1.05 for seed in range(200)) == 0


def test_a_tenth_is_caught_in_19_of_20() -> None:
    assert sum(ratio(*turns(1.1, seed)).low > 1.05 for seed in range(20)) >= 19


def test_few_pairs_are_sure_of_nothing() -> None:
    few = ratio(*turns(1.1, 0, 5))
    assert few.low == 0.0
    assert few.high == np.inf
    assert 0.5 < few.middle < 2
