"""Decides what one run at a time needs for itself: an arena, and tables of pointers.

A module has as many workspaces as runs may go on at the same time (its `num_runtimes`). A run takes
one that is idle, or waits for one, and keeps to the constants that were in use when it began.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from glasshouse.runtime.arrays import Array
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.updates import State


class Workspace:
    """An arena and, for each turn of the variables, a table with the frame that a call needs.

    Tables are arrays of Python's, because nothing else is written into as quickly.
    """

    def __init__(
        self, arena: Array, places: int, pool: ctypes.c_void_p, steps: int, symbols: int
    ) -> None:
        self.arena = arena
        self.pool = pool
        self.constants: ConstantSet | None = None  # those that the tables point to
        self.tables: list[array[int]] = []
        self.frames: list[Any] = []
        self._places = max(places, 1)
        self._steps = steps
        self.sizes = (ctypes.c_int64 * max(symbols, 1))()  # of a call that uses a frame

    def bind(self, constants: ConstantSet, state: State) -> None:
        """Point to these constants from now on."""
        self.tables.clear()
        self.frames.clear()
        begin, sizes = self.arena.ctypes.data, ctypes.addressof(self.sizes)
        for turn in state.turns:
            table = array("Q", bytes(8 * self._places))
            for place, held in (*constants.arrays.items(), *turn.items()):
                table[place] = held.ctypes.data
            self.tables.append(table)
            at = table.buffer_info()[0]
            frame = (ctypes.c_void_p * 5)(self.pool.value, at, begin, sizes, self._steps)
            self.frames.append(frame)
        self.constants = constants


class Runtimes:
    """The workspaces of a module, and the constants that runs see from now on."""

    def __init__(
        self, workspaces: Sequence[Workspace], constants: ConstantSet, state: State
    ) -> None:
        self.constants = constants
        self.state = state
        idle: SimpleQueue[Workspace] = SimpleQueue()
        self.take = idle.get
        self.give = idle.put
        for workspace in workspaces:
            workspace.bind(constants, state)
            self.give(workspace)

    @contextmanager
    def one(self) -> Iterator[Workspace]:
        """A workspace for one run."""
        workspace = self.take()
        try:
            if workspace.constants is not self.constants:
                workspace.bind(self.constants, self.state)
            yield workspace
        finally:
            self.give(workspace)
