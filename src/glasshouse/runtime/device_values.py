"""The device memory of a program's values: constants and variables stay there, steps hand
values to each other in one arena, arguments and results have places in a table."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from glasshouse.backend.base import DeviceExecutable, DeviceMemory, TensorDevice
from glasshouse.forking import ForkLock
from glasshouse.ir.dim import Dim, evaluate, symbols_of
from glasshouse.ir.graph import Value
from glasshouse.lower.order import lying
from glasshouse.lower.plan import Arrival
from glasshouse.lower.program import Fallback
from glasshouse.ops.random import RUN_SEED
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.checks import sizes_of
from glasshouse.runtime.constants import ConstantSet
from glasshouse.runtime.device_blocks import Blocks
from glasshouse.runtime.general_run import GeneralRun
from glasshouse.runtime.late_array import DeviceArray, LateArray, on_host


class DeviceValues:
    """The memory of a program on a device, and where in it every value is."""

    def __init__(self, of: GeneralRun, executable: DeviceExecutable, device: DeviceMemory) -> None:
        self.of = of
        self.program = of.program
        self.plan = of.plan
        self.executable = executable
        self.device = device
        device.enter()
        self.blocks = Blocks(device)  # by place; the arena's is "arena"
        self._held: dict[int, Array | LateArray] = {}  # by place: what was uploaded or is read
        self._constants: Mapping[int, Array | LateArray] = {}
        self.bindings = 0  # how often constants came to other memory, but for those of a turn
        self.lock = ForkLock()  # one run at a time: they share table and arena
        self._arena = 0
        self._table = array("Q", bytes(8 * max(self.plan.table_size, 1)))
        self._sizes = (ctypes.c_int64 * max(len(self.program.symbols), 1))()
        self._used = self._places_used()
        self._views: dict[Value, tuple[Any, Any]] = {}  # PyTorch's, of addresses and shapes
        self._lent: dict[int, Any] = {}  # by place: tensors that hold constants on the device
        self._unfetched = False
        self._variables = self._new_variables()
        self._may_settle = self.can_repeat
        self.last_stream = device.own_stream  # of the last run

    @property
    def can_repeat(self) -> bool:
        """Whether a run can be repeated, to be timed: new values of variables lie beside the old
        ones until it has ended."""
        return all(u.how is Arrival.TURNS for u in self.plan.updates)

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
        """For each turn, the addresses of the variables and of their new values on the device."""
        addresses: dict[int, int] = {}
        turns: list[dict[int, int]] = []
        taken: list[DeviceArray] = []  # held until their copies have ended
        state, beside = self.of.state, self.device.torch
        for turn in state.turns:
            for held in turn.values():
                if id(held) in addresses:
                    continue
                to = self.blocks.of(("variable", len(addresses)), held.nbytes)
                addresses[id(held)] = to
                late = state.taken(held)
                if late is not None and beside is not None and beside.holds(late.tensor):
                    self._wait_for(beside)
                    self.device.copy(to, late.tensor.data_ptr(), held.nbytes)
                    taken.append(late)
                elif id(held) not in state.new:
                    self.device.upload(to, held if late is None else on_host(late))
                self._unfetched = self._unfetched or late is not None
            turns.append({place: addresses[id(held)] for place, held in turn.items()})
        if taken:
            self.device.synchronize()
        return turns

    # ----------------------------------------------------------------------------------- variables
    def fetch(self) -> None:
        """Bring what runs have changed back to the host."""
        if not self._unfetched:
            return
        self.use(self.last_stream)
        state = self.of.state
        for place, held in state.turns[state.turn].items():
            self.device.download(held, self._variables[state.turn][place])
        self._unfetched = False

    def push(self) -> None:
        """Take over variables that the host has set."""
        self.use(self.last_stream)
        state = self.of.state
        for place, held in state.turns[state.turn].items():
            self.device.upload(self._variables[state.turn][place], held)

    def push_seed(self) -> None:
        """Take over the seed of the next run, which the host has drawn."""
        self.use(self.last_stream)
        state = self.of.state
        for node in self.program.graph.updates:
            if node.attrs["name"] == RUN_SEED:
                place = self.plan.table[node.output]
                self.device.put(self._variables[state.turn][place], state.array(place))

    # -------------------------------------------------------------------------------------- memory
    def reads(self, place: int) -> bool:
        """Whether kernels read what is at a place of the table."""
        return place in self._used

    def lend(self, tensors: Mapping[int, Any]) -> None:
        """Read constants at these places in place: from tensors of the device."""
        self.bindings += 1
        for place, tensor in tensors.items():
            self.blocks.drop(place)
            self._lent[place] = tensor
            self._table[place] = tensor.data_ptr()

    def _bind(self, constants: ConstantSet) -> None:
        """Point to these constants; those that are new and not on the device are uploaded."""
        if self._constants is not constants.arrays:  # sets never change
            self.bindings += 1
            for place, held in constants.arrays.items():
                if place in self._used and self._held.get(place) is not held:
                    if place not in self._lent:
                        self._table[place] = self._address_of(place, held)
                    if isinstance(self._held.get(place), DeviceArray):
                        self.device.synchronize()  # PyTorch may give its memory to others at once
                    self._held[place] = held
            self._constants = constants.arrays
        for place, address in self._variables[self.of.state.turn].items():
            self._table[place] = address

    def _address_of(self, place: int, held: Array | LateArray) -> int:
        """Where kernels read a constant: where PyTorch has it on this device, else in a copy."""
        from glasshouse.runtime.device_call import ALIGNED  # it reads this file

        beside = self.device.torch
        if isinstance(held, DeviceArray) and beside is not None and beside.holds(held.tensor):
            address = int(held.tensor.data_ptr())
            if address % ALIGNED == 0:
                self._wait_for(beside)
                self.blocks.drop(place)
                return address
        address = self.blocks.of(place, held.nbytes)
        self.device.upload(address, on_host(held))
        return address

    def _wait_for(self, beside: TensorDevice) -> None:
        """Until PyTorch has written what it was asked to, where runs are not in order with it."""
        ours, theirs = self.device.stream, beside.stream()
        if ours != theirs:
            self.device.stream = theirs
            self.device.synchronize()
            self.device.stream = ours

    def _grow_arena(self, sizes: Mapping[str, int]) -> None:
        self._arena = self.blocks.of("arena", self._arena_bytes(sizes))

    def _arena_bytes(self, sizes: Mapping[str, int]) -> int:
        known = [w for w in self.plan.workspaces if self._has(w, sizes)]
        most = max((evaluate(w, sizes) for w in known), default=0)
        return max(self.plan.arena_bytes, self.plan.work_offset + most + 64)

    def _has(self, dim: Dim, sizes: Mapping[str, int]) -> bool:
        return isinstance(dim, int) or symbols_of(dim).keys() <= sizes.keys()

    def _set_sizes(self, sizes: Mapping[str, int]) -> None:
        for number, symbol in enumerate(self.program.symbols):
            self._sizes[number] = sizes.get(symbol.name, 0)

    def bind(self, value: Value, address: int) -> None:
        """Bind a value to an address from now on."""
        self._table[self.plan.table[value]] = address

    def place(self, value: Value) -> int:
        """The address of a value on the device now."""
        owner = value if value in self.plan.table else self.program.buffer_of(value)
        if owner in self.plan.table:
            return self._table[self.plan.table[owner]]
        return self._arena + self.plan.arena[owner]

    def tensor(self, beside: TensorDevice, value: Value, sizes: Mapping[str, int]) -> Any:
        """What a value holds now as PyTorch's view of it, with its axes in their usual order."""
        owner = value if value in self.plan.table else self.program.buffer_of(value)
        order = self.program.orders.get(owner)
        shape = sizes_of(lying(value.type.shape, order), sizes)
        key = (self.place(value), shape)
        known, view = self._views.get(value, (None, None))
        if known != key:  # PyTorch asks the driver about every address: 10 us
            view = beside.tensor(*key, value.type.dtype.name)
            view = view if order is None else view.permute(*np.argsort(order).tolist())
            self._views[value] = key, view
        return view

    def read(self, value: Value, sizes: Mapping[str, int]) -> Array:
        """What a value holds now, as an array of the host with its axes in their usual order."""
        program, plan = self.program, self.plan
        owner = value if value in plan.table else program.buffer_of(value)
        order = program.orders.get(owner)
        shape = sizes_of(lying(value.type.shape, order), sizes)
        laid_out = np.empty(shape, value.type.dtype.storage)
        if owner in plan.table:
            place = plan.table[owner]
            if place not in self._used and place in self._constants:
                return on_host(self._constants[place]).reshape(shape)
        self.device.download(laid_out, self.place(value))
        return laid_out if order is None else laid_out.transpose(np.argsort(order))

    # ------------------------------------------------------------------------------------- streams
    def use(self, stream: int) -> None:
        """Run on a stream from now on; what runs on another one has ended then, since all runs
        share the arena."""
        self.device.enter()
        if stream != self.last_stream:
            self.device.stream = self.last_stream
            self.device.synchronize()
        self.device.stream = self.last_stream = stream

    def wait(self) -> None:
        """Until the last run has ended."""
        self.use(self.last_stream)
        self.device.synchronize()
