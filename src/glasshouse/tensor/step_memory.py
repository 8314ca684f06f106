"""Where a repeated training step writes its results: over the old values, or into spare memory.

A parameter that is updated in place needs no second array: a training loop holds its parameters and
moments once, not twice (the time of a small MLP's step is the same either way). It is done where
nobody can ask for the old value any more. Somebody may: a view that `numpy()` gave, a result that
keeps what it was computed from because it needs a gradient, `.grad` after `backward()` and
`step()`, another thread. Then the result goes into memory that the tensor had two steps ago, unless
that is held by somebody as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from glasshouse.tensor.pending import Array, LazyNode, LazyValue

_probe = [np.empty(0)]
_held = _probe[0]
_ALONE = getrefcount(_held) - 1
"""What `getrefcount` says of something that a variable holds and nobody else."""


class StepMemory:
    """Memory for the results of one step, by number of the result."""

    def __init__(self) -> None:
        self._forms: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self._spares: dict[int, Array] = {}

    def outputs(self, given: Sequence[Array], over: Mapping[int, int]) -> list[Array] | None:
        """Arrays to write results into; None where a run has yet to show what they are like.
        `over`: results that are written over inputs."""
        if not self._forms:
            return None
        made: list[Array] = []
        for number, (shape, dtype) in enumerate(self._forms):
            spare = self._spares.pop(number, None)
            if number in over:
                spare = given[over[number]]
            elif spare is None or getrefcount(spare) > _ALONE:
                spare = np.empty(shape, dtype)
            made.append(spare)
        return made

    def learn(self, results: Sequence[Array]) -> None:
        """See what results are like."""
        if not self._forms and all(a.flags.carray for a in results):
            self._forms = [(a.shape, a.dtype) for a in results]

    def keep(self, number: int, old: Array) -> None:
        """Take memory that a tensor has no more."""
        if old.flags.owndata and old.flags.carray:  # not a user's
            self._spares[number] = old


def lets_go(targets: Sequence[LazyNode], loss: LazyNode) -> bool:
    """Whether no result of a step keeps what it was computed from."""
    return all(node is loss or not node.needs_grad for node in targets)


def is_free(
    tensor: Any, before: Sequence[LazyValue], number: int, given: Sequence[Array], place: int,
    uses: int,
) -> bool:  # fmt: skip
    """Whether the data of a tensor is known to nobody but to it and to the nodes of the step, which
    read it `uses` times: all references to it, to its leaf and to its value are these."""
    value, array = tensor.value, given[place]
    node = value.node
    read = uses > 0  # then the step has leaf and value in lists of its own
    return (
        before[number] is value
        and array.flags.owndata
        and array.flags.writeable
        and getrefcount(array) == _ALONE + 2  # `given` and the leaf
        and getrefcount(node) == _ALONE + 1 + read  # the value
        and getrefcount(value) == _ALONE + 2 + read + uses  # the tensor and `before`
    )
