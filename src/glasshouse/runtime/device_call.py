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
from glasshouse.runtime.device_run import RECENT
from glasshouse.runtime.faults import fault
from glasshouse.runtime.overlap import overlap

if TYPE_CHECKING:
    from glasshouse.runtime.device_tensors import TensorRun
    from glasshouse.runtime.workspace import Runtimes

ALIGNED = 16
"""Bytes to which kernels want every buffer aligned."""


class FixedCall:
    """What a module that runs so is called through."""

    def __init__(self, run: TensorRun, runtimes: Runtimes, beside: TensorDevice) -> None:
        torch: Any = sys.modules["torch"]
        self._run, self._runtimes, self._beside = run, runtimes, beside
        self._kinds = (torch.Tensor, torch.nn.Parameter)
        self._strided, self._empty = torch.strided, torch.empty
        self._device = torch.device(beside.name)

        def described(value: Value) -> tuple[Any, Any]:
            return torch.Size(sizes_of(value.type.shape, {})), getattr(torch, value.type.dtype.name)

        graph = run.program.graph
        self._inputs = [described(v) for v in graph.inputs]
        self._outputs = [described(v) for v in graph.outputs]
        self._places = [run.plan.table[v] for v in (*graph.inputs, *graph.outputs)]
        self._recent: list[StartedRun] = []
        self._constants: Any = None  # that they hold, at the addresses of so many bindings
        self._bindings = -1

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Any:
        """The results; None where an argument is not just what kernels want, or is wrong."""
        at = self._addresses(inputs, self._inputs)
        if at is None:
            return None
        if outputs is not None:
            into = self._addresses(outputs, self._outputs)
            spans = zip(outputs, into or (), strict=False), zip(inputs, at, strict=True)
            if into is None or overlap(*([(a, a + x.nbytes) for x, a in s] for s in spans)):
                return None
            at += into
        if not self._runtimes.changes:
            return self._launched(at, outputs)
        with self._runtimes.one():
            return self._launched(at, outputs)

    def _launched(self, at: list[int], outputs: Sequence[Any] | None) -> Any:
        run, beside, runtimes = self._run, self._beside, self._runtimes
        with run.lock.lock:
            if runtimes.seed is not None:
                runtimes.seed()
                run.push_seed()
            stream = beside.stream()
            if stream != run.last_stream:
                run.use(stream)
            made = outputs
            if made is None:
                empty, device = self._empty, self._device
                made = [empty(shape, dtype=kind, device=device) for shape, kind in self._outputs]
                at += [x.data_ptr() for x in made]
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
                self._launch_anew(at, stream)
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
            ):
                return None
            place = x.data_ptr()
            if place % ALIGNED:
                return None
            at.append(place)
        return at

    def _launch_anew(self, at: list[int], stream: int) -> None:
        """A launch of other addresses, or with other constants."""
        run, constants = self._run, self._runtimes.constants
        launch = run.launch_at(constants, stream, self._places, at[:-2])
        self._constants, self._bindings = constants, run.bindings
        if launch is not None:
            launch.pointers = at
            self._recent = [launch, *(x for x in self._recent if x is not launch)][:RECENT]
