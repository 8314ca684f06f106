"""Calls that repeat: what a function of this library recorded before is one node the next time.

A loss is a dozen nodes, and recording a node costs 8 us. Which nodes a function records follows
from the types of its operands, its options and the line that calls it. So the second time they are
kept (`recorded_nodes.py`), and from then on such a call is a single node that stands for them.
Whoever walks over the node has them made in its place; a training step that repeats
(`repeated.py`) never does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar

from glasshouse.ir.op import Kind, NoGradient, Op
from glasshouse.tensor.pending import LazyNode, LazyValue, next_id
from glasshouse.tensor.place import ROOT, Key, walked
from glasshouse.tensor.recorded_nodes import RecordedNodes, between
from glasshouse.tensor.state import STATE, TRACING, ThreadState
from glasshouse.tensor.tensor import Tensor

Kept = dict[Any, "RecordedNodes | bool"]
"""By call: what it records; False where it was met once, True where it cannot be kept."""

MOST = 256
"""Calls that are kept at one place; then all are forgotten: sizes that change without end."""

F = TypeVar("F", bound=Callable[..., Any])

_CALL = Op(
    "call", Kind.OPAQUE, "call", infer=lambda *_: (), ref=lambda *_: (),
    vjp=NoGradient("it is opened before"), inputs=("*xs",),
    doc="Stands for nodes that are not made yet.",
)  # fmt: skip

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


def may_repeat(state: ThreadState) -> bool:
    """Whether a call may be one node now: nobody watches what is recorded, and it is no part of a
    call that is being recorded."""
    return (
        state.capture is None
        and not state.keeping
        and state.origin is None
        and not state.recording
        and not TRACING.is_on
    )


def repeated(kept: Kept, key: Any, operands: list[LazyValue], record: Callable[[], Any]) -> Any:
    """What `record()` gives, which depends on nothing but these operands and what the key has."""
    found = kept.get(key)
    if found is None or found is True:
        if found is None:
            if len(kept) >= MOST:
                kept.clear()
            kept[key] = False
        return _plain(record)
    if found is False:
        first = next_id()
        result = _plain(record)
        made = between(operands, result.value, first) if isinstance(result, Tensor) else None
        kept[key] = True if made is None else made
        return result
    return call_node(found, tuple(operands))


def call_node(nodes: RecordedNodes, operands: tuple[LazyValue, ...]) -> Tensor:
    """A tensor whose node stands for others, with these operands."""
    types = nodes.types
    node = LazyNode(_CALL, operands, _NO_ATTRIBUTES, types, nodes.origin, None, nodes.needs_grad)
    node.stands_for = nodes
    return Tensor.of(LazyValue(node, 0, types[0]))


def _plain(record: Callable[[], Any]) -> Any:
    STATE.own.recording = True
    try:
        return record()
    finally:
        STATE.own.recording = False


def are_apart(operands: Sequence[LazyValue]) -> bool:
    """Whether no operand is given twice: which of them a node reads would not be known."""
    return len({id(v.node) for v in operands}) == len(operands)


def plain_option(value: Any) -> Any:
    """An option as part of a key; 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return (type(value), repr(value) if isinstance(value, float) else value)


def recorded(function: F) -> F:
    """Let calls of a function of tensors repeat. It reads and changes nothing but its arguments."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        state = STATE.own
        if not args or not isinstance(args[0], Tensor) or not may_repeat(state):
            return function(*args, **options)
        place = state.place or ROOT
        site: Key = walked(sys._getframe(1), state.boundary)
        parts: list[Any] = [function, state.labels, site, state.gradients, *options]
        operands: list[LazyValue] = []
        for given in (*args, *options.values()) if options else args:
            if isinstance(given, Tensor):
                value = given.value
                operands.append(value)
                parts += (id(value.type), value.node.needs_grad)
            else:
                parts.append(plain_option(given))
        key = tuple(parts)
        try:
            found = place.calls.get(key)
        except TypeError:  # a list, or an array
            return function(*args, **options)
        if not are_apart(operands):
            return function(*args, **options)
        if isinstance(found, RecordedNodes):
            return call_node(found, tuple(operands))
        return repeated(place.calls, key, operands, lambda: function(*args, **options))

    return call  # type: ignore[return-value]  # it takes and gives what the function does
