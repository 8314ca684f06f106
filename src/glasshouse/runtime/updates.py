"""The memory of the variables that runs change, as the memory plan has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from glasshouse.lower.plan import Arrival, MemoryPlan
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.late_array import DeviceArray


class State:
    """The variables that runs change.

    `turns` are one or two ways to point into their memory, by place in the table of pointers, for
    the variables and for their new values; `turn` is the one that holds for the next run. What
    a device holds of them at first stays there until the host asks.
    """

    def __init__(self, plan: MemoryPlan, elsewhere: bool = False) -> None:
        """`elsewhere`: runs are a device's, which takes over what is there already."""
        self._late: dict[int, DeviceArray] = {}  # by id of the array that is to hold it
        self.new: set[int] = set()  # ids of arrays for new values: they hold nothing yet
        even: dict[int, Array] = {}
        odd: dict[int, Array] = {}
        # (place of a variable, of its new value, bytes)
        self.copies: list[tuple[int, int, int]] = []
        for update in plan.updates:
            place, next_place = plan.table[update.variable.output], plan.table[update.new]
            array = self._holding(update.variable.attrs["data"], elsewhere)
            even[place] = odd[place] = array
            if update.how is Arrival.COPY:
                self.copies.append((place, next_place, array.nbytes))
            elif update.how is Arrival.IN_PLACE:
                even[next_place] = odd[next_place] = array
            else:
                even[next_place] = odd[place] = other = np.empty_like(array)
                odd[next_place] = array
                self.new.add(id(other))
        differ = any(odd[p] is not a for p, a in even.items())
        self.turns = (even, odd) if differ else (even,)
        self.turn = 0

    def _holding(self, data: Array | DeviceArray, elsewhere: bool) -> Array:
        """An array for a variable. Its data is what it is now, whatever the model writes later."""
        if not elsewhere or not isinstance(data, DeviceArray):
            return np.array(data, order="C")
        array = np.empty(data.shape, data.dtype)
        self._late[id(array)] = data.copied()
        return array

    def taken(self, array: Array) -> DeviceArray | None:
        """What an array is to hold and a device has: from now on the array is not what counts."""
        return self._late.pop(id(array), None)

    def array(self, place: int) -> Array:
        """What a variable holds between two runs."""
        array = self.turns[self.turn][place]
        self._fetch(array)
        return array

    def _fetch(self, array: Array) -> None:
        """Bring to the host what only a device has."""
        late = self._late.pop(id(array), None)
        if late is not None:
            np.copyto(array, late)

    def advance(self) -> None:
        """A run has ended well: what it wrote is what the next one reads."""
        self.turn = (self.turn + 1) % len(self.turns)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """What runs inside leaves the variables as they were."""
        arrays = {id(a): a for turn in self.turns for a in turn.values()}
        for array in arrays.values():
            self._fetch(array)
        before = {key: a.copy() for key, a in arrays.items()}
        turn = self.turn
        try:
            yield
        finally:
            for key, array in arrays.items():
                np.copyto(array, before[key])
            self.turn = turn
