"""Finding the steps that make a run fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasshouse.numerics import smallest_failing


class Runs:
    """A run that fails when all of `bad` are taken."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.count = 0

    def fails(self, allows: Callable[[int], bool]) -> bool:
        self.count += 1
        return all(allows(n) for n in self.bad)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_one_bad_step_is_found_among_many(case: tuple[int, int]) -> None:
    count, bad = case
    assert smallest_failing(count, Runs({bad}).fails) == [bad]


def test_it_takes_few_runs() -> None:
    runs = Runs({700})
    smallest_failing(1000, runs.fails)
    assert runs.count < 10 + 1 + 64


@pytest.mark.parametrize("bad", [{3, 9}, {0, 63}, {10, 11, 12}])
def test_steps_that_only_fail_together(bad: set[int]) -> None:
    assert set(smallest_failing(64, Runs(bad).fails)) == bad


def test_a_run_that_fails_without_steps_blames_none() -> None:
    assert smallest_failing(10, lambda allows: True) == []
