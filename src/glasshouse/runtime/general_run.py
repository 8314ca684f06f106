"""How any program is run: symbolic sizes, fallbacks, times, and a look at every step."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from glasshouse.backend.base import Executable
from glasshouse.backend.memory import ALIGN
from glasshouse.ir.dim import Dim, symbols_of
from glasshouse.ir.dtype import from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.lower.order import lying
from glasshouse.lower.program import Fallback, Program, Step
from glasshouse.numpy_ref.executor import bind_sizes, run_node
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.bodies import Bodies
from glasshouse.runtime.checks import (
    check_given_sizes,
    check_output,
    checked_input,
    sizes_of,
)
from glasshouse.runtime.faults import fault
from glasshouse.runtime.quick_fallback import segments_of
from glasshouse.runtime.updates import State
from glasshouse.runtime.workspace import Workspace

Shape = tuple[int, ...]

See = Callable[[Step, Callable[[Value], Array]], None]
"""Told of each step after it ran, with a function that reads its operands and outputs."""


_ROOMS = 64
"""Sets of sizes whose room is remembered: most calls have those of one before."""


@dataclass(frozen=True)
class _SizedRoom:
    """What can have memory where these sizes are known: shapes, and the largest workspace."""

    outputs: tuple[Shape | None, ...]  # None: its size is not known yet
    unbounded: tuple[tuple[Value, Shape], ...]
    updated: tuple[tuple[Value, Shape], ...]  # new values of variables
    workspace: int


class GeneralRun:
    """What does not change between the calls of a program."""

    def __init__(
        self, program: Program, state: State, executable: Executable, threads: int | None = None
    ) -> None:
        self.program = program
        self.plan = program.memory
        self.state = state
        self.executable = executable
        self.bodies = Bodies(threads)
        self.segments = segments_of(program)
        self._rooms: dict[tuple[tuple[str, int], ...], _SizedRoom] = {}

    def room(self, sizes: Mapping[str, int]) -> _SizedRoom:
        """What has a size by now. Of a program with 25 values of unbounded size it took 0.3 ms of
        each call to find out."""
        key = tuple(sizes.items())
        found = self._rooms.get(key)
        if found is None:
            if len(self._rooms) >= _ROOMS:
                self._rooms.clear()
            found = self._rooms[key] = self._room_for(sizes)
        return found

    def _room_for(self, sizes: Mapping[str, int]) -> _SizedRoom:
        def shape(dims: Sequence[Dim]) -> Shape | None:
            known = all(isinstance(d, int) or symbols_of(d).keys() <= sizes.keys() for d in dims)
            return sizes_of(dims, sizes) if known else None

        work = [s[0] for w in self.plan.workspaces if (s := shape((w,))) is not None]

        def sized(values: Iterable[Value]) -> tuple[tuple[Value, Shape], ...]:
            return tuple((v, s) for v in values if (s := shape(v.type.shape)) is not None)

        return _SizedRoom(
            tuple(shape(v.type.shape) for v in self.program.graph.outputs),
            sized(self.plan.unbounded),
            sized(update.new for update in self.plan.updates),
            max(work, default=0),
        )

    def prepare(
        self, inputs: Sequence[Array], outputs: Sequence[Array] | None
    ) -> tuple[dict[Value, Array], list[Array | None], dict[str, int]]:
        """The inputs as they should be, the caller's outputs, and the sizes that symbols have."""
        graph = self.program.graph
        sizes = bind_sizes([v.type for v in graph.inputs], inputs)
        kept: dict[Value, Array] = {}
        for number, (value, array) in enumerate(zip(graph.inputs, inputs, strict=True)):
            kept[value] = checked_input(value, array, sizes, number)
        out: list[Array | None] = [None] * len(graph.outputs) if outputs is None else [*outputs]
        return kept, out, sizes


