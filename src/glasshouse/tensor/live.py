"""Which tensors the user still holds: what a run meets on its way is kept for them.

Each thread knows those that it made itself. A step of one thread must not take up what another is
in the middle of recording; a tensor that was handed over runs when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from glasshouse.tensor.state import STATE

if TYPE_CHECKING:
    from glasshouse.tensor.tensor import Tensor

_FEW = 1024


def add_live(tensor: Tensor) -> None:
    """Called when a pending tensor is made; one that is being captured never has data.

    Dead and executed ones are swept out when the list has doubled, so that keeping it costs a
    constant for each tensor.
    """
    state = STATE.own
    if state.capture is None:
        state.live.append(ref(tensor))
        if len(state.live) > state.sweep_at:
            live_tensors()


def live_tensors() -> list[Tensor]:
    """The tensors that this thread made, that are held and not computed yet, oldest first."""
    state = STATE.own
    found: dict[int, Tensor] = {}
    kept: list[ref[Tensor]] = []
    for reference in state.live:
        tensor = reference()
        if tensor is None or id(tensor) in found:
            continue
        node = tensor.value.node  # most are no aliases
        if node.results is None and (node.alias is None or tensor.is_pending):
            found[id(tensor)] = tensor
            kept.append(reference)
    state.live = kept
    state.sweep_at = max(_FEW, 2 * len(kept))
    return list(found.values())
