"""Offsets in one arena for buffers of known size and lifetime.

Two layouts are tried: in order of time with the best fitting gap, and largest first at the lowest
place that is free; the smaller arena wins. `plan_memory` places the values of a graph with it, the
runtime those of a compiled program.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

_FEW = 2000
"""Largest-first compares pairs of buffers, so it is tried for at most this many."""


@dataclass(slots=True, eq=False)
class ArenaBlock:
    """Bytes that are needed from step `begin` to step `end`, both included."""

    size: int
    begin: int
    end: int
    offset: int = 0


def place(buffers: list[ArenaBlock]) -> int:
    """Set the offsets; gives the size of the arena."""
    arena = _by_time(buffers)
    if len(buffers) > _FEW:
        return arena
    offsets = [b.offset for b in buffers]
    other = _by_size(buffers)
    if other < arena:
        return other
    for buffer, offset in zip(buffers, offsets, strict=True):
        buffer.offset = offset
    return arena


def _by_time(buffers: list[ArenaBlock]) -> int:
    """Best fit: as buffers are born, each takes the smallest gap that holds it."""
    gaps = _Gaps()
    alive: list[tuple[int, int, int]] = []  # (end, offset, size), soonest to die first
    for buffer in sorted(buffers, key=lambda b: b.begin):
        dead = 0
        while dead < len(alive) and alive[dead][0] < buffer.begin:
            gaps.free(alive[dead][1], alive[dead][2])
            dead += 1
        del alive[:dead]
        buffer.offset = gaps.take(buffer.size)
        insort(alive, (buffer.end, buffer.offset, buffer.size))
    return gaps.top


class _Gaps:
    """Free ranges below `top`, by size and by both ends, so that neighbours join."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []
        self._ends: dict[int, int] = {}  # end -> begin
        self._begins: dict[int, int] = {}  # begin -> end

    def take(self, size: int) -> int:
        at = bisect_left(self._by_size, (size, -1))
        if at < len(self._by_size):
            have, begin = self._by_size[at]
            self._forget(begin, begin + have)
            if have > size:
                self._remember(begin + size, begin + have)
            return begin
        begin = self._ends.get(self.top, self.top)  # a gap at the top grows
        if begin != self.top:
            self._forget(begin, self.top)
        self.top = begin + size
        return begin

    def free(self, begin: int, size: int) -> None:
        end = begin + size
        if begin in self._ends:
            before = self._ends[begin]
            self._forget(before, begin)
            begin = before
        if end in self._begins:
            after = self._begins[end]
            self._forget(end, after)
            end = after
        self._remember(begin, end)

    def _remember(self, begin: int, end: int) -> None:
        insort(self._by_size, (end - begin, begin))
        self._ends[end], self._begins[begin] = begin, end

    def _forget(self, begin: int, end: int) -> None:
        del self._by_size[bisect_left(self._by_size, (end - begin, begin))]
        del self._ends[end], self._begins[begin]


def _by_size(buffers: list[ArenaBlock]) -> int:
    """Largest first, each at the lowest place that no buffer alive at the same time takes."""
    placed: list[ArenaBlock] = []
    top = 0
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.begin)):
        taken = sorted(
            (b.offset, b.offset + b.size)
            for b in placed
            if b.begin <= buffer.end and buffer.begin <= b.end
        )
        offset = 0
        for begin, end in taken:
            if begin - offset >= buffer.size:
                break
            offset = max(offset, end)
        buffer.offset = offset
        placed.append(buffer)
        top = max(top, offset + buffer.size)
    return top
