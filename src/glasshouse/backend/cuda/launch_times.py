"""How long each launch of a graph took, by the chip's own clock, read inside of the kernels.

A kernel notes when its first block comes past the wait for earlier ones, and when its last block
ends (`launch.cuh`). So the graph that is timed is the one that runs, without events between nodes,
which take 2 to 3 us each; and what lies between the end of a kernel and the beginning of the next
is told apart from both. On an H200 the clock goes on in steps of 32 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.backend.cuda.device import Gpu
from glasshouse.backend.cuda.driver import Owned

Array = np.ndarray[Any, Any]
_EACH = 16
"""Bytes of a launch: the complement of its beginning, and its end, in nanoseconds."""


@dataclass(frozen=True)
class StepTime:
    """Seconds in the kernels of a step, and in which the chip waited for them to begin."""

    kernels: float
    gaps: float


class LaunchTimes:
    """The memory in which launches note their times; it is allocated when it is first asked for."""

    def __init__(
        self, device: Gpu, owned: Owned, steps: Sequence[int], silent: Sequence[bool]
    ) -> None:
        """`steps`: that of each launch, in order; `silent`: whether it notes nothing itself."""
        self._device = device
        self._owned = owned
        self._steps = steps
        self._silent = silent
        self._address = 0

    @property
    def places(self) -> Array:
        """Where each launch notes its times."""
        if not self._address:
            self._address = self._device.allocate(self._bytes)
            self._owned.take("cuMemFree_v2", self._address)
        return np.arange(len(self._steps), dtype=np.uint64) * np.uint64(_EACH) + np.uint64(
            self._address
        )

    @property
    def _bytes(self) -> int:
        return max(len(self._steps), 1) * _EACH

    def clear(self) -> None:
        self._device.clear(self._address, self._bytes)

    def read(self) -> dict[int, StepTime]:
        """By step; launches that did not run have noted nothing."""
        noted = np.zeros((len(self._steps), 2), np.uint64)
        self._device.download(noted, self._address)
        begins, ends = ~noted[:, 0], noted[:, 1]
        for i in np.flatnonzero(self._silent):
            if ends[i - 1] and ends[i + 1]:  # the launches around it, which note the clock
                begins[i], ends[i] = ends[i - 1], begins[i + 1]
        return step_times(self._steps, begins, ends)


def step_times(steps: Sequence[int], begins: Array, ends: Array) -> dict[int, StepTime]:
    """Of launches in order. One that begins while the one before it ends counts from there on."""
    out: dict[int, StepTime] = {}
    before = 0
    for step, begin, end in zip(steps, begins.tolist(), ends.tolist(), strict=True):
        if not end:
            continue
        known = out.get(step, StepTime(0.0, 0.0))
        from_ = max(begin, before)
        gap = from_ - before if before else 0
        took = max(end - from_, 0)
        out[step] = StepTime(known.kernels + took * 1e-9, known.gaps + gap * 1e-9)
        before = max(end, before)
    return out
