"""Whether one program is slower than another by more than a limit: both take turns until that is
sure.

The limit is looked at after N pairs, and again each time that the pairs have doubled, until it lies
outside of the interval or the patience is at its end. All looks together raise a false alarm once
in a thousand times, so each has its share of that doubt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from glasshouse.runtime.turns import Turns
from glasshouse.show.confidence import SURE, InTurns, ratio

LOOKS = 6
"""The last is at 32 times as many pairs: a busy machine spreads them ten times as wide."""
PATIENCE = 30.0
"""Seconds after which no more pairs are begun."""


def in_turns(
    a: Callable[[], Any], b: Callable[[], Any], pairs: int, limit: float | None = None
) -> InTurns:
    """Time of B over that of A, from at least so many pairs; from more if a limit asks for it."""
    turns = Turns([a, b])
    looks = 1 if limit is None else LOOKS
    sure = 1 - (1 - SURE) / (2 * looks)  # two clocks
    began = time.perf_counter()
    turns.take(pairs)
    for _ in range(looks - 1):
        if _seen(turns, sure, limit).sure or 2 * (time.perf_counter() - began) > PATIENCE:
            break
        turns.take(len(turns.wall))
    return _seen(turns, sure, limit)


def _seen(turns: Turns, sure: float, limit: float | None) -> InTurns:
    wall, processor = (ratio(t[:, 0], t[:, 1], sure) for t in (turns.wall, turns.processor))
    return InTurns(wall, processor, limit)
