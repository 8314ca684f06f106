"""Whether two sets of random numbers are drawn from one distribution, with a stated rate of false
alarms.

Three figures are compared: the distance of the distribution functions (Kolmogorov and Smirnov), the
mean, and the mean square. For n numbers each, the first is past sqrt(ln(2.17 / rate) / n) less
often than `rate`, whatever the distribution is (Wei and Dudley 2012: 2.17 holds from n = 4 on); the
others are past as many of their standard errors as a normal distribution is with that rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from glasshouse.numerics.widen import Array

RATE = 1e-6
"""False alarms of one model, all its draws together."""


@dataclass(frozen=True)
class Apart:
    """A figure that differs by more than chance allows."""

    figure: str
    ours: float
    theirs: float
    distance: float
    allowed: float

    def __str__(self) -> str:
        if self.figure == "distribution":
            return f"its values are distributed otherwise (by {self.distance:.2g})"
        return f"the {self.figure} of its values is {self.ours:.3g}, not {self.theirs:.3g}"


def apart(ours: Array, theirs: Array, rate: float) -> Apart | None:
    """How two samples of one size differ more than happens by chance with this rate; None: not."""
    a, b = (np.asarray(x, np.float64).ravel() for x in (ours, theirs))
    rate /= 3
    wide = NormalDist().inv_cdf(1 - rate / 2)
    for name, x, y in (("mean", a, b), ("mean square", a * a, b * b)):
        error = math.sqrt((float(x.var()) + float(y.var())) / len(x))
        gap = abs(float(x.mean()) - float(y.mean()))
        if not gap <= wide * error + 1e-9 * abs(float(y.mean())):
            return Apart(name, float(x.mean()), float(y.mean()), gap, wide * error)
    allowed = math.sqrt(math.log(2.17 / rate) / len(a))
    distance = _distance(np.sort(a), np.sort(b))
    if distance > allowed:
        return Apart("distribution", 0.0, 0.0, distance, allowed)
    return None


def _distance(a: Array, b: Array) -> float:
    """The largest gap between the distribution functions of two sorted samples.

    Values that are the same but for rounding in float32 count as one: a value that many elements
    have (what dropout leaves) may be computed in another order.
    """
    same = 1e-6 * float(max(np.max(np.abs(a)), np.max(np.abs(b))))
    gaps = [
        np.searchsorted(x, x, side="right") / len(x)
        - np.searchsorted(y, x + same, side="right") / len(y)
        for x, y in ((a, b), (b, a))
    ]
    return float(max(np.max(g, initial=0.0) for g in gaps))
