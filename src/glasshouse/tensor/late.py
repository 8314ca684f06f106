"""Gradients that nobody has read yet: `backward` notes its loss, and they are recorded when `.grad`
is looked at.

Most losses go into an optimiser's `step()` next, which wants loss, gradients and update as one step
(`repeated.py`) and nothing of `.grad`. Whoever reads `.grad` before that, or runs anything, has the
gradients recorded at once. After such a step the parameters still know the loss: their gradients
are recorded from it when they are read, from the values that the parameters had then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glasshouse.forking import ForkLock
from glasshouse.tensor.state import STATE

if TYPE_CHECKING:
    from glasshouse.tensor.tensor import Tensor


class LateBackward:
    """The gradients of one loss (of its sum, if it has many elements) by all leaves."""

    def __init__(self, loss: Tensor) -> None:
        self.loss: Tensor | None = loss  # while nobody has taken it
        self._value = loss.value
        # A run lets go of them.
        self._inputs, self._stands_for = loss.value.node.inputs, loss.value.node.stands_for
        self._found: dict[int, Tensor] | None = None  # by leaf, those that were not read

    @property
    def is_whole(self) -> bool:
        """Whether the loss is what it was: nobody has written to it."""
        return self.loss is not None and self.loss.value is self._value

    def record(self) -> None:
        """Add the gradients to `.grad`, as `backward` says it does."""
        for leaf, found in self._gradients():
            held = resolved(leaf)
            leaf._grad = found if held is None else held + found

    def gradient_of(self, leaf: Tensor) -> Tensor | None:
        """The gradient of one leaf, or None where nothing flows to it."""
        if self._found is None:
            self._found = {id(leaf): found for leaf, found in self._gradients()}
        return self._found.pop(id(leaf), None)

    def reopen(self) -> None:
        """Let gradients flow from the loss once more."""
        self._value.node.needs_grad = True

    def leave_to(self, leaves: Sequence[Tensor]) -> None:
        """A step was taken with the gradients: leaves find theirs here, should they be asked."""
        self.loss = None
        for leaf in leaves:
            leaf._grad = self

    def _gradients(self) -> list[tuple[Tensor, Tensor]]:
        from glasshouse.tensor.grad import gradients_of_leaves, ones_like

        node, state = self._value.node, STATE.own
        # What a capture sees of `.grad` is a value from outside of it.
        inputs, capture = node.inputs, state.capture
        if not inputs:
            node.inputs, node.stands_for = self._inputs, self._stands_for
        node.needs_grad, state.capture = True, None
        try:
            return gradients_of_leaves(self._value, ones_like(self._value))
        finally:
            node.needs_grad, state.capture = False, capture
            if not inputs:
                node.inputs, node.stands_for = (), None


class _WaitingLoss:
    """The loss whose `backward` was called last, until its gradients are read or used."""

    late: LateBackward | None = None


_WAITING = _WaitingLoss()
_LOCK = ForkLock()


def postpone(loss: Tensor) -> None:
    """Note a loss whose gradients are to be added to `.grad`."""
    with _LOCK.lock:
        settle()
        _WAITING.late = LateBackward(loss)
        loss.value.node.needs_grad = False  # it is taken, as far as anybody can see


def settle() -> None:
    """Record gradients that wait."""
    if _WAITING.late is None:
        return
    with _LOCK.lock:
        late = _WAITING.late
        try:
            if late is not None:
                late.record()
        finally:
            _WAITING.late = None  # not before: another thread would read an old `.grad`


def claim(leaves: Sequence[Tensor]) -> LateBackward | None:
    """The loss that waits, if these leaves have no gradient from elsewhere."""
    if _WAITING.late is None:
        return None
    with _LOCK.lock:
        late: LateBackward | None = _WAITING.late
        if late is None or not late.is_whole:
            return None
        if any(leaf._grad is not None for leaf in leaves):
            return None
        _WAITING.late = None
        return late


def resolved(leaf: Tensor) -> Tensor | None:
    """The gradient that a leaf holds, recorded if it was not."""
    held = leaf._grad
    if isinstance(held, LateBackward):
        held = leaf._grad = held.gradient_of(leaf)
    return held
