"""Which random numbers come next: every random op gets a seed of its own, as an operand.

The numbers follow from seed and index alone, so running a graph again gives the same ones, on every
backend. In a captured graph the seeds follow from a variable that grows with each run.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from glasshouse.ir.dtype import int64
from glasshouse.tensor.pending import LazyNode, leaf_node
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.state import STATE

_BITS = 48  # so that sums of a seed and a count of runs stay far below the end of int64
_generator = random.Random(0)


def manual_seed(seed: int) -> None:
    """Let all random numbers from here on follow from this seed."""
    _generator.seed(seed)


def new_seed() -> int:
    """The next seed as a number."""
    return _generator.getrandbits(_BITS)


def next_seed() -> Any:
    """The next seed as an operand: data, so that the graph with another seed is the same graph."""
    if STATE.own.capture is not None:
        return STATE.own.capture.seed(new_seed())
    return seed_node(new_seed()).outputs[0]


def seed_node(seed: int, name: str = "") -> LazyNode:
    """A leaf that holds a seed."""
    return leaf_node(np.array(seed, np.int64), int64, current_origin(sys._getframe(1)), name)
