"""Kernels and calls of libraries that are started one by one on the stream, instead of as a graph,
with one call out of Python (`prepared_calls.py`).

Two kinds of programs are faster so. Few kernels: each begins while the one before it ends, and so
does the first one while the run before ends, where a graph takes 3 to 4 us from its launch to its
first kernel. And steps of training with calls of libraries, whose memory PyTorch places elsewhere
each time: for memory that it sees once, a graph would capture every call anew.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver, LaunchAttribute, LaunchConfig
from glasshouse.backend.cuda.graph import LaunchNode, parameters_at
from glasshouse.backend.cuda.launch import CONTEXT
from glasshouse.backend.cuda.prepared_calls import (
    At,
    PreparedCall,
    PreparedCalls,
    Put,
    Step,
    native,
)

Array = np.ndarray[Any, Any]
REMEMBERED, OFTEN = 8, 16
"""Runs whose memory is remembered, so that it is known when it comes again; and how often it comes
until a graph takes it over. That takes as long as 10 to 20 runs save by it (vgg: about 20 ms, by
estimate)."""


_SERIALIZATION = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: a kernel may be placed on the chip when
all blocks of the one before it have let it."""


class StartedSteps:
    """Nodes in order on a stream; used as a `StepGraph` is."""

    pointers: object = None

    def __init__(
        self, cuda: Driver, nodes: Sequence[LaunchNode], cells: Array, overlapping: bool = False
    ) -> None:
        """`overlapping`: each kernel may begin while what stands before it on the stream ends."""
        self.driver = cuda
        self.nodes = list(nodes)
        self.known = cells.copy()  # arguments are read from here
        self._overlapping = overlapping
        self._stream = ctypes.c_uint64()
        locks = {id(n.library.lock): n.library.lock for n in self.nodes if n.library is not None}
        self._locks = list(locks.values())
        steps = [step for node in self.nodes for step in self._steps(node)]
        self._calls = PreparedCalls([*self._refusal_of_captures(), *steps])

    def _refusal_of_captures(self) -> list[Step]:
        """Where somebody captures the stream, kernels would become nodes of his graph, which runs
        them again on memory that is ours; a graph of ours is refused by the driver."""
        if not self._overlapping:
            return []
        cuda: Any = self.driver
        asks = ctypes.cast(cuda.cuStreamIsCapturing, ctypes.c_void_p).value or 0
        given = asks, At(ctypes.addressof(self._stream))
        refused = partial(self.driver.refused, "a launch")
        return [PreparedCall(native().gh_not_captured, given, refused)]

    def _steps(self, node: LaunchNode) -> list[Step]:
        base, stream = self.known.ctypes.data, ctypes.addressof(self._stream)
        begin, end = node.cells
        if node.library is not None:
            return node.library.steps(base + 8 * (begin + CONTEXT), stream)
        parameters = parameters_at(base, begin, end, node.maps)
        attribute = LaunchAttribute(_SERIALIZATION, 0, 1)
        config = LaunchConfig(node.grid, (node.threads, 1, 1), node.shared)
        config.attributes = ctypes.addressof(attribute)
        config.count = int(self._overlapping)
        cuda: Any = self.driver
        given = ctypes.addressof(config), node.function, ctypes.addressof(parameters), 0
        refused = partial(self.driver.refused, "cuLaunchKernelEx")
        keeps = config, attribute, parameters
        return [
            Put(ctypes.addressof(config) + LaunchConfig.stream.offset, At(stream), keeps),
            PreparedCall(cuda.cuLaunchKernelEx, given, refused, keeps),
        ]

    def follow(self, cells: Array) -> None:
        """Take over pointers that have changed."""
        self.pointers = None
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
        self._stream.value = stream
        self._calls.make()
        return 0


class MovingSteps(StartedSteps):
    """Steps with calls of libraries while their memory moves: it costs the processor a few us for
    each kernel."""

    def __init__(self, cuda: Driver, nodes: Sequence[LaunchNode], cells: Array) -> None:
        super().__init__(cuda, nodes, cells)
        self._seen: deque[tuple[Array, int]] = deque(maxlen=REMEMBERED)  # how often each was seen

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
