"""The part of a module that runs it on a device with memory of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from glasshouse.backend.base import (
    Backend,
    DeviceExecutable,
    Executable,
    GeneratedSource,
    TensorDevice,
)
from glasshouse.errors import LibraryRefused, Unsupported
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.signature import Signature
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.program import Call, Program
from glasshouse.runtime.arguments import Inputs, by_order
from glasshouse.runtime.arrays import is_torch, on_gpu
from glasshouse.runtime.calling import is_flat
from glasshouse.runtime.general_run import GeneralRun
from glasshouse.runtime.workspace import Runtimes

if TYPE_CHECKING:  # most modules run on the processor
    from glasshouse.runtime.device_call import FixedCall
    from glasshouse.runtime.device_fallback import Copy
    from glasshouse.runtime.device_tensors import TensorRun


_LOG = logging.getLogger("glasshouse.compile")


class RunsOnDevice:
    """Calls with tensors of a device, and what is known of runs there."""

    program: Program
    source: GeneratedSource
    library_path: Path
    threads: int | None
    backend: Backend
    _executable: Executable
    _general: GeneralRun
    _runtimes: Runtimes
    _by_name: dict[str, Value]
    _takes_flat: bool
    signature: Signature
    _device: TensorRun | None  # made by the first run
    _fixed: FixedCall | None = None  # made by the first run on tensors
    _refused: dict[str, str]  # by kernel that was a library's call
    results_together: Sequence[int] = ()
    """Results, by number, that live about as long as each other (gradients; what is saved for them)
    and so may be parts of one block on a device. Set before the first run."""

    def bound(self, inputs: Inputs, outputs: Sequence[Any]) -> Callable[[], None]:
        """A function that runs on these very tensors of a GPU again and again, without overhead:
        one launch of a CUDA graph, which returns before the run has ended."""
        if not self.backend.elsewhere:
            raise Unsupported(
                "only a module for GPUs is bound to tensors", hint="run_with_tensors runs into them"
            )
        device = self._on_device()
        given = by_order(self.program.graph.inputs, inputs)
        try:
            with self._runtimes.one(), device.lock.lock:
                return device.bound(self._runtimes.constants, given, outputs)
        except LibraryRefused as refused:
            self._compute_otherwise(refused)
            return self.bound(inputs, outputs)

    def _on_device(self) -> TensorRun:
        if self._device is None:
            from glasshouse.runtime.device_tensors import TensorRun

            executable = cast(DeviceExecutable, self._executable)
            self._device = TensorRun(self._general, executable, self.backend.device)
        return self._device

    def _call_on_device(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Any:
        """On tensors of the device; None where all inputs are the host's, or are to be bound."""
        try:
            return self._called_on_device(inputs, outputs)
        except LibraryRefused as refused:
            self._compute_otherwise(refused)
            return self._call_on_device(inputs, outputs)

    def _called_on_device(self, inputs: Sequence[Any], outputs: Sequence[Any] | None) -> Any:
        if self._fixed is not None:
            made = self._fixed(inputs, outputs)
            if made is not None:
                return made
        if not self._takes_flat and not is_flat(inputs, len(self.program.graph.inputs)):
            return None
        if self.signature.takes_tensors_apart:
            return None
        if not any(map(is_torch, inputs)):
            return None
        device = self._on_device()
        beside = device.device.torch
        if beside is None or not any(on_gpu(x) or beside.holds(x) for x in inputs):
            return None
        with self._runtimes.one(), device.lock.lock:
            self._draw_seed(device)
            made = device.call(self._runtimes.constants, inputs, outputs)
        if self._fixed is None and device.is_fixed:
            from glasshouse.runtime.device_call import FixedCall

            together = self.results_together
            self._fixed = FixedCall(device, self._runtimes, beside, together)
        return made[0] if len(made) == 1 and outputs is None else tuple(made)

    def _compute_otherwise(self, refused: LibraryRefused) -> None:
        """Compute with a kernel of our own, from now on, what a library refuses as it is to run:
        program, code and recording are the new ones. An error where there is no such kernel, or
        where a part of the run may have changed variables."""
        from glasshouse.lower.opaque import without_opaque  # it is seldom that one is refused

        device, step = self._on_device(), refused.step
        if step is None or not (device.can_repeat or len(self._general.segments) == 1):
            raise refused
        with self._runtimes.one(changing=False), device.lock.lock:
            before = self.program.steps[step]
            assert isinstance(before, Call), "a library's call is one"
            name = before.kernel.name
            why = f"refused as it was to run: {refused}"
            try:
                program = without_opaque(self.program, self.backend.target, name, why)
            except Unsupported:
                raise refused from None
            if program is self.program:  # another thread was here
                return
            source = self.backend.render(program)
            library = self.backend.build(source)
            executable = cast(DeviceExecutable, self.backend.load(library, None, self.threads))
            general = GeneralRun(program, self._general.state, executable, self.threads)
            general.bodies = self._general.bodies
            self.program, self.source, self.library_path = program, source, library
            self._executable, self._general = executable, general
            device.take_over(general, executable)
            after = program.steps[step]
            assert isinstance(after, Call), "one for the other"
            self._refused[name] = f"{refused}; {after.kernel.variant} runs instead"
            _LOG.info("%s: %s", name, self._refused[name])

    @property
    def fixed_call(self) -> FixedCall | None:
        """What a run on tensors comes down to; None before the first one, or where a run is more
        than one launch."""
        return self._fixed

    def is_one_launch(self) -> bool:
        """Whether runs on tensors are one launch each, of known sizes."""
        return self._on_device().is_fixed

    def on_host(self, inputs: Sequence[Any]) -> list[Any]:
        """Inputs, with tensors of a GPU copied to the host."""
        return [x.cpu() if on_gpu(x) else x for x in inputs]

    def ready(self) -> None:
        """Make what the first run makes: memory on a device."""
        if self.backend.elsewhere:
            self._on_device()

    def runner_of(self, node: Node) -> str:
        """Who runs a step without a kernel: "pytorch" on the device, as far as that is known, or
        "python" on the host."""
        if self._device is None or self._device.fallback.beside(node) is None:
            return "python"
        return "pytorch"

    def host_copies(self) -> Mapping[int, tuple[Copy, Copy]]:
        """By step that the host runs for a device: the copies of its last run, there and back."""
        return {} if self._device is None else self._device.fallback.copies

    def gaps(self) -> Mapping[int, float]:
        """By step: the seconds before it in the last timed run in which the device did nothing."""
        return {} if self._device is None else self._device.executable.gaps()

    def settled(self) -> Mapping[str, str]:
        """What was decided by timing on a device, and from which times; and what was decided as a
        library refused a call."""
        timed = {} if self._device is None else self._device.executable.settled()
        return {**timed, **{f"refused in {name}": why for name, why in self._refused.items()}}

    def lend_weights(self, tensors: Mapping[str, Any]) -> list[str]:
        """Read named constants in place on the device, from these tensors, instead of a copy;
        gives the names of those that kernels read as they are.

        What is written to such a tensor holds from the next run on.
        """
        beside = self.backend.device.torch
        places = {
            name: self.program.memory.table[value]
            for name, value in self._by_name.items()
            if name in tensors and beside is not None and _is_lent(beside, value, tensors[name])
        }
        device = self._on_device()
        lent = {n: p for n, p in places.items() if device.reads(p)}
        device.lend({place: tensors[name].detach() for name, place in lent.items()})
        return list(lent)

    def _draw_seed(self, device: TensorRun) -> None:
        if self._runtimes.seed is not None:
            self._runtimes.seed()
            device.push_seed()

    def synchronize(self) -> None:
        """Wait for runs that go on: those with tensors of a GPU return before they have ended."""
        if self._device is not None:
            self._device.wait()


def _is_lent(beside: TensorDevice, value: Value, tensor: Any) -> bool:
    """Whether a tensor is what kernels want of a constant: device, type and layout."""
    from glasshouse.runtime.device_call import ALIGNED

    return (
        beside.holds(tensor)
        and value.node.op is CONSTANT
        and str(tensor.dtype).removeprefix("torch.") == value.type.dtype.name
        and tuple(tensor.shape) == value.type.shape
        and bool(tensor.is_contiguous())
        and tensor.data_ptr() % ALIGNED == 0
    )
