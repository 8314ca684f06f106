"""How a program is run on a device with memory of its own: constants and variables stay there,
inputs are copied there or, where they are tensors of the device, bound as they are.

Steps without a kernel run through PyTorch on the device where the process uses it, otherwise on the
host between copies of what they read and write (`device_fallback.py`).
"""

from __future__ import annotations

import ctypes
import sys
import time
import weakref
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.backend.base import DeviceExecutable, DeviceMemory, TensorDevice
from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock
from glasshouse.ir.dim import Dim, evaluate, symbols_of
from glasshouse.ir.graph import Value
from glasshouse.lower.order import lying
from glasshouse.lower.plan import Arrival
from glasshouse.lower.program import Call, Fallback
from glasshouse.numpy_ref.executor import bind_sizes
from glasshouse.ops.random import RUN_SEED
from glasshouse.runtime.arguments import name_of
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.checks import check_output, empty, sizes_of
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.device_fallback import DeviceFallback
from glasshouse.runtime.faults import fault
from glasshouse.runtime.general_run import GeneralRun, See

ALIGNED = 16
"""Bytes to which kernels want every buffer aligned."""


class Blocks:
    """Memory of a device by a key; what was allocated is freed with it."""

    def __init__(self, device: DeviceMemory) -> None:
        self.device = device
        self._held: dict[Any, tuple[int, int]] = {}  # address and bytes
        weakref.finalize(self, _freed, device, self._held).atexit = False

    def of(self, key: Any, count: int) -> int:
        """At least so many bytes; kept for later runs."""
        address, have = self._held.get(key, (0, 0))
        if address and have >= count:
            return address
        if address:  # no longer held, should there be no room for the new one
            del self._held[key]
            self.device.synchronize()
            self.device.free(address)
        address = self.device.allocate(count)
        self._held[key] = (address, count)
        return address

    def drop(self, key: Any) -> None:
        address, _ = self._held.pop(key, (0, 0))
        if address:
            self.device.synchronize()
            self.device.free(address)

    @property
    def bytes(self) -> int:
        return sum(count for _, count in self._held.values())


def _freed(device: DeviceMemory, held: Mapping[Any, tuple[int, int]]) -> None:
    device.enter()
    for address, _ in held.values():
        device.free(address)


