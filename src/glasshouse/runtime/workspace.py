"""What one run at a time needs for itself: an arena, and tables of pointers.

A module has as many workspaces as runs may go on at the same time (its `num_runtimes`). A run takes
one that is idle, or waits for one, and keeps to the constants that were in use when it began. One
that a step of another run begins (an op of the user's that calls the module) cannot wait for that:
it has a workspace for itself, where runs do not change what they share.

A forked child has a fresh workspace in place of each that another thread was using. Variables are
another matter: a fork waits for the step that is changing them, so that the child has them whole.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Any

from glasshouse.backend.base import Backend, Executable
from glasshouse.backend.memory import aligned_bytes
from glasshouse.errors import ExecutionError, OutOfMemory
from glasshouse.forking import ForkAware
from glasshouse.lower.plan import upper_bytes
from glasshouse.lower.program import Program
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.late_array import LateArray
from glasshouse.runtime.updates import State

PATIENCE = 10.0
"""Seconds that a fork waits for a step that changes variables; it must end some time."""


def arena_for(backend: Backend, program: Program) -> Array:
    """Memory for all values between kernels, or an error that says what takes most of it."""
    plan = program.memory
    try:
        return backend.memory(plan.arena_bytes)
    except MemoryError:
        largest = max(plan.arena, key=lambda v: upper_bytes(v.type.nbytes), default=None)
        size = 0 if largest is None else upper_bytes(largest.type.nbytes)
        raise OutOfMemory(
            f"no memory for the {plan.arena_bytes:,} bytes that lie between the kernels of "
            f"{program.graph.name or 'this model'}"
            + (f"; the largest value is {largest.type}, {size:,} bytes" if largest else ""),
            str(largest.node.origin.source) if largest else "",
            hint="give smaller inputs, or a size that differs from call to call a lower bound",
        ) from None


class Workspace:
    """An arena and, for each turn of the variables, a table with the frame that a call needs.

    Tables are arrays of Python's, because nothing else is written into as quickly.
    """

    def __init__(
        self, arena: Array, places: int, executable: Executable, steps: int, symbols: int
    ) -> None:
        self.arena = arena
        self._executable = executable
        self.constants: ConstantSet | None = None  # those that the tables point to
        self.tables: list[array[int]] = []
        self.frames: list[Any] = []
        self.views: list[list[Any]] | None = None  # what steps without a kernel read
        self.sized: Array | None = None  # memory of values without a bound
        self.rooms: list[int] = []  # offsets in it
        self.fitted: tuple[int, ...] | None = None  # the sizes that these are for
        self._places = max(places, 1)
        self._steps = steps
        self.sizes = (ctypes.c_int64 * max(symbols, 1))()  # of a call that uses a frame

    def bind(self, constants: ConstantSet, state: State) -> None:
        """Point to these constants from now on."""
        self.tables.clear()
        self.frames.clear()
        self.views = self.fitted = None
        begin, sizes = self.arena.ctypes.data, ctypes.addressof(self.sizes)
        for turn in state.turns:
            table = array("Q", bytes(8 * self._places))
            for place, held in (*constants.arrays.items(), *turn.items()):
                if not isinstance(held, LateArray):  # a device's, which no code of the host reads
                    table[place] = held.ctypes.data
            self.tables.append(table)
            at = table.buffer_info()[0]
            self.frames.append(self._executable.frame(at, begin, sizes, self._steps))
        self.constants = constants

    def grow(self, count: int, keep: int) -> None:
        """Give the arena so many bytes, of which the first are as they were. Frames point to the
        old one until the workspace is bound again."""
        grown = aligned_bytes(count)
        grown[:keep] = self.arena[:keep]
        self.arena, self.constants = grown, None

    def addresses(self, turn: int) -> tuple[int, int, int]:
        """Where the table of a turn, the arena and the sizes are."""
        table = self.tables[turn].buffer_info()[0]
        return table, self.arena.ctypes.data, ctypes.addressof(self.sizes)

    def another(self, kind: type[Workspace]) -> Workspace:
        """One of the same size, not yet bound to anything."""
        arena = aligned_bytes(self.arena.size)
        return kind(arena, self._places, self._executable, self._steps, len(self.sizes))


class HalfWritten(Workspace):
    """The workspace of a module whose variables a child got in the middle of a step: no run."""

    @property
    def constants(self) -> ConstantSet | None:
        raise ExecutionError(
            "this process was forked while another thread changed the variables of this model: "
            "they may be half written",
            hint="load or compile the model again in this process, or fork between two steps",
        )

    @constants.setter
    def constants(self, new: ConstantSet | None) -> None:
        pass


class Runtimes(ForkAware):
    """The workspaces of a module, and the constants that runs see from now on."""

    def __init__(
        self,
        workspaces: Sequence[Workspace],
        constants: ConstantSet,
        state: State,
        elsewhere: bool = False,
    ) -> None:
        """`elsewhere`: runs share a device's memory, whatever workspaces they have."""
        self.constants = constants
        self.state = state
        self.changes = bool(state.turns[0])  # whether runs change variables
        self.seed: Callable[[], None] | None = None  # called in a workspace before a run
        self.stepping = 0  # the thread whose run is changing them now
        self._elsewhere = elsewhere
        self._inside: dict[int, Workspace] = {}  # by thread whose run may call the module again
        self._new_queue()
        self._model, self._count = workspaces[0], len(workspaces)
        self._paused: Workspace | None = None  # kept from runs by a fork
        for workspace in workspaces:
            workspace.bind(constants, state)
            self.give(workspace)
        self.watch_forks()

    def _new_queue(self) -> None:
        self._idle: SimpleQueue[Workspace] = SimpleQueue()
        self.take = self._idle.get
        self.give = self._idle.put

    @contextmanager
    def one(self, changing: bool = True) -> Iterator[Workspace]:
        """A workspace for one run, or for a time without runs that change variables."""
        workspace = self.enter()
        self.stepping = get_ident() if changing else 0
        try:
            if workspace.constants is not self.constants:
                workspace.bind(self.constants, self.state)
            yield workspace
        finally:
            self.stepping = 0
            self.leave(workspace)

    def enter(self) -> Workspace:
        """As `take`, for a run with steps in Python, which may call the module again."""
        me = get_ident()
        if me not in self._inside:
            workspace = self._inside[me] = self.take()
            return workspace
        if self.changes or self._elsewhere:
            raise ExecutionError(
                "a step of this module's run calls the module itself, which would wait for the end "
                "of that run" + ("" if self._elsewhere else ": it changes the model's variables"),
                hint="compile the model once more, and let the step call that module",
            )
        return self._model.another(Workspace)

    def leave(self, workspace: Workspace) -> None:
        """As `give`, for what `enter` gave."""
        me = get_ident()
        if self._inside.get(me) is workspace:
            del self._inside[me]
            self.give(workspace)

    # ------------------------------------------------------------------------------------- forking
    def before_fork(self) -> None:
        if self.changes and self.stepping != get_ident():  # a step that forks itself goes on
            try:
                self._paused = self._idle.get(timeout=PATIENCE)
            except Empty:
                self._paused = None

    def after_fork_in_parent(self) -> None:
        paused, self._paused = self._paused, None
        if paused is not None:
            self.give(paused)

    def after_fork_in_child(self) -> None:
        """With a queue of its own: the old one may have been giving to a thread that is gone."""
        idle, me = self._idle, get_ident()
        self._new_queue()
        self._inside = {thread: held for thread, held in self._inside.items() if thread == me}
        for _ in range(idle.qsize()):
            self.give(idle.get_nowait())
        self.after_fork_in_parent()
        if self.changes and self.stepping:
            if self.stepping != get_ident():
                self.give(self._model.another(HalfWritten))
            return
        for _ in range(self._count - self._idle.qsize()):
            self.give(self._model.another(Workspace))
