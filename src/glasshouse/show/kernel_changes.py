"""Kernel by kernel, what changed between two recordings: matched by title, then by line and ops."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import ErrorRow
from glasshouse.show.alarms import alarms
from glasshouse.show.priced import KernelGroup, kernel_groups, unfused


@dataclass(frozen=True)
class KernelChange:
    """Equal kernels of A and of B; NaN where one side has none."""

    title: str
    where: str
    a: float  # seconds
    b: float
    count_a: int
    count_b: int

    @property
    def more(self) -> float:
        """Seconds that B takes more."""
        return (0 if math.isnan(self.b) else self.b) - (0 if math.isnan(self.a) else self.a)


_KEYS: tuple[Callable[[KernelGroup], str], ...] = (
    lambda g: g.title,
    lambda g: g.where,
    lambda g: g.code.partition("_")[2],
)


def kernel_changes(
    a: tuple[Recording, GraphView], b: tuple[Recording, GraphView]
) -> list[KernelChange]:
    """The largest changes first."""
    old, new = kernel_groups(*a), kernel_groups(*b)
    out: list[KernelChange] = []
    for key in _KEYS:
        left: dict[str, list[KernelGroup]] = defaultdict(list)
        for g in old:
            if key(g):
                left[key(g)].append(g)
        for g in list(new):
            if left.get(key(g)):
                before = left[key(g)].pop(0)
                old.remove(before)
                new.remove(g)
                out.append(
                    KernelChange(g.title, g.where, before.seconds, g.seconds, before.count, g.count)
                )
    out += [KernelChange(g.title, g.where, g.seconds, math.nan, g.count, 0) for g in old]
    out += [KernelChange(g.title, g.where, math.nan, g.seconds, 0, g.count) for g in new]
    return sorted(out, key=lambda c: -abs(c.more))


FAILS = ("unfused", "fallback", "nan")


def regressions(
    a: tuple[Recording, GraphView], b: tuple[Recording, GraphView], kinds: frozenset[str]
) -> list[str]:
    """What B has and A has not, of the kinds asked for."""
    out = []
    if "unfused" in kinds:
        known: Counter[tuple[str, str]] = Counter()
        for e in unfused(*a):
            known[e.producer, e.consumer] += e.count
        for e in unfused(*b):
            known[e.producer, e.consumer] -= e.count
            if known[e.producer, e.consumer] < 0:
                out.append(f"unfused: {e.consumer} behind {e.producer}, {e.count} times: {e.why}")
    if "fallback" in kinds:
        known_words = {x.what for x in alarms(*a) if x.kind == "fallback"}
        out += [
            f"fallback: {x.what}"
            for x in alarms(*b)
            if x.kind == "fallback" and x.what not in known_words
        ]
    if "nan" in kinds:
        wrong = [e for e in b[1].table(ErrorRow) if e.wrong]
        told = b[0].header.facts.get("first wrong", "")
        if wrong or told:
            out.append(f"nan: {told or f'%{wrong[0].node}, {wrong[0].wrong} elements'}")
    return out
