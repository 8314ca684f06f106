"""The memory of the variables that runs change, as the memory plan has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from glasshouse.lower.plan import Arrival, MemoryPlan
from glasshouse.runtime.arrays import Array


class State:
    """The variables that runs change.

    `turns` are one or two ways to point into their memory, by place in the table of pointers, for
    the variables and for their new values; `turn` is the one that holds for the next run.
    """

    def __init__(self, plan: MemoryPlan) -> None:
        even: dict[int, Array] = {}
        odd: dict[int, Array] = {}
        # (place of a variable, of its new value, bytes)
        self.copies: list[tuple[int, int, int]] = []
        for update in plan.updates:
            place, next_place = plan.table[update.variable.output], plan.table[update.new]
            array = np.array(update.variable.attrs["data"], order="C")
            even[place] = odd[place] = array
            if update.how is Arrival.COPY:
                self.copies.append((place, next_place, array.nbytes))
            elif update.how is Arrival.IN_PLACE:
                even[next_place] = odd[next_place] = array
            else:
                even[next_place] = odd[place] = np.empty_like(array)
                odd[next_place] = array
        differ = any(odd[p] is not a for p, a in even.items())
        self.turns = (even, odd) if differ else (even,)
        self.turn = 0

    def array(self, place: int) -> Array:
        """What a variable holds between two runs."""
        return self.turns[self.turn][place]

    def advance(self) -> None:
        """A run has ended well: what it wrote is what the next one reads."""
        self.turn = (self.turn + 1) % len(self.turns)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """What runs inside leaves the variables as they were."""
        arrays = {id(a): a for turn in self.turns for a in turn.values()}
        before = {key: a.copy() for key, a in arrays.items()}
        turn = self.turn
        try:
            yield
        finally:
            for key, array in arrays.items():
                np.copyto(array, before[key])
            self.turn = turn
