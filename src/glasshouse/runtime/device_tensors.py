"""How a program is run on PyTorch's tensors of a device: bound as they are, in order with PyTorch's
stream; where every step has a kernel, a run is one launch."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from glasshouse.backend.base import StartedRun, TensorDevice
from glasshouse.errors import ExecutionError
from glasshouse.ir.graph import Value
from glasshouse.lower.plan import Arrival
from glasshouse.lower.program import Call
from glasshouse.numpy_ref.executor import bind_sizes
from glasshouse.runtime.arguments import is_pairs, name_of, require_dense
from glasshouse.runtime.checks import sizes_of
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.device_call import ALIGNED
from glasshouse.runtime.device_run import DeviceRun
from glasshouse.runtime.faults import fault
from glasshouse.runtime.overlap import tensors_apart

LARGE_ARENA = 32 << 20
"""Bytes from which an arena is PyTorch's memory, and goes back to it with the call: what PyTorch
has freed by then (the gradients of a loss, before a backward graph) is used again so. A smaller one
stays: asking for it takes longer than an H200 needs for a small model."""


class TensorRun(DeviceRun):
    """Runs of a program on arrays of the host or on tensors of the device."""

    _keeps_arena = False  # since functions that were bound run in it

    def serves(self) -> bool:
        """Whether a run is one launch."""
        return self._is_one_launch() and all(self.plan.direct)

    def _is_one_launch(self) -> bool:
        """The same, but for outputs that are no kernel's results."""
        steps, plan = self.program.steps, self.plan
        return all(isinstance(s, Call) for s in steps) and not plan.unbounded and not plan.kept

    def call(
        self, constants: ConstantSet, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> list[Any]:
        """Run on PyTorch's tensors of the device, without copies, in order with its stream."""
        torch: Any = sys.modules["torch"]
        graph, plan = self.program.graph, self.plan
        beside = self.device.torch
        assert beside is not None, "a tensor of the device was given"
        if len(inputs) != len(graph.inputs):
            raise ExecutionError(f"the module takes {len(graph.inputs)} inputs, not {len(inputs)}")
        given = [
            taken(torch, beside, v, x, i)
            for i, (v, x) in enumerate(zip(graph.inputs, inputs, strict=True))
        ]
        sizes = bind_sizes([v.type for v in graph.inputs], given) if self.program.symbols else {}
        for number, (value, x) in enumerate(zip(graph.inputs, given, strict=True)):
            if tuple(x.shape) != sizes_of(value.type.shape, sizes):
                name = name_of(value, number)
                raise ExecutionError(f"{name} must be {value.type}, got shape {list(x.shape)}")
        self.use(beside.stream())
        self._bind(constants)
        made = [self._output(torch, beside, i, sizes, outputs) for i in range(len(graph.outputs))]
        if outputs is not None:
            given = tensors_apart(given, outputs)
        for value, tensor in zip(graph.inputs, given, strict=True):
            self._table[plan.table[value]] = tensor.data_ptr()
        if self.serves():
            for value, tensor in zip(graph.outputs, made, strict=True):
                self._table[plan.table[value]] = tensor.data_ptr()
            arena = self._make_arena(torch, beside, sizes)
            self._launch()
            self._finish({})
            del arena  # whoever is given it next comes behind these kernels on the stream
            return made
        with beside.ordered(self.device.stream):
            return self._general_call(beside, made, sizes)

    @cached_property
    def is_fixed(self) -> bool:
        """Whether a run is one launch, on tensors whose sizes are all known before; results that
        leave twice are copied behind it."""
        plan = self.plan
        copied = [
            number in self.again for number, is_direct in enumerate(plan.direct) if not is_direct
        ]
        return not self.program.symbols and self._is_one_launch() and all(copied)

    @cached_property
    def again(self) -> dict[int, int]:
        """Outputs that are an earlier one once more, which is given, by number."""
        first: dict[Value, int] = {}
        outputs = enumerate(self.program.graph.outputs)
        return {n: first[v] for n, v in outputs if first.setdefault(v, n) != n}

    # --------------------------------------------------------------- one launch, of known sizes
    @property
    def arena(self) -> int:
        """Where steps hand values to each other."""
        return self._arena

    @cached_property
    def _fixed_arena(self) -> int:
        return self._arena_bytes({})

    def lent_arena(self, beside: TensorDevice) -> Any:
        """Have an arena; the tensor that holds it, if PyTorch lends it (`LARGE_ARENA`)."""
        count = self._fixed_arena
        if self._keeps_arena or count < LARGE_ARENA:
            self._arena = self.blocks.of("arena", count)
            return None
        self.blocks.drop("arena")
        torch: Any = sys.modules["torch"]
        held = torch.empty(count, dtype=torch.uint8, device=beside.name)
        self._arena = held.data_ptr()
        return held

    def launch_at(
        self, constants: ConstantSet, stream: int, places: Sequence[int], at: Sequence[int],
        once: bool = False,
    ) -> StartedRun | None:  # fmt: skip
        """Start a run on memory at these addresses, by place of the table; gives what
        it was started as. `once`: it may not be repeated to be timed, since it writes over what it
        reads."""
        self.use(stream)
        self._bind(constants)
        for place, address in zip(places, at, strict=True):
            self._table[place] = address
        self._make_new_values()
        self._launch(once)
        return self.executable.last

    def end_step(self) -> None:
        """A run was started: variables hold their new values for the next one."""
        self._finish({})

    def _launch(self, once: bool = False) -> None:
        frame = self.executable.frame(
            self._table.buffer_info()[0], self._arena, ctypes.addressof(self._sizes),
            len(self.program.steps),
        )  # fmt: skip
        if self._may_settle and not once:
            self.executable.settle(frame)
        wrong = self.executable.call(frame)
        if wrong:
            raise fault(self.program, wrong)

    def _general_call(
        self, beside: TensorDevice, made: list[Any], sizes: dict[str, int]
    ) -> list[Any]:
        """A run with steps that have no kernel, sizes without bounds, or outputs that are no
        kernel's results."""
        graph, plan = self.program.graph, self.plan
        before = {v: self.tensor(beside, v, sizes).clone() for v in plan.kept}
        bound = {
            v: t
            for v, t, direct in zip(graph.outputs, made, plan.direct, strict=True)
            if direct and t is not None and v not in before
        }
        for value, tensor in bound.items():
            self.bind(value, tensor.data_ptr())
        self._make_room(sizes, bound)
        self._steps(sizes, None, None, bound)
        for number, value in enumerate(graph.outputs):
            if value in bound and bound[value] is made[number]:
                continue
            found = before[value] if value in before else self.tensor(beside, value, sizes)
            if made[number] is None:
                made[number] = found.clone()
            else:
                made[number].copy_(found)
        self._finish({v: t.contiguous() for v, t in before.items()})
        self.fallback.forget()
        return made

    def _output(
        self, torch: Any, beside: TensorDevice, number: int, sizes: Mapping[str, int],
        outputs: Sequence[Any] | None,
    ) -> Any:  # fmt: skip
        """A tensor for an output, the caller's if there are some; None while its size is open."""
        value = self.program.graph.outputs[number]
        if not all(self._has(d, sizes) for d in value.type.shape):
            return None if outputs is None else outputs[number]
        shape = sizes_of(value.type.shape, sizes)
        dtype = getattr(torch, value.type.dtype.name)
        if outputs is None:
            return torch.empty(shape, dtype=dtype, device=beside.name)
        out = outputs[number]
        right = tuple(out.shape) == shape and out.dtype is dtype and beside.holds(out)
        if not right or not out.is_contiguous():
            raise ExecutionError(
                f"output buffer {number} must be a contiguous {value.type} on {beside.name}"
            )
        return out

    def bound(
        self, constants: ConstantSet, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Callable[[], None]:
        """A function that runs again on these very tensors: one launch and nothing else. Variables
        that runs change have afterwards what they had before it was made."""
        state = self.of.state
        if not self.serves() or any(u.how is Arrival.COPY for u in self.plan.updates):
            raise ExecutionError("a model with steps without a kernel, or with variables to copy")
        beside = self.device.torch
        tensors = [x for x in inputs if beside is not None and beside.holds(x)]
        if any(x is not y for x, y in zip(tensors, tensors_apart(tensors, outputs), strict=True)):
            raise ExecutionError(
                "an output lies on an input, which every run would change",
                hint="give the output memory of its own",
            )
        self.fetch()
        before = [(held, held.copy()) for held in state.turns[state.turn].values()]
        launches = []
        self._may_settle = True  # since what runs change is put back
        self._keeps_arena = True
        for _ in state.turns:
            self.call(constants, inputs, outputs)
            launches.append(self.executable.repeated())
        self._may_settle = self.can_repeat
        for held, old in before:
            held[...] = old
        if before:
            self.push()
        owners = (self, constants, *inputs, *outputs)  # memory goes with the last that holds it

        if not self.plan.updates:
            only = launches[0]

            def run(_: Any = owners) -> None:
                only()

            return run
        first = state.turn

        def step(_: Any = owners) -> None:
            launches[(state.turn - first) % len(launches)]()
            state.advance()
            self._unfetched = True

        return step

    def _make_new_values(self) -> None:
        """Room for new values of variables that have none of their own."""
        for update in self.plan.updates:
            place = self.plan.table[update.new]
            if place not in self._variables[self.of.state.turn] and not self._table[place]:
                self._table[place] = self.blocks.of(
                    place, int(update.variable.attrs["data"].nbytes)
                )

    def _make_arena(self, torch: Any, beside: TensorDevice, sizes: Mapping[str, int]) -> Any:
        """Room for what steps hand to each other; the tensor that holds it, if PyTorch lends it."""
        self._make_new_values()
        self._set_sizes(sizes)
        count = self._arena_bytes(sizes)
        if self._keeps_arena or count < LARGE_ARENA:
            self._grow_arena(sizes)
            return None
        self.blocks.drop("arena")
        held = torch.empty(count, dtype=torch.uint8, device=beside.name)
        self._arena = held.data_ptr()
        return held


def taken(torch: Any, beside: TensorDevice, value: Value, given: Any, number: int) -> Any:
    """A tensor of the device, as kernels want it: of its type, contiguous, aligned; complex numbers
    as pairs."""
    name, wanted = name_of(value, number), value.type
    is_tensor = isinstance(given, torch.Tensor)
    if is_tensor:
        require_dense(torch, name, wanted, given)
    if not beside.holds(given):
        if is_tensor and given.device.type == torch.device(beside.name).type:
            raise ExecutionError(
                f"{name} is on {given.device}, and this module runs on {beside.name}",
                hint=f"one GPU is used, the first: give its to({beside.name!r})",
            )
        kind = str(given.device) if is_tensor else f"the host, a {type(given).__name__}"
        raise ExecutionError(
            f"{name} must be {wanted} on {beside.name} like the other inputs, got one on {kind}",
            hint=f"give its to({beside.name!r}), or give all inputs on the host",
        )
    if given.is_complex() and is_pairs(wanted, given.ndim):
        given = torch.view_as_real(given.resolve_conj())
    if given.dtype is not getattr(torch, wanted.dtype.name):
        kind = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
        raise ExecutionError(
            f"{name} must be {wanted}, got {kind}", hint=f"give its to(torch.{wanted.dtype.name})"
        )
    held = given.detach()
    held = held if held.is_contiguous() else held.contiguous()
    return held if held.data_ptr() % ALIGNED == 0 else held.clone()
