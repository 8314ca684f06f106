"""Which tensors the user still holds: what a run meets on its way is kept for them.

Each thread knows those that it made itself. A step of one thread must not take up what another is
in the middle of recording; a tensor that was handed over runs when it is asked for.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import ref

from glasshouse.tensor.state import STATE

if TYPE_CHECKING:
    from glasshouse.tensor.tensor import Tensor


class Live(threading.local):
    """Tensors that are pending, for as long as they are and the user holds them.

    Dead and executed ones are swept out when the list has doubled, so that keeping it costs a
    constant for each tensor.
    """

    def __init__(self) -> None:
        self._tensors: list[ref[Tensor]] = []
        self._limit = 1024

    def add(self, tensor: Tensor) -> None:
        """Called when a pending tensor is made; one that is being captured never has data."""
        if STATE.capture is not None:
            return
        self._tensors.append(ref(tensor))
        if len(self._tensors) > self._limit:
            self.pending()

    def pending(self) -> list[Tensor]:
        """The tensors that are held and not computed yet, oldest first."""
        found: dict[int, Tensor] = {}
        kept: list[ref[Tensor]] = []
        for reference in self._tensors:
            tensor = reference()
            if tensor is None or id(tensor) in found:
                continue
            node = tensor.value.node  # most are no aliases
            if node.results is None and (node.alias is None or tensor.is_pending):
                found[id(tensor)] = tensor
                kept.append(reference)
        self._tensors = kept
        self._limit = max(1024, 2 * len(kept))
        return list(found.values())


LIVE = Live()
