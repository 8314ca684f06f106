"""Sizes: canonical arithmetic agrees with evaluation, and bounds hold every value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glasshouse.errors import ShapeError
from glasshouse.ir import GraphBuilder, parse_graph, print_graph, symbol
from glasshouse.ir.dim import (
    Dim,
    SymDim,
    as_symbol,
    bounds,
    dim_max,
    dim_min,
    evaluate,
    floor_div,
    product,
    remainder,
    solve,
    symbols_of,
)

RANGES = {"a": (1, 9), "b": (2, 64), "n": (1, None), "z": (0, 5)}
SYMBOLS = {name: symbol(name, low, high) for name, (low, high) in RANGES.items()}
MEANING = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "min": min,
    "max": max,
}
DIM = {**MEANING, "//": floor_div, "%": remainder, "min": dim_min, "max": dim_max}

sizes = st.fixed_dictionaries(
    {k: st.integers(low, 40 if high is None else high) for k, (low, high) in RANGES.items()}
)
leaves = st.one_of(st.integers(-6, 12), st.sampled_from(sorted(SYMBOLS)))
trees = st.recursive(
    leaves, lambda t: st.tuples(st.sampled_from(sorted(MEANING)), t, t), max_leaves=8
)


class Undefined(Exception):
    """A division by zero somewhere in the tree."""


def built(tree: Any) -> Dim:
    if not isinstance(tree, tuple):
        return SYMBOLS[tree] if isinstance(tree, str) else tree
    op, left, right = tree
    x, y = built(left), built(right)
    if op in ("//", "%") and y == 0:
        raise Undefined
    return DIM[op](x, y)


def meant(tree: Any, env: dict[str, int]) -> int:
    if not isinstance(tree, tuple):
        return env[tree] if isinstance(tree, str) else tree
    op, left, right = tree
    x, y = meant(left, env), meant(right, env)
    if op in ("//", "%") and y == 0:
        raise Undefined
    return int(MEANING[op](x, y))


def defined(tree: Any, env: dict[str, int]) -> tuple[Dim, int]:
    try:
        return built(tree), meant(tree, env)
    except Undefined:
        assume(False)
        raise


@given(trees, sizes)
def test_arithmetic_agrees_with_evaluation(tree: Any, env: dict[str, int]) -> None:
    dim, value = defined(tree, env)
    assert evaluate(dim, env) == value


@given(trees, sizes)
def test_bounds_hold_every_value(tree: Any, env: dict[str, int]) -> None:
    dim, value = defined(tree, env)
    low, high = bounds(dim)
    assert low <= value <= high


@given(trees, trees, sizes)
def test_form_is_canonical(one: Any, two: Any, env: dict[str, int]) -> None:
    (x, _), (y, _) = defined(one, env), defined(two, env)
    assert x + y == y + x
    assert x * y == y * x
    assert x - x == 0
    assert (x + y) - y == x
    assert (x + y) * 2 == 2 * x + y + y
    assert hash(x + y) == hash(y + x)
    assert isinstance((x + y) - (y + x), int)


@given(trees, sizes)
def test_text_reads_back(tree: Any, env: dict[str, int]) -> None:
    dim, _ = defined(tree, env)
    builder = GraphBuilder()
    x = builder.input("float32", [dim])
    text = print_graph(builder.finish(x))
    again = parse_graph(text)
    assert again.inputs[0].type.shape == (dim,)
    assert print_graph(again) == text


@given(st.integers(-4, 4), st.integers(-20, 20), st.integers(1, 40), st.integers(1, 9))
def test_solve_finds_the_symbol(slope: int, rest: int, n: int, a: int) -> None:
    dim = slope * SYMBOLS["n"] + SYMBOLS["a"] * SYMBOLS["a"] + rest
    found = solve(dim, evaluate(dim, {"n": n, "a": a}), {"a": a})
    assert found == (("n", n) if slope else None)


def test_solve_gives_up_where_it_must() -> None:
    a, n = SYMBOLS["a"], SYMBOLS["n"]
    assert solve(a * n, 12, {}) is None
    assert solve(a + n, 12, {}) is None
    assert solve(2 * n, 7, {}) is None
    assert solve(floor_div(n, 2), 3, {}) is None
    assert solve(5, 5, {}) is None


def test_what_divides_comes_out() -> None:
    a, n = SYMBOLS["a"], SYMBOLS["n"]
    assert (12 * n) // 4 == 3 * n
    assert (n * a) // a == n
    assert (2 * n * a + 2 * a) // (n + 1) == 2 * a
    assert (4 * n + 3) // 4 == n
    assert 0 // n == 0 % n == 0
    assert (8 * n) % 4 == 0
    assert (n * a) % n == 0
    assert str((n + 3) // 2) == "((n + 3) // 2)"


def test_minimum_and_maximum_that_ranges_decide() -> None:
    b, z = SYMBOLS["b"], SYMBOLS["z"]
    assert dim_min(b, 1) == 1
    assert dim_max(b, 64) == 64
    assert dim_max(b + 10, z) == b + 10
    assert isinstance(dim_min(b, z), SymDim)


def test_names_symbols_and_counts() -> None:
    a, n = SYMBOLS["a"], SYMBOLS["n"]
    assert set(symbols_of(floor_div(a + 1, n) * 3 + 2)) == {"a", "n"}
    found = as_symbol(n)
    assert found is not None
    assert (found.name, found.low, found.high) == ("n", 1, None)
    assert as_symbol(2 * n) is None
    assert as_symbol(7) is None
    assert product((2, n, 3)) == 6 * n
    assert product(()) == 1
    assert str(n * n - a + 1) == "n*n - a + 1"


def test_mistakes() -> None:
    n = SYMBOLS["n"]
    with pytest.raises(ShapeError, match=r"empty range \[5, 4\]"):
        symbol("x", 5, 4)
    with pytest.raises(ShapeError, match="divided by zero"):
        floor_div(n, 0)
    with pytest.raises(ShapeError, match="n has no value"):
        evaluate(n + 1, {})


def test_sizes_that_are_made_up_need_not_go_together() -> None:
    """Of 96 elements in rows of 256, there is no row, and an estimate is wanted all the same."""
    n, a = symbol("n"), symbol("a")
    rows = floor_div(n, a)
    for dim in (floor_div(n, rows), remainder(n, rows)):
        with pytest.raises(ZeroDivisionError):
            evaluate(dim, {"n": 96, "a": 256})
    assert evaluate(floor_div(n, rows), {"n": 96, "a": 256}, made_up=True) == 96
    assert evaluate(remainder(n, rows), {"n": 96, "a": 256}, made_up=True) == 0
    assert evaluate(floor_div(n, rows), {"n": 96, "a": 5}, made_up=True) == 5
