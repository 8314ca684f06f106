"""What holds for the tensors that a thread makes now: gradients, phase, origin, capture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from glasshouse.ir.origin import Origin

if TYPE_CHECKING:
    from glasshouse.tensor.place import Place
    from glasshouse.tensor.tensor import Tensor
    from glasshouse.tensor.trace import Capture

Labels = tuple[tuple[str, str], ...]


class ThreadState:
    """What a thread has for itself, with the values that it starts with."""

    __slots__ = (
        "boundary", "capture", "gradients", "keeping", "labels", "live", "origin", "owner", "place",
        "recording", "sweep_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self.gradients = True  # whether what is computed from what needs a gradient needs one
        self.keeping = 0  # above 0, executed nodes keep their operands: a gradient will walk them
        self.recording = False  # whether a call is recorded that may be kept (`calls.py`)
        self.origin: Origin | None = None  # in place of the user's stack
        self.labels: Labels = ()  # for nodes whose origin is taken from the stack
        self.place: Place | None = None  # the module that is being called
        self.boundary: FrameType | None = None  # the frame that called it: known below
        self.owner: Any = None  # the `nn.Module` at `place`
        self.capture: Capture | None = None  # set while `trace` runs the user's function
        self.live: list[ref[Tensor]] = []  # tensors that may wait (`live.py`)
        self.sweep_at = 0  # how many of them there may be


class _OfThread(threading.local):
    """The state of the thread that asks. One attribute: reading one of a `threading.local` takes
    60 ns, of a plain object 5, and a small training step asks 50 times."""

    def __init__(self) -> None:
        self.own = ThreadState()


STATE = _OfThread()


class Tracing:
    """Whether what runs is kept as trace data (`trace_data.py`), by all threads."""

    level: int = 0
    is_on: bool = False  # whether nodes are kept

    def set_level(self, level: int) -> None:
        self.level, self.is_on = level, level > 1


TRACING = Tracing()


@contextmanager
def no_grad() -> Iterator[None]:
    """What is computed inside needs no gradient."""
    state = STATE.own
    before, state.gradients = state.gradients, False
    try:
        yield
    finally:
        state.gradients = before


@contextmanager
def enable_grad() -> Iterator[None]:
    """The opposite of `no_grad`, for use inside of it."""
    state = STATE.own
    before, state.gradients = state.gradients, True
    try:
        yield
    finally:
        state.gradients = before


@contextmanager
def keeping_operands() -> Iterator[None]:
    """What is executed inside can still be differentiated."""
    state = STATE.own
    state.keeping += 1
    try:
        yield
    finally:
        state.keeping -= 1


@contextmanager
def at(origin: Origin) -> Iterator[None]:
    """Nodes made inside have this origin."""
    state = STATE.own
    before, state.origin = state.origin, origin
    try:
        yield
    finally:
        state.origin = before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Nodes made inside belong to this phase: forward, backward, optimiser."""
    state = STATE.own
    before = state.labels
    state.labels = (*(pair for pair in before if pair[0] != "phase"), ("phase", name))
    try:
        yield
    finally:
        state.labels = before
