"""Calls of a program that is one launch, on tensors whose sizes are all known before, with as
little Python as can be: a small model's kernels take less time than looking everything up again.

A launch holds the addresses that it was last given. As long as tensors come back to addresses that
one of the last launches holds (PyTorch hands out freed memory again), a call is the checks of its
arguments, memory for its results, and that launch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glasshouse.backend.base import StartedRun, TensorDevice
from glasshouse.ir.graph import Value
from glasshouse.runtime.checks import sizes_of
from glasshouse.runtime.device_results import DeviceResults
from glasshouse.runtime.device_run import RECENT
from glasshouse.runtime.faults import fault
from glasshouse.runtime.function_modes import is_in_mode, unseen
from glasshouse.runtime.overlap import overlap

if TYPE_CHECKING:
    from glasshouse.runtime.device_tensors import TensorRun
    from glasshouse.runtime.workspace import Runtimes

ALIGNED = 16
"""Bytes to which kernels want every buffer aligned."""


class FixedCall:
    """What a module that runs so is called through."""

    def __init__(
        self, run: TensorRun, runtimes: Runtimes, beside: TensorDevice,
        together: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """`together`: numbers of results that may share memory (`OnDevice.results_together`)."""
        torch: Any = sys.modules["torch"]
        self._run, self._runtimes, self._beside = run, runtimes, beside
        self._kinds = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._is_in_mode = is_in_mode()

        def described(value: Value) -> tuple[Any, Any]:
            return torch.Size(sizes_of(value.type.shape, {})), getattr(torch, value.type.dtype.name)

        graph, plan = run.program.graph, run.plan
        self._inputs = [described(v) for v in graph.inputs]
        self._outputs = [described(v) for v in graph.outputs]
        self._again = list(run.again.items())
        self._own = [n for n in range(len(graph.outputs)) if n not in run.again]
        own = [graph.outputs[n] for n in self._own]
        self._places = [plan.table[v] for v in (*graph.inputs, *own)]
        self._over = plan.overwrites
        self._results = DeviceResults(self._outputs, together, self._over, beside)
        self._apart: list[int] = []  # addresses of inputs that can be written over
        self._recent: list[StartedRun] = []
        self._constants: Any = None  # that they hold, at the addresses of so many bindings
        self._bindings = -1

    def __call__(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None, over: bool = False
    ) -> Any:
        """The results; None where an argument is not just what kernels want, or is wrong. `over`:
        new values of inputs are written over them where that is right, and they are returned."""
        if self._is_in_mode():
            with unseen():
                return self(inputs, outputs, over)
        at = self._addresses(inputs, self._inputs)
        if at is None:
            return None
        over = over and bool(self._over) and self._are_apart(inputs, at)
        if outputs is not None:
            into = self._addresses(outputs, self._outputs)
            spans = zip(outputs, into or (), strict=False), zip(inputs, at, strict=True)
            if into is None or overlap(*([(a, a + x.nbytes) for x, a in s] for s in spans)):
                return None
        if not self._runtimes.changes:
            return self._launched(at, inputs, outputs, over)
        with self._runtimes.one():
            return self._launched(at, inputs, outputs, over)

    def _are_apart(self, inputs: Sequence[Any], at: list[int]) -> bool:
        """Whether no input that is written over shares memory with another one."""
        if at != self._apart:  # mostly they lie where they lay before
            spans = [(a, a + x.nbytes) for x, a in zip(inputs, at, strict=True)]
            written = set(self._over.values())
            read = [span for i, span in enumerate(spans) if i not in written]
            if overlap([spans[i] for i in written], read):
                return False
            self._apart = at.copy()
        return True

    def _launched(
        self, at: list[int], inputs: Sequence[Any], outputs: Sequence[Any] | None, over: bool
    ) -> Any:
        run, beside, runtimes = self._run, self._beside, self._runtimes
        with run.lock.lock:
            if runtimes.seed is not None:
                runtimes.seed()
                run.push_seed()
            stream = beside.stream()
            if stream != run.last_stream:
                run.use(stream)
            made = self._results.make(inputs, over) if outputs is None else outputs
            at += [made[n].data_ptr() for n in self._own]
            arena = run.lent_arena(beside)
            at += (run.arena, run.of.state.turn)
            if self._constants is not runtimes.constants or self._bindings != run.bindings:
                self._recent.clear()
            for launch in self._recent:
                if launch.pointers == at:
                    wrong = run.executable.again(launch, stream)
                    if wrong:
                        raise fault(run.program, wrong)
                    break
            else:
                self._launch_anew(at, stream, over)
            for number, first in self._again:
                made[number].copy_(made[first])
            if runtimes.changes:
                run.end_step()
            del arena  # whoever is given it next comes behind these kernels on the stream
        return made[0] if len(made) == 1 and outputs is None else tuple(made)

    def _addresses(self, given: Sequence[Any], wanted: Sequence[tuple[Any, Any]]) -> Any:
        """Where tensors lie, if all are what is wanted; else None."""
        if len(given) != len(wanted):
            return None
        index, strided, kinds = self._beside.index, self._strided, self._kinds
        at = []
        for x, (shape, dtype) in zip(given, wanted, strict=True):
            if (
                type(x) not in kinds
                or x.get_device() != index
                or x.dtype is not dtype
                or x.shape != shape
                or x.layout is not strided
                or not x.is_contiguous()
                or x.is_neg()
            ):
                return None
            place = x.data_ptr()
            if place % ALIGNED:
                return None
            at.append(place)
        return at

    def _launch_anew(self, at: list[int], stream: int, once: bool) -> None:
        """A launch of other addresses, or with other constants."""
        run, constants = self._run, self._runtimes.constants
        launch = run.launch_at(constants, stream, self._places, at[:-2], once)
        self._constants, self._bindings = constants, run.bindings
        if launch is not None:
            launch.pointers = at
            self._recent = [launch, *(x for x in self._recent if x is not launch)][:RECENT]
