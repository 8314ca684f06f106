"""Which modules record the same nodes in every call, and when they may be taken again.

What a call records depends on the types of its arguments, on the parameters (which are operands, as
the arguments are) and on the attributes of the module and of those below it. Setting an attribute
of a module raises its `_version`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from glasshouse.ir.types import TensorType
from glasshouse.tensor.calls import are_apart, call_node, plain_option, repeated
from glasshouse.tensor.pending import LazyValue
from glasshouse.tensor.place import Place
from glasshouse.tensor.recorded_nodes import RecordedNodes
from glasshouse.tensor.state import STATE, Labels
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


class _LastCall(NamedTuple):
    """A call with one tensor that was one node: the next one is alike where all of this is the
    same. Parameters that are updated in place keep their values from step to step; behind
    `backward()` two sets of them take turns. They are known by number: whoever held them would keep
    them from being written over."""

    place: Place
    labels: Labels
    gradients: bool
    type: TensorType
    needs_grad: bool
    values: tuple[list[int], list[int]]  # of the parameters and buffers, last and before
    nodes: RecordedNodes


class _Inside:
    """A module and those below it, as they were when its calls were recorded, and their tensors.

    The module holds this, so that this does not hold the module.
    """

    __slots__ = ("all_repeat", "below", "last", "tensors", "version", "versions")

    def __init__(self, module: Module) -> None:
        self.version = module._version
        self.last: _LastCall | None = None
        self.below = [m.__dict__ for m in module.modules() if m is not module]
        self.versions = [below["_version"] for below in self.below]
        found = [*module.parameters(), *module.buffers()]
        self.tensors = list({id(t): t for t in found}.values())
        self.all_repeat = all(
            repeats(type(m)) and "forward" not in m.__dict__ for m in module.modules()
        )

    def is_still(self, module: Module) -> bool:
        """Whether nothing has changed since."""
        if self.version != module._version:
            return False
        return not self.below or [below["_version"] for below in self.below] == self.versions


def call_repeated(module: Module, place: Place, args: tuple[Any, ...]) -> Any:
    """The result of a module that repeats, called at a place."""
    calls = module._calls
    inside: _Inside | None = calls.get(None)
    if inside is None or not inside.is_still(module):
        calls.clear()
        inside = calls[None] = _Inside(module)
    if not inside.all_repeat:
        return module.forward(*args)
    state = STATE.own
    values = [t.value for t in inside.tensors]
    given: LazyValue | None = None
    numbers = [v.node.id + v.index for v in values]  # ids are 64 apart
    last = inside.last
    if len(args) == 1 and isinstance(args[0], Tensor):
        given = args[0].value
        if (
            last is not None
            and place is last.place
            and given.type is last.type
            and given.node.needs_grad is last.needs_grad
            and numbers in last.values
            and given.node.id + given.index not in numbers
            and state.gradients is last.gradients
            and state.labels == last.labels
        ):
            return call_node(last.nodes, (given, *values))
    parts: list[Any] = [place, state.labels, state.gradients]
    operands = [t.value for t in args if isinstance(t, Tensor)]
    parts += [None if isinstance(a, Tensor) else plain_option(a) for a in args]
    operands += values
    for value in operands:
        parts += (id(value.type), value.node.needs_grad)
    try:
        key = tuple(parts)
        hash(key)
    except TypeError:  # a list, or an array
        return module.forward(*args)
    if not operands or not are_apart(operands):
        return module.forward(*args)
    nodes = calls.get(key)
    if given is not None and isinstance(nodes, RecordedNodes):
        before = numbers if last is None or last.nodes is not nodes else last.values[0]
        inside.last = _LastCall(
            place, state.labels, state.gradients, given.type, given.node.needs_grad,
            (numbers, before), nodes,
        )  # fmt: skip
    return repeated(calls, key, operands, lambda: module.forward(*args))
