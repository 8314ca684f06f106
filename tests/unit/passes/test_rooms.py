"""Rooms of values without a bound: sizes that typical ones do not go together with have one too."""

from glasshouse.ir import GraphBuilder, symbol
from glasshouse.ir.dim import floor_div
from glasshouse.lower.plan import Lifetime
from glasshouse.ops.cost import elements
from glasshouse.passes.rooms import rooms_of


def test_a_quotient_by_what_is_typically_nothing() -> None:
    """As a static cache's heads, found by dividing what it holds by its length."""
    n, length = symbol("n", 1, 96), symbol("length", 0)
    heads = floor_div(n, length)
    b = GraphBuilder()
    cache = b.input("float32", (1, heads, symbol("m", 3), floor_div(n, heads))).value
    other = b.input("float32", (symbol("m", 3),)).value
    lives = [(cache, Lifetime(0, 1)), (other, Lifetime(2, 3))]
    assert rooms_of(lives) == [[cache, other]]
    assert elements(cache) >= 0
