"""What a module is: named parameters, buffers and modules, a forward, a place in the path.

A module may be subclassed without calling `super().__init__()`. Calling it puts a step with its
name, its class and the line of the call on the module path of every node made inside; making it
does the same with the name `Class_init`.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch, Unsupported
from glasshouse.nn.parameter import Parameter
from glasshouse.nn.repeats import call_repeated, repeats
from glasshouse.tensor import trace_data
from glasshouse.tensor.calls import MOST, may_repeat
from glasshouse.tensor.create import array
from glasshouse.tensor.execute import run_first_values
from glasshouse.tensor.place import ROOT, Place, caller_name, enter, scope, walked
from glasshouse.tensor.state import STATE, TRACING
from glasshouse.tensor.tensor import Tensor

Chain = tuple[
    tuple["Module", str, "Module"], ...
]  # parent, name, child: a path from one to another


class _InitScope(ABCMeta):
    """Nodes that initialise a module belong to the place `Class_init`.

    Derived from ABCMeta, so that a module can be an abstract class too.
    """

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        with scope(f"{cls.__name__}_init", cls.__name__):
            return super().__call__(*args, **keywords)


class Module(metaclass=_InitScope):
    """Base of all layers and models: override `__init__` and `forward`.

    A class that says `repeats = True` beside its `forward` records the same nodes whenever it is
    called with tensors of the same types: its forward reads nothing but attributes, parameters and
    modules, and changes nothing. Its second call and later ones are one node each, which is cheap.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]  # buffers that are not part of the state dict
    _paths: dict[int, Chain]  # where modules below were found when they were called from here
    _places: dict[Any, Place]  # where it was called from outside of any module, by stack
    _below: dict[Any, tuple[int, Module | None, Place]]  # where modules were called from here
    _calls: dict[Any, Any]  # what calls record (`tensor/calls.py`), by place and arguments
    _version: int  # grows with every change of attributes
    _has_run: bool  # whether it was called from outside of any module

    def __new__(cls, *_: Any, **__: Any) -> Any:
        made = super().__new__(cls)
        made.__dict__.update(
            training=True, _parameters={}, _buffers={}, _modules={}, _transient=set(), _paths={},
            _places={}, _below={}, _calls={}, _version=0, _has_run=False,
        )  # fmt: skip
        return made

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: without what calls of this very object have left."""
        return {**self.__dict__, "_paths": {}, "_places": {}, "_below": {}, "_calls": {}}

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise Unsupported(f"{type(self).__name__} has no forward()")

    # ---------------------------------------------------------------------------------- attributes
    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_version"] += 1
        for kept in (self._parameters, self._buffers, self._modules):
            if name in kept and value is not None and not isinstance(value, (Tensor, Module)):
                what = f"{type(self).__name__}.{name} cannot become {type(value).__name__}"
                raise TypeMismatch(what, hint="assign() or load_state_dict() changes its data")
        if isinstance(value, Parameter):
            self._remove(name)
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._remove(name)
            self._modules[name] = value
        elif name in self._buffers and (value is None or isinstance(value, Tensor)):
            self._set_buffer(name, value)
        elif value is None and (name in self._parameters or name in self._modules):
            (self._parameters if name in self._parameters else self._modules)[name] = None
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for kept in ("_modules", "_parameters", "_buffers"):  # a name is in one of them
            if kept in own and name in own[kept]:
                return own[kept][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        if not self._remove(name):
            object.__delattr__(self, name)

    def _remove(self, name: str) -> bool:
        self.__dict__["_version"] += 1
        self.__dict__.pop(name, None)
        found = False
        for kept in (self._parameters, self._buffers, self._modules):
            found = kept.pop(name, None) is not None or found
        return found

    def _set_buffer(self, name: str, value: Tensor | None) -> None:
        """The buffer keeps its identity, so that a capture sees the change as an update."""
        held = self._buffers[name]
        if value is not None and held is not None and held.type == value.type:
            held.assign(value)
        else:
            self._buffers[name] = value

    def register_buffer(self, name: str, value: Tensor | None, persistent: bool = True) -> None:
        """State that is not learned: running statistics, masks."""
        self._remove(name)
        self._buffers[name] = value
        if not persistent:
            self._transient.add(name)

    def register_parameter(self, name: str, value: Parameter | None) -> None:
        self._remove(name)
        self._parameters[name] = value

    def add_module(self, name: str, module: Module | None) -> None:
        self._remove(name)
        self._modules[name] = module

    # -------------------------------------------------------------------------------------- walking
    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((name, m) for name, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        return (m for _, m in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, parents first."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            below = [(f"{path}.{n}" if path else n, m) for n, m in module.named_children()]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        return (m for _, m in self.named_modules())

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Parameters with their paths; one that is shared appears under its first path only."""
        return self._named("_parameters", prefix)

    def parameters(self) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters())

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix)

    def buffers(self) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers())

    def _named(self, kept: str, prefix: str) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, tensor in module.__dict__[kept].items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    def get_submodule(self, path: str) -> Module:
        module = self
        for name in path.split(".") if path else ():
            found = module._modules.get(name)
            if found is None:
                raise TypeMismatch(f"{type(self).__name__} has no module {path!r}")
            module = found
        return module

    # ---------------------------------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and buffers by path, as PyTorch names them; shared ones repeat."""
        from glasshouse.nn.state_dict import state_dict

        return state_dict(self)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Take data from arrays, tensors or PyTorch tensors, matched by path."""
        from glasshouse.nn.state_dict import load_state_dict

        load_state_dict(self, state, strict)

    def train(self, mode: bool = True) -> Any:
        for module in self.modules():
            if module.training is not mode:
                module.__dict__["training"] = mode
                module.__dict__["_version"] += 1
        return self

    def eval(self) -> Any:
        return self.train(False)

    def apply(self, function: Callable[[Module], None]) -> Any:
        """Call a function on every module, children before parents."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def requires_grad_(self, wanted: bool = True) -> Any:
        for parameter in self.parameters():
            parameter.requires_grad_(wanted)
        return self

    def zero_grad(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, dtype: object) -> Any:
        """All floating parameters and buffers with another element type."""
        for module in self.modules():
            module.__dict__["_version"] += 1
            for kept in (module._parameters, module._buffers):
                _cast_all(kept, dtype)  # type: ignore[arg-type]  # a dict of tensors either way
        return self

    def half(self) -> Any:
        return self.to("float16")

    def float(self) -> Any:
        return self.to("float32")

    # -------------------------------------------------------------------------------------- calling
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        state = STATE.own
        before = place, boundary, owner = state.place, state.boundary, state.owner
        frame = sys._getframe(0)
        caller = frame.f_back
        is_plain = state.capture is None and not TRACING.is_on
        if owner is None:  # called from outside: arrays will do
            if not self._has_run and state.capture is None:
                self.__dict__["_has_run"] = True
                run_first_values([*self.parameters(), *self.buffers()])
            for given in args:
                if isinstance(given, np.ndarray):
                    args = tuple([array(a) if isinstance(a, np.ndarray) else a for a in args])
                    break
        place = place or ROOT
        if is_plain and owner is None:
            place = self._entered(place, frame, boundary)
        elif is_plain:
            place = self._entered_below(owner, place, frame, boundary)
        else:
            for name, module in self._steps(owner, frame):
                place = enter(place, name, type(module).__name__, caller, boundary)
                caller = None  # one call, several steps: its frames are on the path already
        state.place, state.boundary, state.owner = place, frame, self
        try:
            if is_plain and not keywords and repeats(type(self)) and may_repeat(state):
                return call_repeated(self, place, args)
            return self.forward(*args, **keywords)
        finally:
            state.place, state.boundary, state.owner = before
            # A frame that holds itself waits for the garbage collector, with its arguments: values
            # between layers would be results of every run until then.
            del frame, caller

    def _entered(self, place: Place, frame: FrameType, boundary: FrameType | None) -> Place:
        """The place of a call from outside of any module; its name was found the first time."""
        key = (place, walked(frame.f_back, boundary))
        found = self._places.get(key)
        if found is None:
            name = caller_name(self, frame.f_back, type(self).__name__)
            found = enter(place, name, type(self).__name__, frame.f_back, boundary)
            if len(self._places) >= MOST:
                self._places.clear()
            self._places[key] = found
        return found

    def _entered_below(
        self, owner: Module, place: Place, frame: FrameType, boundary: FrameType | None
    ) -> Place:
        """The place of a call from another module; kept there until that one changes."""
        key = (id(self), place, walked(frame.f_back, boundary))
        version, module, found = owner._below.get(key, (-1, None, place))
        if version == owner._version and module is self:
            return found
        found, caller = place, frame.f_back
        steps = list(self._steps(owner, frame))
        for name, module in steps:
            found = enter(found, name, type(module).__name__, caller, boundary)
            caller = None  # one call, several steps: its frames are on the path already
        if len(steps) == 1:  # a longer way may change without a change of its first module
            if len(owner._below) >= MOST:
                owner._below.clear()
            owner._below[key] = (owner._version, self, found)
        return found

    def _steps(self, caller: Module | None, frame: FrameType) -> Iterable[tuple[str, Module]]:
        """How one gets here from the module that is being called: usually one step."""
        if caller is not None:
            chain = caller._paths.get(id(self))
            if chain is None or not _holds(chain, self):
                chain = _find(caller, self)
                caller._paths[id(self)] = chain
            if chain:
                return [(name, module) for _, name, module in chain]
        if TRACING.is_on:
            for path, parameter in self.named_parameters():
                trace_data.name_parameter(parameter, path)
        name = caller_name(self, frame.f_back, type(self).__name__)
        capture = STATE.own.capture
        if capture is not None and caller is None:
            name = capture.names.setdefault(id(self), name)
            if not any(m is self for m in capture.modules):
                capture.modules.append(self)
        return [(name, self)]

    # ------------------------------------------------------------------------------------- printing
    def extra_repr(self) -> str:
        """What stands between the brackets for a module without children."""
        return ""

    def __repr__(self) -> str:
        from glasshouse.nn.printing import print_module

        return print_module(self)


def _find(start: Module, wanted: Module) -> Chain:
    """The shortest path from a module to one below it; () where there is none."""
    level: list[tuple[Module, Chain]] = [(start, ())]
    seen = {id(start)}
    while level:
        below: list[tuple[Module, Chain]] = []
        for module, chain in level:
            for name, child in module.named_children():
                longer = (*chain, (module, name, child))
                if child is wanted:
                    return longer
                if id(child) not in seen:
                    seen.add(id(child))
                    below.append((child, longer))
        level = below
    return ()


def _holds(chain: Chain, wanted: Module) -> bool:
    """Whether a path found earlier still leads there."""
    return (not chain or chain[-1][2] is wanted) and all(
        parent._modules.get(name) is child for parent, name, child in chain
    )


def _cast_all(kept: dict[str, Tensor | None], dtype: object) -> None:
    for name, tensor in kept.items():
        if tensor is None or not tensor.dtype.is_float:
            continue
        cast = tensor.detach().cast(dtype)
        kept[name] = (
            Parameter(cast, tensor.requires_grad) if isinstance(tensor, Parameter) else cast
        )
