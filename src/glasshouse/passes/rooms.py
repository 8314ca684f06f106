"""Which values without an upper bound use the same memory: those that are never alive together.

Their sizes are known in a call alone, so no offsets can be planned. A room is as large as the
largest of its values is in a call: finding that out is a few products, where laying out an arena
anew takes longer than small models run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush

from glasshouse.ir.dim import evaluate, symbols_of
from glasshouse.ir.graph import Value
from glasshouse.lower.plan import Lifetime

_TYPICAL = 256  # what a size without a bound is taken for where values are matched by size


def rooms_of(lives: Iterable[tuple[Value, Lifetime]]) -> list[list[Value]]:
    """Values in groups of which one at most is needed in each step; each value takes the free room
    whose size is nearest to its own."""
    rooms: list[list[Value]] = []
    taken: list[tuple[int, int, int]] = []  # heap: last step, size, room
    free: list[tuple[int, int]] = []  # sorted: size, room
    for value, life in sorted(lives, key=lambda pair: pair[1].begin):
        while taken and taken[0][0] < life.begin:
            insort(free, heappop(taken)[1:])
        size = _likely_bytes(value)
        if free:
            held, room = free.pop(_nearest(free, size))
            rooms[room].append(value)
        else:
            held, room = 0, len(rooms)
            rooms.append([value])
        heappush(taken, (life.end, max(held, size), room))
    return rooms


def _nearest(free: list[tuple[int, int]], size: int) -> int:
    """Which free room has the size that is nearest to this one."""
    above = bisect_left(free, (size, 0))
    if above == len(free) or (above and size - free[above - 1][0] < free[above][0] - size):
        return above - 1
    return above


def _likely_bytes(value: Value) -> int:
    size = value.type.nbytes
    names = symbols_of(size)
    typical = {
        name: max(symbol.low, _TYPICAL if symbol.high is None else symbol.high)
        for name, symbol in names.items()
    }
    return evaluate(size, typical, made_up=True)