class Run:
    """One call of a program in a workspace."""

    def __init__(
        self, of: GeneralRun, workspace: Workspace, kept: dict[Value, Array], sizes: dict[str, int]
    ) -> None:
        self.of = of
        self.workspace = workspace
        self.kept = kept  # what has memory of its own: inputs, outputs, results of fallbacks
        self.sizes = sizes
        state = of.state
        self._held = {**_constants(workspace), **state.turns[state.turn]}
        self._table = workspace.tables[state.turn][:]
        self._numbers = (ctypes.c_int64 * max(len(of.program.symbols), 1))()  # sizes, for kernels
        self._outputs: list[Array | None] = []
        self._is_watched = False

    def execute(
        self, given: Sequence[Array | None], times: Array | None, see: See | None
    ) -> list[Array]:
        """Run all steps, then hand over what is left to hand over: the outputs.

        `given` are buffers of the caller's for them, or None for those that are made here. `times`
        has a place for each step, and one for the copies.
        """
        of, kept = self.of, self.kept
        program, places = of.program, of.plan.table
        graph = program.graph
        for value in of.plan.kept:  # read before a run may write over it
            kept.setdefault(value, self._held[places[value]].copy())
        self._outputs = list(given)
        # Whoever looks at a step finds its operands as they were.
        self._is_watched = see is not None
        for value, held in kept.items():
            self._table[places[value]] = held.ctypes.data
        self._make_room()
        self._steps(times, see)
        copying = 0.0
        made: list[Array] = []
        for value, array in zip(graph.outputs, self._outputs, strict=True):
            assert array is not None  # every size is known when all steps have run
            if kept[value] is not array:
                copying += _copied(array, kept[value])
            made.append(array)
        state = of.state
        following = state.turns[(state.turn + 1) % len(state.turns)]
        for update in of.plan.updates:
            home = following[places[update.variable.output]]
            new = update.new
            held = kept[new] if new in kept else self._held[places[new]]
            if held is not home:
                copying += _copied(home, held)
        state.advance()
        if times is not None:
            times[-1] += copying
        return made

    def _make_room(self) -> None:
        """Memory for what has a size by now: again when a step has given further sizes."""
        kept, room = self.kept, self.of.room(self.sizes)
        for number, value in enumerate(self.of.program.graph.outputs):
            shape, array = room.outputs[number], self._outputs[number]
            if shape is None:
                continue
            if array is None:
                array = self._outputs[number] = np.empty(shape, value.type.dtype.storage)
            else:
                check_output(number, value, array, self.sizes)
            if value not in kept:
                self._keep(value, array)
        for value, shape in (*room.unbounded, *(room.updated if self._is_watched else ())):
            if value not in kept:
                self._keep(value, np.empty(shape, value.type.dtype.storage))
        self._grow_arena(room.workspace)
        for number, symbol in enumerate(self.of.program.symbols):
            self._numbers[number] = self.sizes.get(symbol.name, 0)

    def _keep(self, value: Value, array: Array) -> None:
        """Memory of its own for a value, which steps find in the table."""
        self.kept[value] = array
        self._table[self.of.plan.table[value]] = array.ctypes.data

    def _grow_arena(self, most: int) -> None:
        """Allocate workspaces whose size was not known before; it is kept for later runs."""
        plan = self.of.plan
        needed = plan.work_offset + most + ALIGN
        if most and needed > self.workspace.arena.size:
            self.workspace.grow(needed, plan.work_offset)

    def _steps(self, times: Array | None, see: See | None) -> None:
        of, steps = self.of, self.of.program.steps
        clock = times.ctypes.data if times is not None else 0
        table, sizes = self._table.buffer_info()[0], ctypes.addressof(self._numbers)
        segments = of.segments if see is None else [(i, i + 1) for i in range(len(steps))]
        for begin, end in segments:
            step = steps[begin]
            if isinstance(step, Fallback):
                started = time.perf_counter()
                self._fall_back(step)
                if times is not None:
                    times[begin] += time.perf_counter() - started
            else:
                arena = self.workspace.arena.ctypes.data
                wrong = of.executable.run(table, arena, sizes, begin, end, clock)
                if wrong:
                    raise fault(of.program, wrong)
            if see is not None:
                see(step, self._read)

    def _fall_back(self, step: Fallback) -> None:
        arrays = [from_storage(self._read(v), v.type.dtype) for v in step.node.inputs]
        known = len(self.sizes)
        made = run_node(step.node, arrays, self.sizes, self.of.bodies)
        if len(self.sizes) > known:
            check_given_sizes(step.node, self.sizes)
            self._make_room()
        for value, array in zip(step.node.outputs, made, strict=True):
            order = self.of.program.orders.get(value)
            laid_out = array if order is None else array.transpose(order)
            stored = np.ascontiguousarray(to_storage(laid_out, value.type.dtype))
            if value in self.kept:
                np.copyto(self.kept[value], stored)
            else:
                self._keep(value, stored)

    def _read(self, value: Value) -> Array:
        """What a value holds now, as an array with its axes in their usual order."""
        program, plan = self.of.program, self.of.plan
        owner = value if value in self.kept else program.buffer_of(value)
        order = program.orders.get(owner)
        shape = sizes_of(lying(value.type.shape, order), self.sizes)
        if owner in self.kept:
            flat = self.kept[owner].reshape(-1)
        elif owner in plan.table:
            held = self._held.get(plan.table[owner])
            flat = np.asarray(owner.node.attrs["data"] if held is None else held).reshape(-1)
        else:
            begin = plan.arena[owner]
            count = int(np.prod(shape, dtype=np.int64)) * value.type.dtype.itemsize
            flat = self.workspace.arena[begin : begin + count].view(value.type.dtype.storage)
        laid_out = flat.reshape(shape)
        return laid_out if order is None else laid_out.transpose(np.argsort(order))


def _copied(into: Array, array: Array) -> float:
    """Copies, and gives the seconds that it took."""
    begin = time.perf_counter()
    np.copyto(into, array)
    return time.perf_counter() - begin


def _constants(workspace: Workspace) -> Mapping[int, Array]:
    assert workspace.constants is not None  # bound before any run
    return cast("Mapping[int, Array]", workspace.constants.arrays)  # modules of the host: no others
