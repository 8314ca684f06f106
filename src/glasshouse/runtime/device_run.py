"""How a program is run on a device with memory of its own: constants and variables stay there,
inputs are copied there or, where they are tensors of the device, bound as they are.

Steps without a kernel run through Python on the host, between copies of what they read and write;
their time, copies included, is that of the step.
"""

from __future__ import annotations

import ctypes
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.backend.base import DeviceExecutable, DeviceMemory
from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock
from glasshouse.ir.dim import Dim, evaluate, symbols_of
from glasshouse.ir.dtype import from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.lower.order import lying
from glasshouse.lower.program import Call, Fallback
from glasshouse.numpy_ref.executor import bind_sizes, run_node
from glasshouse.ops.random import RUN_SEED
from glasshouse.runtime.arguments import name_of
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.checks import check_given_sizes, check_output, empty, sizes_of
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.faults import fault
from glasshouse.runtime.general_run import GeneralRun, See

ALIGNED = 16
"""Bytes to which kernels want every buffer aligned."""


class DeviceRun:
    """The memory of a program on a device, and its runs."""

    def __init__(self, of: GeneralRun, executable: DeviceExecutable, device: DeviceMemory) -> None:
        self.of = of
        self.program = of.program
        self.plan = of.plan
        self.executable = executable
        self.device = device
        device.enter()
        self._blocks: dict[int, tuple[int, int]] = {}  # by place: address and bytes of a block
        self._held: dict[int, Array] = {}  # by place: the host's array that was uploaded
        self._constants: Mapping[int, Array] = {}
        self.lock = ForkLock()  # one run at a time: they share table and arena
        self._arena, self._arena_bytes = 0, 0
        self._table = array("Q", bytes(8 * max(self.plan.table_size, 1)))
        self._sizes = (ctypes.c_int64 * max(len(self.program.symbols), 1))()
        self._used = self._places_used()
        self._variables = self._new_variables()
        self._unfetched = False

    def _places_used(self) -> set[int]:
        """Places of the table that kernels read or write."""
        plan, program = self.plan, self.program
        used = set(plan.packed.values())
        for step in program.steps:
            values = (*step.node.inputs, *step.node.outputs)
            if isinstance(step, Call):  # a constant in another form is not read as it is
                others = {form.buffer for form in step.kernel.forms}
                read = [v for i, v in enumerate(step.operands) if f"x{i}" not in others]
                values = (*read, *step.outputs)
            for value in values:
                owner = value if value in plan.table else program.buffer_of(value)
                if owner in plan.table:
                    used.add(plan.table[owner])
        return used

    def _new_variables(self) -> list[dict[int, int]]:
        """For each turn, where the variables and their new values lie on the device."""
        addresses: dict[int, int] = {}
        turns: list[dict[int, int]] = []
        for turn in self.of.state.turns:
            for held in turn.values():
                if id(held) not in addresses:
                    addresses[id(held)] = self.device.allocate(held.nbytes)
                    self.device.upload(addresses[id(held)], held)
            turns.append({place: addresses[id(held)] for place, held in turn.items()})
        return turns

    # ----------------------------------------------------------------------------------- variables
    def fetch(self) -> None:
        """Bring what runs have changed back to the host."""
        if not self._unfetched:
            return
        state = self.of.state
        for place, held in state.turns[state.turn].items():
            self.device.download(held, self._variables[state.turn][place])
        self._unfetched = False

    def push(self) -> None:
        """Take over variables that the host has set."""
        state = self.of.state
        for place, held in state.turns[state.turn].items():
            self.device.upload(self._variables[state.turn][place], held)

    def push_seed(self) -> None:
        """Take over the seed of the next run, which the host has drawn."""
        state = self.of.state
        for node in self.program.graph.updates:
            if node.attrs["name"] == RUN_SEED:
                place = self.plan.table[node.output]
                self.device.upload(self._variables[state.turn][place], state.array(place))

    # -------------------------------------------------------------------------------------- memory
    def _bind(self, constants: ConstantSet) -> None:
        """Point to these constants; those that are new are uploaded."""
        self._constants = constants.arrays
        for place, held in constants.arrays.items():
            if place in self._used and self._held.get(place) is not held:
                self._table[place] = self._block(place, held.nbytes)
                self.device.upload(self._table[place], held)
                self._held[place] = held
        for place, address in self._variables[self.of.state.turn].items():
            self._table[place] = address

    def _block(self, place: int, count: int) -> int:
        """Memory of the device for a place of the table; kept for later runs."""
        address, have = self._blocks.get(place, (0, 0))
        if have < count or not address:
            if address:
                self.device.synchronize()
                self.device.free(address)
            address = self.device.allocate(count)
            self._blocks[place] = (address, count)
        return address

    def _grow_arena(self, sizes: Mapping[str, int]) -> None:
        known = [w for w in self.plan.workspaces if self._has(w, sizes)]
        most = max((evaluate(w, sizes) for w in known), default=0)
        count = max(self.plan.arena_bytes, self.plan.work_offset + most + 64)
        if count > self._arena_bytes:
            if self._arena:
                self.device.synchronize()
                self.device.free(self._arena)
            self._arena, self._arena_bytes = self.device.allocate(count), count

    def _has(self, dim: Dim, sizes: Mapping[str, int]) -> bool:
        return isinstance(dim, int) or symbols_of(dim).keys() <= sizes.keys()

    def _set_sizes(self, sizes: Mapping[str, int]) -> None:
        for number, symbol in enumerate(self.program.symbols):
            self._sizes[number] = sizes.get(symbol.name, 0)

    # ------------------------------------------------------------------------------------- running
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
        self.device.enter()
        self.device.stream = self.device.own_stream
        graph, plan = self.program.graph, self.plan
        self._bind(constants)
        for value, held in kept.items():
            place = plan.table[value]
            self._table[place] = self._block(place, held.nbytes)
            self.device.upload(self._table[place], held)
        before = {v: self._read(v, sizes) for v in plan.kept}
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
                np.copyto(array, self._read(value, sizes))
            made.append(array)
        self._finish(before)
        return made

    def _make_room(self, sizes: Mapping[str, int]) -> None:
        graph, plan = self.program.graph, self.plan
        state = self.of.state
        fixed = self._variables[state.turn]
        results = [v for s in self.program.steps if isinstance(s, Fallback) for v in s.node.outputs]
        new = [u.new for u in plan.updates]
        for value in (*graph.outputs, *new, *plan.unbounded, *results):
            place = plan.table[value]
            sized = all(self._has(d, sizes) for d in value.type.shape)
            is_source = value.node.op.name in ("input", "constant", "variable")
            if place in fixed or is_source or not sized:
                continue
            count = int(np.prod(sizes_of(value.type.shape, sizes), dtype=np.int64))
            self._table[place] = self._block(place, count * value.type.dtype.itemsize)
        self._grow_arena(sizes)
        self._set_sizes(sizes)

    def _steps(self, sizes: dict[str, int], times: Array | None, see: See | None) -> None:
        of, steps = self.of, self.program.steps
        clock = times.ctypes.data if times is not None else 0
        table = self._table.buffer_info()[0]
        segments = of.segments if see is None else [(i, i + 1) for i in range(len(steps))]
        for begin, end in segments:
            step = steps[begin]
            if isinstance(step, Fallback):
                start = time.perf_counter()
                self._fall_back(step, sizes)
                if times is not None:
                    times[begin] += time.perf_counter() - start
            else:
                where = ctypes.addressof(self._sizes)
                wrong = self.executable.run(table, self._arena, where, begin, end, clock)
                if wrong:
                    raise fault(self.program, wrong)
            if see is not None:
                see(step, lambda value: self._read(value, sizes))

    def _fall_back(self, step: Fallback, sizes: dict[str, int]) -> None:
        """Through Python on the host."""
        inputs = [from_storage(self._read(v, sizes), v.type.dtype) for v in step.node.inputs]
        known = len(sizes)
        made = run_node(step.node, inputs, sizes, self.of.bodies)
        if len(sizes) > known:
            check_given_sizes(step.node, sizes)
            self._make_room(sizes)
        for value, result in zip(step.node.outputs, made, strict=True):
            order = self.program.orders.get(value)
            lies = result if order is None else result.transpose(order)
            stored = np.ascontiguousarray(to_storage(lies, value.type.dtype))
            place = self.plan.table[value]
            self._table[place] = self._block(place, stored.nbytes)
            self.device.upload(self._table[place], stored)

    def _read(self, value: Value, sizes: Mapping[str, int]) -> Array:
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
            self.device.download(lies, self._table[place])
        else:
            self.device.download(lies, self._arena + plan.arena[owner])
        return lies if order is None else lies.transpose(np.argsort(order))

    def _finish(self, before: Mapping[Value, Array]) -> None:
        """Variables hold their new values from now on."""
        state, plan = self.of.state, self.plan
        following = (state.turn + 1) % len(state.turns)
        for update in plan.updates:
            home = self._variables[following][plan.table[update.variable.output]]
            source = self._table[plan.table[update.new]]
            if update.new in before:
                self.device.upload(home, before[update.new])
            elif source != home:
                self.device.copy(home, source, int(update.variable.attrs["data"].nbytes))
        state.advance()
        self._unfetched = self._unfetched or bool(plan.updates)

    # ----------------------------------------------------------------------- tensors of the device
    def serves(self) -> bool:
        """Whether calls with tensors of the device need nothing of the host."""
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
        if len(inputs) != len(graph.inputs):
            raise ExecutionError(f"the module takes {len(graph.inputs)} inputs, not {len(inputs)}")
        given = [
            _taken(torch, v, x, i)
            for i, (v, x) in enumerate(zip(graph.inputs, inputs, strict=True))
        ]
        sizes = bind_sizes([v.type for v in graph.inputs], given) if self.program.symbols else {}
        for number, (value, x) in enumerate(zip(graph.inputs, given, strict=True)):
            if tuple(x.shape) != sizes_of(value.type.shape, sizes):
                name = name_of(value, number)
                raise ExecutionError(f"{name} must be {value.type}, got shape {list(x.shape)}")
        device = given[0].device
        self.device.stream = torch.cuda.current_stream(device).cuda_stream
        self._bind(constants)
        made: list[Any] = []
        for number, value in enumerate(graph.outputs):
            shape = sizes_of(value.type.shape, sizes)
            dtype = getattr(torch, value.type.dtype.name)
            if outputs is None:
                made.append(torch.empty(shape, dtype=dtype, device=device))
                continue
            out = outputs[number]
            right = tuple(out.shape) == shape and out.dtype is dtype and out.device == device
            if not right or not out.is_contiguous():
                raise ExecutionError(
                    f"output buffer {number} must be a contiguous {value.type} on {device}"
                )
            made.append(out)
        for value, tensor in (
            *zip(graph.inputs, given, strict=True),
            *zip(graph.outputs, made, strict=True),
        ):
            self._table[plan.table[value]] = tensor.data_ptr()
        self._make_arena(sizes)
        frame = self.executable.frame(
            self._table.buffer_info()[0], self._arena, ctypes.addressof(self._sizes),
            len(self.program.steps),
        )  # fmt: skip
        wrong = self.executable.call(frame)
        if wrong:
            raise fault(self.program, wrong)
        self._finish({})
        return made

    def bound(
        self, constants: ConstantSet, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Callable[[], None]:
        """A function that runs again on these very tensors: one launch and nothing else."""
        if self.plan.updates or not self.serves():
            raise ExecutionError("a model that changes variables, or runs on the host in between")
        self.call(constants, inputs, outputs)
        again = self.executable.repeated()
        held = (*inputs, *outputs)

        def run(_: Any = held) -> None:
            again()

        return run

    def _make_arena(self, sizes: Mapping[str, int]) -> None:
        for update in self.plan.updates:
            place = self.plan.table[update.new]
            if place not in self._variables[self.of.state.turn] and not self._table[place]:
                self._table[place] = self._block(place, int(update.variable.attrs["data"].nbytes))
        self._grow_arena(sizes)
        self._set_sizes(sizes)


def _taken(torch: Any, value: Value, given: Any, number: int) -> Any:
    """A tensor of the device, as kernels want it: of its type, contiguous, aligned."""
    name, wanted = name_of(value, number), value.type
    if not isinstance(given, torch.Tensor) or given.device.type != "cuda":
        kind = str(given.device) if isinstance(given, torch.Tensor) else type(given).__name__
        raise ExecutionError(
            f"{name} must be {wanted} on the GPU like the other inputs, got one on {kind}",
            hint="give its cuda(), or give all inputs on the host",
        )
    if given.dtype is not getattr(torch, wanted.dtype.name):
        kind = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
        raise ExecutionError(
            f"{name} must be {wanted}, got {kind}", hint=f"give its to(torch.{wanted.dtype.name})"
        )
    held = given.detach()
    held = held if held.is_contiguous() else held.contiguous()
    return held if held.data_ptr() % ALIGNED == 0 else held.clone()
