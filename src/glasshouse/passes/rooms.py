"""Which values without an upper bound use the same memory: those that are never alive together.

Their sizes are known in a call alone, so no offsets can be planned. A room is as large as the
largest of its values is in a call: finding that out is a few products, where laying out an arena
anew takes longer than small models run.
"""

from __future__ import annotations

from collections.abc import Iterable

from glasshouse.ir.dim import evaluate, symbols_of
from glasshouse.ir.graph import Value
from glasshouse.lower.plan import Lifetime

_TYPICAL = 256  # what a size without a bound is taken for where values are matched by size


def rooms_of(lives: Iterable[tuple[Value, Lifetime]]) -> list[list[Value]]:
    """Values in groups of which one at most is needed in each step; each value takes the free room
    whose size is nearest to its own."""
    rooms: list[list[Value]] = []
    sizes: list[int] = []
    ends: list[int] = []
    for value, life in sorted(lives, key=lambda pair: pair[1].begin):
        size = _likely_bytes(value)
        free = [number for number, end in enumerate(ends) if end < life.begin]
        if not free:
            rooms.append([value])
            sizes.append(size)
            ends.append(life.end)
            continue
        room = min(free, key=lambda number: (abs(sizes[number] - size), number))
        rooms[room].append(value)
        sizes[room], ends[room] = max(sizes[room], size), life.end
    return rooms


def _likely_bytes(value: Value) -> int:
    size = value.type.nbytes
    names = symbols_of(size)
    typical = {
        name: max(symbol.low, _TYPICAL if symbol.high is None else symbol.high)
        for name, symbol in names.items()
    }
    return evaluate(size, typical)
