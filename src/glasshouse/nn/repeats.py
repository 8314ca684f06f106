"""Which modules record the same nodes in every call, and when they may be taken again.

What a call records depends on the types of its arguments, on the parameters (which are operands, as
the arguments are) and on the attributes of the module and of those below it. Setting an attribute
of a module raises its `_version`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glasshouse.tensor.calls import are_apart, plain_option, repeated
from glasshouse.tensor.place import Place
from glasshouse.tensor.state import STATE
from glasshouse.tensor.tensor import Tensor

if TYPE_CHECKING:
    from glasshouse.nn.module import Module

_repeats: dict[type, bool] = {}


def repeats(cls: type[Module]) -> bool:
    """Whether a class, of this package or one that says so itself, has a forward that repeats."""
    found = _repeats.get(cls)
    if found is None:
        own = "repeats" in vars(cls) or cls.__module__.startswith("glasshouse.nn.")
        giver = next(c for c in cls.__mro__ if "forward" in vars(c))
        found = _repeats[cls] = own and bool(vars(giver).get("repeats", False))
    return found


class _Inside:
    """A module and those below it, as they were when its calls were recorded, and their tensors.

    The module holds this, so that this does not hold the module.
    """

    __slots__ = ("all_repeat", "below", "tensors", "version")

    def __init__(self, module: Module) -> None:
        self.version = module._version
        self.below = [(m.__dict__, m._version) for m in module.modules() if m is not module]
        found = [*module.parameters(), *module.buffers()]
        self.tensors = list({id(t): t for t in found}.values())
        self.all_repeat = all(
            repeats(type(m)) and "forward" not in m.__dict__ for m in module.modules()
        )

    def is_still(self, module: Module) -> bool:
        """Whether nothing has changed since."""
        return self.version == module._version and all(
            below["_version"] == version for below, version in self.below
        )


def call_repeated(module: Module, place: Place, args: tuple[Any, ...]) -> Any:
    """The result of a module that repeats, called at a place."""
    calls = module._calls
    inside: _Inside | None = calls.get(None)
    if inside is None or not inside.is_still(module):
        calls.clear()
        inside = calls[None] = _Inside(module)
    if not inside.all_repeat:
        return module.forward(*args)
    state = STATE
    parts: list[Any] = [place, state.labels, state.gradients]
    operands = [t.value for t in args if isinstance(t, Tensor)]
    parts += [None if isinstance(a, Tensor) else plain_option(a) for a in args]
    operands += [t.value for t in inside.tensors]
    for value in operands:
        parts += (id(value.type), value.node.needs_grad)
    try:
        key = tuple(parts)
        hash(key)
    except TypeError:  # a list, or an array
        return module.forward(*args)
    if not operands or not are_apart(operands):
        return module.forward(*args)
    return repeated(calls, key, operands, lambda: module.forward(*args))
