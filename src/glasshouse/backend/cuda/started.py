"""Steps with calls of libraries, started one by one on the stream while their memory moves.

A graph is not worth its price for memory that it sees once: every call of a library would be
captured anew, and its node set. Started so, all with one call out of Python
(`prepared_calls.py`), a step of training whose tensors PyTorch places elsewhere each time costs the
processor a few us for each kernel.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver
from glasshouse.backend.cuda.graph import LaunchNode, parameters_at
from glasshouse.backend.cuda.launch import CONTEXT
from glasshouse.backend.cuda.prepared_calls import At, PreparedCall, PreparedCalls, Step

Array = np.ndarray[Any, Any]
REMEMBERED, OFTEN = 8, 16
"""Runs whose memory is remembered, so that it is known when it comes again; and how often it comes
until a graph takes it over. That takes as long as 10 to 20 runs save by it (vgg: about 20 ms, by
estimate)."""


class StartedSteps:
    """Nodes in order on a stream; used as a `StepGraph` is."""

    def __init__(self, cuda: Driver, nodes: Sequence[LaunchNode], cells: Array) -> None:
        self.driver = cuda
        self.nodes = list(nodes)
        self.known = cells.copy()  # arguments are read from here
        self._seen: deque[tuple[Array, int]] = deque(maxlen=REMEMBERED)  # how often each was seen
        self._stream = ctypes.c_uint64()
        locks = {id(n.library.lock): n.library.lock for n in self.nodes if n.library is not None}
        self._locks = list(locks.values())
        self._calls = PreparedCalls([step for node in self.nodes for step in self._steps(node)])

    def _steps(self, node: LaunchNode) -> list[Step]:
        base, stream = self.known.ctypes.data, ctypes.addressof(self._stream)
        begin, end = node.cells
        if node.library is not None:
            return node.library.steps(base + 8 * (begin + CONTEXT), stream)
        parameters = parameters_at(base, begin, end, node.maps)
        cuda: Any = self.driver
        return [
            PreparedCall(
                cuda.cuLaunchKernel,
                (
                    node.function, *node.grid, node.threads, 1, 1, node.shared, At(stream),
                    ctypes.addressof(parameters), 0,
                ),
                partial(self.driver.refused, "cuLaunchKernel"),
                parameters,
            )
        ]  # fmt: skip

    @property
    def pointers(self) -> object:
        """None: memory that comes again is worth a graph, so nobody starts these steps again."""
        return None

    @pointers.setter
    def pointers(self, noted: object) -> None:
        pass

    def comes_often(self, cells: Array) -> bool:
        """Note that a run has these arguments; whether so many had them that they are worth a
        graph. PyTorch's allocator places the tensors of a training step where those of the last
        step were, or of one before it."""
        for number, (known, count) in enumerate(self._seen):
            if np.array_equal(cells, known):
                del self._seen[number]
                if count + 1 >= OFTEN:
                    return True
                self._seen.append((known, count + 1))
                return False
        self._seen.append((cells.copy(), 1))
        return False

    def follow(self, cells: Array) -> None:
        """Take over pointers that have changed."""
        self.known[:] = cells

    def launch(self, stream: int) -> None:
        self._stream.value = stream
        with ExitStack() as held:
            for lock in self._locks:
                held.enter_context(lock)
            self._calls.make()

    def again(self, stream: int) -> int:
        """Start once more; gives the driver's status, which is none of an error: those are
        raised."""
        self.launch(stream)
        return 0