class DeviceRun:
    """The memory of a program on a device, and its runs."""

    def __init__(self, of: GeneralRun, executable: DeviceExecutable, device: DeviceMemory) -> None:
        self.of = of
        self.program = of.program
        self.plan = of.plan
        self.executable = executable
        self.device = device
        device.enter()
        self.blocks = Blocks(device)  # by place; the arena's is "arena"
        self._held: dict[int, Array] = {}  # by place: the host's array that was uploaded
        self._constants: Mapping[int, Array] = {}
        self.lock = ForkLock()  # one run at a time: they share table and arena
        self._arena = 0
        self._table = array("Q", bytes(8 * max(self.plan.table_size, 1)))
        self._sizes = (ctypes.c_int64 * max(len(self.program.symbols), 1))()
        self._used = self._places_used()
        self._lent: dict[int, Any] = {}  # by place: tensors that hold constants on the device
        self._variables = self._new_variables()
        self._may_settle = not self.plan.updates  # a run that changes nothing can be timed
        self._unfetched = False
        self._stream = device.own_stream  # of the last run
        self.fallback = DeviceFallback(self)

    def _places_used(self) -> set[int]:
        """Places of the table that kernels read or write, and steps without a kernel, and who asks
        for outputs."""
        plan, program = self.plan, self.program
        values = [*plan.kept, *program.graph.outputs]
        for step in program.steps:
            if isinstance(step, Fallback):
                values += (*step.node.inputs, *step.node.outputs)
        owners = (v if v in plan.table else program.buffer_of(v) for v in values)
        used = {plan.table[owner] for owner in owners if owner in plan.table}
        return used | self.executable.places

    def _new_variables(self) -> list[dict[int, int]]:
        """For each turn, where the variables and their new values lie on the device."""
        addresses: dict[int, int] = {}
        turns: list[dict[int, int]] = []
        for turn in self.of.state.turns:
            for held in turn.values():
                if id(held) not in addresses:
                    addresses[id(held)] = self.blocks.of(("variable", len(addresses)), held.nbytes)
                    self.device.upload(addresses[id(held)], held)
            turns.append({place: addresses[id(held)] for place, held in turn.items()})
        return turns

    # ----------------------------------------------------------------------------------- variables
    def fetch(self) -> None:
        """Bring what runs have changed back to the host."""
        if not self._unfetched:
            return
        self._use(self._stream)
        state = self.of.state
        for place, held in state.turns[state.turn].items():
            self.device.download(held, self._variables[state.turn][place])
        self._unfetched = False

    def push(self) -> None:
        """Take over variables that the host has set."""
        self._use(self._stream)
        state = self.of.state
        for place, held in state.turns[state.turn].items():
            self.device.upload(self._variables[state.turn][place], held)

    def push_seed(self) -> None:
        """Take over the seed of the next run, which the host has drawn."""
        self._use(self._stream)
        state = self.of.state
        for node in self.program.graph.updates:
            if node.attrs["name"] == RUN_SEED:
                place = self.plan.table[node.output]
                self.device.upload(self._variables[state.turn][place], state.array(place))

    # -------------------------------------------------------------------------------------- memory
    def reads(self, place: int) -> bool:
        """Whether kernels read what is at a place of the table."""
        return place in self._used

    def lend(self, tensors: Mapping[int, Any]) -> None:
        """Read constants at these places where they lie: in tensors of the device."""
        for place, tensor in tensors.items():
            self.blocks.drop(place)
            self._lent[place] = tensor
            self._table[place] = tensor.data_ptr()

    def _bind(self, constants: ConstantSet) -> None:
        """Point to these constants; those that are new are uploaded."""
        self._constants = constants.arrays
        for place, held in constants.arrays.items():
            if place in self._used and self._held.get(place) is not held:
                self._held[place] = held
                if place not in self._lent:
                    self._table[place] = self.blocks.of(place, held.nbytes)
                    self.device.upload(self._table[place], held)
        for place, address in self._variables[self.of.state.turn].items():
            self._table[place] = address

    def _grow_arena(self, sizes: Mapping[str, int]) -> None:
        known = [w for w in self.plan.workspaces if self._has(w, sizes)]
        most = max((evaluate(w, sizes) for w in known), default=0)
        count = max(self.plan.arena_bytes, self.plan.work_offset + most + 64)
        self._arena = self.blocks.of("arena", count)

    def _has(self, dim: Dim, sizes: Mapping[str, int]) -> bool:
        return isinstance(dim, int) or symbols_of(dim).keys() <= sizes.keys()

    def _set_sizes(self, sizes: Mapping[str, int]) -> None:
        for number, symbol in enumerate(self.program.symbols):
            self._sizes[number] = sizes.get(symbol.name, 0)

    # ------------------------------------------------------------------------------------- running
    def _use(self, stream: int) -> None:
        """Run on a stream from now on; what runs on another one has ended then, since all runs
        share the arena."""
        self.device.enter()
        if stream != self._stream:
            self.device.stream = self._stream
            self.device.synchronize()
        self.device.stream = self._stream = stream

    def wait(self) -> None:
        """Until the last run has ended."""
        self._use(self._stream)
        self.device.synchronize()

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
        self._use(self.device.own_stream)
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
                wrong = self.executable.start(table, self._arena, where, begin, end)
            else:
                wrong = self.executable.run(table, self._arena, where, begin, end, clock)
            if wrong:
                raise fault(self.program, wrong)
            if see is not None:
                see(step, lambda value: self.read(value, sizes))

    def bind(self, value: Value, address: int) -> None:
        """Let a value lie at an address from now on."""
        self._table[self.plan.table[value]] = address

    def place(self, value: Value) -> int:
        """Where a value lies on the device now."""
        owner = value if value in self.plan.table else self.program.buffer_of(value)
        if owner in self.plan.table:
            return self._table[self.plan.table[owner]]
        return self._arena + self.plan.arena[owner]

    def tensor(self, beside: TensorDevice, value: Value, sizes: Mapping[str, int]) -> Any:
        """What a value holds now as PyTorch's view of it, with its axes in their usual order."""
        owner = value if value in self.plan.table else self.program.buffer_of(value)
        order = self.program.orders.get(owner)
        shape = sizes_of(lying(value.type.shape, order), sizes)
        lies = beside.tensor(self.place(value), shape, value.type.dtype.name)
        return lies if order is None else lies.permute(*np.argsort(order).tolist())

    def read(self, value: Value, sizes: Mapping[str, int]) -> Array:
        """What a value holds now, as an array of the host with its axes in their usual order."""
        program, plan = self.program, self.plan
        owner = value if value in plan.table else program.buffer_of(value)
        order = program.orders.get(owner)
        shape = sizes_of(lying(value.type.shape, order), sizes)
        lies = np.empty(shape, value.type.dtype.storage)
        if owner in plan.table:
            place = plan.table[owner]
            if place not in self._used and place in self._constants:
                return self._constants[place].reshape(shape)
        self.device.download(lies, self.place(value))
        return lies if order is None else lies.transpose(np.argsort(order))

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

    # ----------------------------------------------------------------------- tensors of the device
    def serves(self) -> bool:
        """Whether a run is one launch."""
        plan = self.plan
        return (
            all(isinstance(s, Call) for s in self.program.steps)
            and not plan.unbounded
            and not plan.kept
            and all(plan.direct)
        )

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
        self._use(beside.stream())
        self._bind(constants)
        for value, tensor in zip(graph.inputs, given, strict=True):
            self._table[plan.table[value]] = tensor.data_ptr()
        made = [self._output(torch, beside, i, sizes, outputs) for i in range(len(graph.outputs))]
        if self.serves():
            for value, tensor in zip(graph.outputs, made, strict=True):
                self._table[plan.table[value]] = tensor.data_ptr()
            self._make_arena(sizes)
            self._launch()
            self._finish({})
            return made
        with beside.ordered(self.device.stream):
            return self._general_call(beside, made, sizes)

    def _launch(self) -> None:
        frame = self.executable.frame(
            self._table.buffer_info()[0], self._arena, ctypes.addressof(self._sizes),
            len(self.program.steps),
        )  # fmt: skip
        if self._may_settle:
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
        self.fetch()
        before = [(held, held.copy()) for held in state.turns[state.turn].values()]
        launches = []
        self._may_settle = True  # since what runs change is put back
        for _ in state.turns:
            self.call(constants, inputs, outputs)
            launches.append(self.executable.repeated())
        self._may_settle = not self.plan.updates
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

    def _make_arena(self, sizes: Mapping[str, int]) -> None:
        for update in self.plan.updates:
            place = self.plan.table[update.new]
            if place not in self._variables[self.of.state.turn] and not self._table[place]:
                self._table[place] = self.blocks.of(
                    place, int(update.variable.attrs["data"].nbytes)
                )
        self._grow_arena(sizes)
        self._set_sizes(sizes)


def taken(torch: Any, beside: TensorDevice, value: Value, given: Any, number: int) -> Any:
    """A tensor of the device, as kernels want it: of its type, contiguous, aligned."""
    name, wanted = name_of(value, number), value.type
    if not beside.holds(given):
        is_tensor = isinstance(given, torch.Tensor)
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
    if given.dtype is not getattr(torch, wanted.dtype.name):
        kind = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
        raise ExecutionError(
            f"{name} must be {wanted}, got {kind}", hint=f"give its to(torch.{wanted.dtype.name})"
        )
    held = given.detach()
    held = held if held.is_contiguous() else held.contiguous()
    return held if held.data_ptr() % ALIGNED == 0 else held.clone()
