"""Constants and variables of a compiled model by name: set, swapped, followed as weights change."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.backend.base import Backend
from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Value
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.ir.types import TensorType
from glasshouse.lower.program import Program
from glasshouse.runtime.arguments import as_array, require_taken
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.constants import ConstantSet, built_in
from glasshouse.runtime.late_array import DEVICES, DeviceArray, LateArray, can_stay, on_host
from glasshouse.runtime.updates import State
from glasshouse.runtime.weights import Folded, Watch, look, state_of
from glasshouse.runtime.workspace import Runtimes

if TYPE_CHECKING:
    from glasshouse.runtime.device_tensors import TensorRun

NEVER = 1 << 62  # calls: more than anybody makes
_New = dict[int, Array | LateArray]


class HoldsConstants:
    """The part of a module that its weights are given new data through."""

    program: Program
    backend: Backend
    _runtimes: Runtimes
    _state: State
    _device: TensorRun | None

    def __init__(self, program: Program) -> None:
        self.program = program
        self._by_name: dict[str, Value] = {}
        self._built_in = built_in(program)
        self._loaded: ConstantSet | None = None  # waits for swap_constants
        self._setting = ForkLock()
        self._watch: Watch | None = None
        self._calls_left = NEVER  # until weights are looked at: counting down is all a call does
        self._folded = Folded((), ())

    def constant_names(self) -> list[str]:
        return list(self._by_name)

    def set_constant(self, name: str, data: Any) -> None:
        """Give a named constant or variable new data: an array, or a tensor on any device. A module
        of a GPU reads a large tensor of that GPU in place."""
        self.set_many_constants({name: data})

    def set_many_constants(self, constants: Mapping[str, Any]) -> None:
        """Give several new data at once; no run sees half of it."""
        arrays, variables = self._by_place(constants)
        with self._setting.lock:
            new = self._runtimes.constants.replaced(arrays)
            if not variables:
                self._runtimes.constants = new
                return
            with self._runtimes.one():  # the only one: no run is under way
                if self._device is not None:
                    self._device.fetch()
                for place, array in variables.items():
                    np.copyto(self._state.array(place), on_host(array))
                if self._device is not None:
                    self._device.push()
                self._runtimes.constants = new

    def update_weights(self, model: Any) -> None:
        """Take over the weights that a model, or a `state_dict()`, has now; no run sees half.

        Weights that compiling folded into others cannot be set: they are named, and the model is
        compiled again (what was built is not built again).
        """
        state = state_of(model)
        held = [name for name in self._by_name if name in state]
        if not held and not any(name in state for name in self._folded.names):
            known = ", ".join(list(self._by_name)[:3]) or "none"
            raise ExecutionError(
                "no weight of this module is called as one of these",
                hint=f"the module's are: {known}; these are: {', '.join(list(state)[:3])}",
            )
        self._folded.refuse(state)
        self.set_many_constants({name: state[name] for name in held})
        if self._watch is not None:
            self._watch.reported()

    def came_from(self, model: Any, traced: Sequence[str], follow: bool) -> None:
        """What it was compiled from: a PyTorch model, and the names of its graph's weights."""
        self._folded = Folded(traced, self._by_name)
        if model is not None and hasattr(model, "named_parameters"):
            self._watch = Watch(model, follow)
            self._calls_left = 0

    def _look_at_weights(self) -> None:
        watch = self._watch
        if watch is None or not look(watch, self._follow):
            self._watch, self._calls_left = None, NEVER
        else:
            self._calls_left = watch.next_look()

    def _follow(self, changed: Mapping[str, Any]) -> None:
        self._folded.refuse(changed)
        self.set_many_constants({n: t for n, t in changed.items() if n in self._by_name})

    def set_double_buffer_constant(self, name: str, data: Any) -> None:
        """Load new data for a constant beside what is in use, for `swap_constants`."""
        self.set_many_double_buffer_constants({name: data})

    def set_many_double_buffer_constants(self, constants: Mapping[str, Any]) -> None:
        """Load several; runs go on with the old ones, and are not held up."""
        arrays, variables = self._by_place(constants)
        if variables:
            raise ExecutionError(
                "a variable that runs change has no second buffer", hint="set_constant sets it"
            )
        with self._setting.lock:
            self._loaded = (self._loaded or self._runtimes.constants).replaced(arrays)

    def swap_constants(self) -> None:
        """Take what was loaded into use: runs that begin from now on see all of it."""
        with self._setting.lock:
            if self._loaded is None:
                raise ExecutionError(
                    "no constants are loaded to swap to", hint="set_double_buffer_constant loads"
                )
            self._runtimes.constants, self._loaded = self._loaded, None

    def _sources(self, elsewhere: bool) -> dict[int, Array | LateArray]:
        """What constants hold, and variables that no run changes, by place.

        `elsewhere`: kernels read them on a device, which may have them already.
        """
        held: dict[int, Array | LateArray] = {}
        for node in self.program.graph.nodes:
            if node.op is not CONSTANT and node.op is not VARIABLE:
                continue
            name, data = node.attrs["name"], node.attrs["data"]
            if data is None:
                where = str(node.origin.source)
                raise ExecutionError(f"{node.op.label} {name or node.id} has no data", where)
            if name:
                self._by_name[name] = node.output
            if node not in self.program.graph.updates:
                stays = elsewhere and isinstance(data, DeviceArray)
                held[self.program.memory.table[node.output]] = data if stays else on_host(data)
        return held

    def _by_place(self, constants: Mapping[str, Any]) -> tuple[_New, _New]:
        """New data by place: of constants, and of variables that runs change."""
        arrays: _New = {}
        variables: _New = {}
        for name, data in constants.items():
            if name not in self._by_name:
                known = ", ".join(list(self._by_name)[:5])
                raise ExecutionError(
                    f"there is no constant {name!r}",
                    hint=f"there are {len(self._by_name)}: {known} ... (one that a pass folded "
                    "into another is gone)",
                )
            value = self._by_name[name]
            array = _as_stored(name, value.type, data, self.backend.elsewhere)
            if array.shape != value.type.shape:
                raise ExecutionError(f"{name} must be {value.type}, got shape {list(array.shape)}")
            if value in self._built_in and not np.array_equal(array, value.node.attrs["data"]):
                raise ExecutionError(
                    f"{name} is built into the code of {self._built_in[value]}",
                    hint="compile the model with the new value",
                )
            changing = value.node in self.program.graph.updates
            (variables if changing else arrays)[self.program.memory.table[value]] = array
        return arrays, variables


def _as_stored(name: str, wanted: TensorType, data: Any, elsewhere: bool) -> Array | LateArray:
    """New data of a constant, as it is stored; `elsewhere`: kernels read it on a device, where a
    large tensor stays if it is there."""
    torch: Any = sys.modules.get("torch")
    data = getattr(data, "detach", lambda: data)()
    if torch is not None and isinstance(data, torch.Tensor) and data.device.type in DEVICES:
        require_taken(torch, name, wanted, data)
        if elsewhere and data.dtype is getattr(torch, wanted.dtype.name):
            data = data.contiguous()
            if can_stay(data):
                return DeviceArray(data, np.dtype(wanted.dtype.storage))
        data = data.cpu()
    plain = as_array(name, wanted, data)
    return np.ascontiguousarray(to_storage(plain, wanted.dtype)).reshape(plain.shape)
