"""Where a long sum of floats is cut into runs, whose results are added in float64.

A float32 that a million terms were added to has lost ten of its 24 bits, and the variance of values
far from 0 is noise then. Runs of this length cost a few instructions each and keep what PyTorch's
sums keep. Short sums are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cxx.words import COMPUTE_TYPE
from glasshouse.ir.dim import bounds
from glasshouse.lower.kernel.statement import Fold

BY_VECTORS = 1024
"""Elements of a run whose lanes are added at its end: 64 to 256 sums one after the other."""
BY_ELEMENTS = 128
"""Elements of a run that are added one after the other."""


@dataclass(frozen=True)
class Runs:
    """A fold's loop that is cut, and how many of its turns make a run."""

    level: int
    turns: int


def runs_of(fold: Fold, length: int) -> Runs | None:
    """How a fold is cut into runs of about `length` elements; None if it stays whole."""
    if fold.op != "sum" or COMPUTE_TYPE[fold.dtype] != "float":
        return None
    inside = 1.0  # elements in one turn of the loop at hand
    for level in reversed(range(len(fold.loops))):
        here = bounds(fold.loops[level].extent)[1]
        if inside * here > 2 * length:
            return Runs(level, max(int(length // inside), 1))
        inside *= here
    return None
