"""How much slower one program is than another, and how sure that is.

Two programs that take turns are measured in pairs. The ratio is the median over the pairs; its
interval comes from their order alone (how many of n fair coins show heads), so that no assumption
about noise is needed: outliers move neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SURE = 0.999
"""One-sided: an interval's low end is above the truth once in a thousand times."""


SHOWN = 0.95
"""In so many of 100 cases all intervals of one table hold."""


def each_end(intervals: int) -> float:
    """How sure each end of so many intervals must be for all of them together to be `SHOWN`."""
    return 1 - (1 - SHOWN) / 2 / max(intervals, 1)


@dataclass(frozen=True)
class Ratio:
    """Time over time, with the ends between which it lies."""

    middle: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.middle:.3f} ({self.low:.3f} to {self.high:.3f}, {self.pairs} pairs)"


@dataclass(frozen=True)
class InTurns:
    """Time of B over that of A by the wall clock and by the processor's, against a limit.

    The wall clock decides. Where a busy machine leaves the limit inside of its interval, and its
    middle says slower, the processor's clock does: that leaves out what other programs took.
    """

    wall: Ratio
    processor: Ratio
    limit: float | None = None

    @property
    def deciding(self) -> Ratio:
        """The one of both that is held against the limit."""
        unsure = self.limit is not None and self.wall.low <= self.limit < self.wall.high
        slower = unsure and self.wall.middle > 1.0 and self.processor.low > (self.limit or 0.0)
        return self.processor if slower else self.wall

    @property
    def sure(self) -> bool:
        """Whether the limit lies outside of the interval; true where there is none."""
        if self.limit is None:
            return True
        return not self.deciding.low <= self.limit < self.deciding.high

    def __str__(self) -> str:
        text = f"B takes {self.wall} of A's time"
        if self.deciding is self.processor:
            text += f"; of its processor time {self.processor}, which decides: others are running"
        elif not self.sure:
            text += ", too unsteady to tell: a quieter machine or more --runs would"
        return text


def ratio(a: Array, b: Array, sure: float = SURE) -> Ratio:
    """Time of B over time of A, from runs in turns; with few pairs the ends are far apart."""
    logs = np.sort(np.log(np.asarray(b, np.float64) / np.asarray(a, np.float64)))
    count = len(logs)
    rank = _rank(count, 1.0 - sure)
    low, high = (logs[rank - 1], logs[count - rank]) if rank else (-math.inf, math.inf)
    with np.errstate(over="ignore"):
        ends = float(np.exp(low)), float(np.exp(high))
    return Ratio(float(np.exp(np.median(logs))), *ends, count)


def _rank(count: int, doubt: float) -> int:
    """The largest k for which fewer than k of `count` fair coins show heads at most `doubt` often;
    0: there is none."""
    below, rank = 0.0, 0
    for k in range(count):
        ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        below += math.exp(ways - count * math.log(2))
        if below > doubt:
            break
        rank = k + 1
    return rank
