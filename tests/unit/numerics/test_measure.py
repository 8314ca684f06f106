"""How far two arrays are apart."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.numerics import compare, compare_all, tolerance_of


def test_equal_arrays_have_no_error() -> None:
    a = np.array([1.0, -2.0, np.nan, np.inf])
    error = compare(a, a.copy())
    assert (error.max_abs, error.max_rel, error.scaled, error.wrong) == (0, 0, 0, 0)


def test_absolute_relative_and_scaled() -> None:
    wanted = np.array([1.0, 9.0], np.float32)
    error = compare(np.array([1.5, 9.0], np.float32), wanted)
    assert error.max_abs == 0.5
    assert error.max_rel == 0.5
    assert error.scaled == pytest.approx(0.5 / 10)
    assert error.rms == pytest.approx(np.sqrt(0.125))
    assert error.at == (0,)


def test_elements_near_zero_do_not_make_the_relative_error_huge() -> None:
    error = compare(np.array([1e-12, 1.0]), np.array([0.0, 1.0]))
    assert error.max_rel < 1e-5


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        ([np.nan, 1.0], [0.0, 1.0]),
        ([0.0, 1.0], [np.nan, 1.0]),
        ([np.inf], [-np.inf]),
        ([1.0], [np.inf]),
    ],
)
def test_what_differs_in_kind_is_infinitely_far(got, wanted) -> None:
    error = compare(np.array(got), np.array(wanted))
    assert error.scaled == np.inf
    assert error.wrong == 1
    assert "1 elements differ" in str(error)


def test_integers_and_shapes_must_be_equal() -> None:
    assert compare(np.array([1, 2]), np.array([1, 2])).scaled == 0
    assert compare(np.array([1, 3]), np.array([1, 2])).at == (1,)
    assert compare(np.zeros((2, 1)), np.zeros(2)).scaled == np.inf
    assert compare(np.zeros((0, 3)), np.zeros((0, 3))).scaled == 0


def test_the_worst_of_several() -> None:
    one, two = np.zeros(2), np.array([0.0, 0.5])
    assert compare_all([one, two], [one, one]).max_abs == 0.5
    assert compare_all([one], [one, one]).scaled == np.inf
    assert compare_all([], []).scaled == 0


def test_tolerance_follows_the_narrowest_type() -> None:
    b = GraphBuilder()
    x = b.input("float32", (2,))
    wide = tolerance_of(b.finish(x))
    narrow = tolerance_of(b.finish(x.cast("bfloat16").cast("float32")))
    assert 0 < wide < narrow


def test_an_infinite_value_counts_and_is_located() -> None:
    wanted = np.linspace(1, 2, 6).reshape(2, 3)
    for bad in (np.inf, -np.inf, np.nan):
        got = wanted.copy()
        got[1, 0] = got[1, 2] = bad
        error = compare(got, wanted)
        assert error.of_largest == error.scaled == error.max_abs == np.inf
        assert (error.wrong, error.at) == (2, (1, 0))
        assert compare(got, got).of_largest == 0.0
    assert compare(wanted + 0.5, wanted).of_largest == 0.25
