"""Index algebra: what it says of positions is true for every turn of the loops."""

from __future__ import annotations

from itertools import product

import pytest

from glasshouse.ir.dim import symbol
from glasshouse.lower.kernel.index import (
    ZERO,
    Checked,
    Derived,
    Index,
    Loop,
    SplitLoop,
    delinearized,
    of,
    offset,
)

A, B = Loop("a", 3), Loop("b", 4)


def value(index: Index, **at: int) -> int:
    """The position in one turn of the loops."""
    total = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, Loop):
            here = at[atom.name]
        else:
            assert isinstance(atom, Derived)
            inner = value(atom.index, **at)
            here = inner // atom.size if atom.how == "quotient" else inner % atom.size
        total += here * coefficient
    return total


def turns(*loops: Loop) -> list[dict[str, int]]:
    names = [loop.name for loop in loops]
    ranges = [range(loop.extent) for loop in loops]
    return [dict(zip(names, t, strict=True)) for t in product(*ranges)]


def indices() -> list[Index]:
    return [
        of(A) * a + of(B) * b + c
        for a, b, c in product((0, 1, 2, 4, -1, -2), (0, 1, 3, -1, -3), (-1, 0, 1, 5, 13))
    ]


def test_within_is_exact_for_positive_steps() -> None:
    for index in indices():
        found = [value(index, **t) for t in turns(A, B)]
        for size in range(1, 24):
            truly = min(found) >= 0 and max(found) < size
            assert index.within(size) == truly, f"{index} in 0 .. {size - 1}"


def test_within_asks_for_all_values_of_a_symbol() -> None:
    n = symbol("n", 2, 9)
    rows = Loop("rows", n)
    assert of(rows).within(n)
    assert not (of(rows) + 1).within(n)
    assert not of(rows).within(8)
    assert of(rows).within(9)


def test_quotients_and_remainders_are_those_of_every_turn() -> None:
    asked: list[SplitLoop] = []
    for index, size in product(indices(), range(1, 14)):
        if min(value(index, **t) for t in turns(A, B)) < 0:
            continue
        try:
            quotient, rest = index.divmod(size)
        except SplitLoop as error:  # asked for where a loop has whole rows, see below
            asked.append(error)
            continue
        for t in turns(A, B):
            assert (value(quotient, **t), value(rest, **t)) == divmod(value(index, **t), size)
    assert all(0 < e.inner < e.loop.extent and e.loop.extent % e.inner == 0 for e in asked)
    assert asked


def test_an_index_into_nothing_is_zero() -> None:
    """A fold over no element of a reshaped operand: its loops make no turn, but are written."""
    assert delinearized(of(Loop("i", 5)) * 0 + of(Loop("j", 0)), (5, 0)) == (ZERO, ZERO)


def test_a_loop_over_several_rows_is_split_at_a_row() -> None:
    with pytest.raises(SplitLoop) as caught:
        delinearized(of(Loop("i", 12)), (3, 4))
    assert (caught.value.loop.name, caught.value.inner) == ("i", 4)


def test_positions_come_back_from_where_they_were_put() -> None:
    index = (of(A), of(B))
    assert delinearized(offset(index, (3, 4)), (3, 4)) == index


def test_places_with_known_bounds_need_no_division() -> None:
    piece = of(Derived("guarded", of(A) + -2, 4))
    chosen = of(Checked("t", 5))
    assert delinearized(chosen * 8 + piece + 4, (5, 8)) == (chosen, piece + 4)
    assert delinearized(chosen * 8 + piece + 5, (5, 8)) != (chosen, piece + 5)  # 8 is reached
    mirrored = of(Derived("reflected", of(A), 4))
    assert delinearized(chosen * 8 + mirrored, (5, 8)) != (chosen, mirrored)


def test_dependence_looks_into_index_expressions() -> None:
    inside = of(Derived("clamped", of(A) + 2, 3))
    assert inside.depends_on(A)
    assert not inside.depends_on(B)
    assert not inside.is_affine
    assert inside.inner_size == 2
