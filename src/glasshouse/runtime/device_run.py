"""How a program is run on a device with memory of its own, on arrays of the host: inputs are copied
there, results back.

Steps without a kernel run through PyTorch on the device where the process uses it, otherwise on the
host between copies of what they read and write (`device_fallback.py`).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.backend.base import DeviceExecutable, DeviceMemory, StartedRun
from glasshouse.ir.graph import Value
from glasshouse.lower.program import Fallback
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.checks import check_output, empty, sizes_of
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.device_fallback import DeviceFallback
from glasshouse.runtime.device_values import DeviceValues
from glasshouse.runtime.faults import fault
from glasshouse.runtime.general_run import GeneralRun, See

RECENT = 8
"""Launches that are looked through: those of the last few sets of addresses."""


class DeviceRun(DeviceValues):
    """Runs of a program on a device."""

    def __init__(self, of: GeneralRun, executable: DeviceExecutable, device: DeviceMemory) -> None:
        super().__init__(of, executable, device)
        self.fallback = DeviceFallback(self)
        self._former: list[DeviceExecutable] = []
        self._started: dict[int, list[StartedRun]] = {}  # by first step: what its last runs were

    def take_over(self, of: GeneralRun, executable: DeviceExecutable) -> None:
        """Run another program from now on, with the same graph, table and forms of constants. What
        was bound to the one before runs it still."""
        self._former.append(self.executable)
        self.of, self.program, self.plan, self.executable = of, of.program, of.plan, executable
        self._used = self._places_used()
        self._constants = {}  # some may be read now that were not
        self.bindings += 1
        self._started.clear()
        self.__dict__.pop("_fixed_arena", None)

    def run(
        self,
        constants: ConstantSet,
        inputs: Sequence[Array],
        outputs: Sequence[Array] | None,
        times: Array | None,
        see: See | None,
    ) -> list[Array]:
        """Run on arrays of the host: everything is copied there and back."""
        kept, given, sizes = self.of.prepare(inputs, outputs)
        self.use(self.device.own_stream)
        graph, plan = self.program.graph, self.plan
        self._bind(constants)
        for value, held in kept.items():
            place = plan.table[value]
            self._table[place] = self.blocks.of(place, held.nbytes)
            self.device.upload(self._table[place], held)
        before = {v: self.read(v, sizes) for v in plan.kept}
        self._make_room(sizes)
        self._steps(sizes, times, see)
        made: list[Array] = []
        for number, value in enumerate(graph.outputs):
            array = given[number]
            if array is None:
                array = empty(value, sizes)
            else:
                check_output(number, value, array, sizes)
            if value in before:
                np.copyto(array, before[value])
            else:
                np.copyto(array, self.read(value, sizes))
            made.append(array)
        self._finish(before)
        self.fallback.forget()
        return made

    def _make_room(
        self, sizes: Mapping[str, int], bound: Mapping[Value, Any] | None = None
    ) -> None:
        """Memory for what has a size by now, but for what is `bound` to memory already."""
        graph, plan = self.program.graph, self.plan
        fixed = self._variables[self.of.state.turn]
        new = [u.new for u in plan.updates]
        for value in (*graph.outputs, *new, *plan.unbounded):
            place = plan.table[value]
            sized = all(self._has(d, sizes) for d in value.type.shape)
            is_source = value.node.op.name in ("input", "constant", "variable")
            if place in fixed or is_source or not sized or self.fallback.holds(value):
                continue
            if bound and value in bound:
                continue
            count = int(np.prod(sizes_of(value.type.shape, sizes), dtype=np.int64))
            self._table[place] = self.blocks.of(place, count * value.type.dtype.itemsize)
        self._grow_arena(sizes)
        self._set_sizes(sizes)

    def _steps(
        self, sizes: dict[str, int], times: Array | None, see: See | None,
        bound: Mapping[Value, Any] | None = None,
    ) -> None:  # fmt: skip
        """Run all steps; with `bound`, tensors for outputs, without waiting for the end."""
        of, steps = self.of, self.program.steps
        clock = times.ctypes.data if times is not None else 0
        table = self._table.buffer_info()[0]
        where = ctypes.addressof(self._sizes)
        segments = of.segments if see is None else [(i, i + 1) for i in range(len(steps))]
        for begin, end in segments:
            step, wrong = steps[begin], 0
            if isinstance(step, Fallback):
                start = time.perf_counter()
                if self.fallback.run(begin, step, sizes, bound or {}):
                    self._make_room(sizes, bound)
                if times is not None:
                    self.device.synchronize()
                    copying = self.fallback.copy_seconds(begin)
                    times[begin] += time.perf_counter() - start - copying
                    times[-1] += copying
            elif bound is not None:
                wrong = self._start(table, where, begin, end)
            else:
                wrong = self.executable.run(table, self._arena, where, begin, end, clock)
            if wrong:
                raise fault(self.program, wrong)
            if see is not None:
                see(step, lambda value: self.read(value, sizes))

    def _start(self, table: int, sizes: int, begin: int, end: int) -> int:
        """Start some steps: again as they were, where all memory is that of one of the last runs
        (PyTorch hands out freed memory again)."""
        known = (self._table.tobytes(), self._arena, bytes(self._sizes))
        started = self._started.setdefault(begin, [])
        for launch in started:
            if launch.pointers == known:
                return self.executable.again(launch, self.last_stream)
        wrong = self.executable.start(table, self._arena, sizes, begin, end)
        last = self.executable.last
        if last is not None:
            last.pointers = known
            started[:] = [last, *(x for x in started if x is not last)][:RECENT]
        return wrong

    def _finish(self, before: Mapping[Value, Any]) -> None:
        """Variables hold their new values from now on."""
        state, plan = self.of.state, self.plan
        following = (state.turn + 1) % len(state.turns)
        for update in plan.updates:
            home = self._variables[following][plan.table[update.variable.output]]
            source = self._table[plan.table[update.new]]
            if update.new in before:
                held = before[update.new]
                if isinstance(held, np.ndarray):
                    self.device.upload(home, held)
                else:
                    self.device.copy(home, held.data_ptr(), held.nbytes)
            elif source != home:
                self.device.copy(home, source, int(update.variable.attrs["data"].nbytes))
        state.advance()
        self._unfetched = self._unfetched or bool(plan.updates)
