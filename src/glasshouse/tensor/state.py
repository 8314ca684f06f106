"""What holds for the tensors that a thread makes now: gradients, phase, origin, capture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from glasshouse.ir.origin import Origin

if TYPE_CHECKING:
    from glasshouse.tensor.place import Place
    from glasshouse.tensor.trace import Capture

Labels = tuple[tuple[str, str], ...]


class ThreadState(threading.local):
    """What each thread has for itself; class attributes are the values that it starts with."""

    gradients: bool = True  # whether what is computed from a tensor that needs a gradient needs one
    keeping: int = 0  # above 0, executed nodes keep their operands: a gradient will walk them
    recording: bool = False  # whether a call is recorded that may be kept (`calls.py`)
    origin: Origin | None = None  # in place of the user's stack
    labels: Labels = ()  # for nodes whose origin is taken from the stack
    place: Place | None = None  # the module that is being called
    boundary: FrameType | None = None  # the frame that called it; the stack below is known
    owner: object = None  # the module object at `place`
    capture: Capture | None = None  # set while `trace` runs the user's function


STATE = ThreadState()


class Tracing:
    """Whether what runs is kept as trace data (`trace_data.py`), by all threads."""

    level: int = 0

    @property
    def is_on(self) -> bool:
        return self.level > 1


TRACING = Tracing()


@contextmanager
def no_grad() -> Iterator[None]:
    """What is computed inside needs no gradient."""
    before, STATE.gradients = STATE.gradients, False
    try:
        yield
    finally:
        STATE.gradients = before


@contextmanager
def enable_grad() -> Iterator[None]:
    """The opposite of `no_grad`, for use inside of it."""
    before, STATE.gradients = STATE.gradients, True
    try:
        yield
    finally:
        STATE.gradients = before


@contextmanager
def keeping_operands() -> Iterator[None]:
    """What is executed inside can still be differentiated."""
    STATE.keeping += 1
    try:
        yield
    finally:
        STATE.keeping -= 1


@contextmanager
def at(origin: Origin) -> Iterator[None]:
    """Nodes made inside have this origin."""
    before, STATE.origin = STATE.origin, origin
    try:
        yield
    finally:
        STATE.origin = before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Nodes made inside belong to this phase: forward, backward, optimiser."""
    before = STATE.labels
    STATE.labels = (*(pair for pair in before if pair[0] != "phase"), ("phase", name))
    try:
        yield
    finally:
        STATE.labels = before
