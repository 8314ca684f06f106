"""Two programs take turns until it is sure whether one is past the limit, on a busy machine too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glasshouse.checking import slower
from glasshouse.checking.slower import LOOKS, in_turns
from glasshouse.show.confidence import InTurns, Ratio

LIMIT, PAIRS = 1.05, 60


class Busy:
    """Times as two cores under a load of 7 to 13 gave them: the wall's pairs differ by half, the
    processor's by a tenth."""

    factor, rng = 1.0, np.random.default_rng(0)
    noise = (0.5, 0.12)

    def __init__(self, calls: Any) -> None:
        self.wall = np.zeros((0, 2))
        self.processor = np.zeros((0, 2))

    def take(self, rounds: int) -> None:
        for name, noise in zip(("wall", "processor"), self.noise, strict=True):
            made = np.exp(self.rng.standard_t(3, (rounds, 2)) * noise / 2)
            made[:, 1] *= self.factor
            setattr(self, name, np.concatenate([getattr(self, name), made]))


def past(monkeypatch: pytest.MonkeyPatch, factor: float, seed: int) -> InTurns:
    monkeypatch.setattr(slower, "Turns", Busy)
    Busy.factor, Busy.rng = factor, np.random.default_rng(seed)
    return in_turns(int, int, PAIRS, LIMIT)


def test_a_busy_machine_hides_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    same = [past(monkeypatch, 1.0, seed) for seed in range(200)]
    assert sum(m.deciding.low > LIMIT for m in same) == 0
    more = [past(monkeypatch, 1.1, seed) for seed in range(20)]
    assert sum(m.deciding.low > LIMIT for m in more) >= 19
    assert "which decides: others are running" in str(more[0])


def test_it_ends_where_nothing_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Busy, "noise", (9.0, 9.0))
    found = past(monkeypatch, LIMIT, 0)
    assert found.wall.pairs == PAIRS * 2 ** (LOOKS - 1)
    assert not found.sure
    assert "too unsteady to tell" in str(found)


def test_more_threads_are_no_slowdown() -> None:
    """More processor time in less wall time: the wall clock decides."""
    wider = InTurns(Ratio(0.8, 0.6, 1.1, 60), Ratio(1.3, 1.2, 1.4, 60), LIMIT)
    assert wider.deciding is wider.wall
    waiting = InTurns(Ratio(1.5, 1.4, 1.6, 60), Ratio(1.0, 0.9, 1.01, 60), LIMIT)
    assert waiting.deciding.low > LIMIT


def test_real_calls_are_timed_by_both_clocks() -> None:
    found = in_turns(lambda: sum(range(500)), lambda: sum(range(5000)), 20)
    assert found.sure
    assert found.wall.pairs == found.processor.pairs == 20
    assert found.wall.middle > 2
    assert found.processor.middle > 2
