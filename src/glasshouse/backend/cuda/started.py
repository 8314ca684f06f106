"""Steps with calls of libraries, started one by one on the stream while their memory moves.

A graph is not worth its price for memory that it sees once: every call of a library would be
captured anew, and its node set. Started so, a step of training whose tensors PyTorch places
elsewhere each time costs the processor what eager PyTorch costs it.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver
from glasshouse.backend.cuda.graph import LaunchNode, parameters_at
from glasshouse.backend.cuda.installed_library import LibraryCall
from glasshouse.backend.cuda.launch import CONTEXT

Array = np.ndarray[Any, Any]
REMEMBERED = 4
"""Runs whose memory is remembered, so that it is known when it comes again."""


class StartedSteps:
    """Nodes in order on a stream; used as a `StepGraph` is."""

    def __init__(self, cuda: Driver, nodes: Sequence[LaunchNode], cells: Array) -> None:
        self.driver = cuda
        self.nodes = list(nodes)
        self.known = cells.copy()  # arguments are read from here
        self._seen = deque([self.known.copy()], maxlen=REMEMBERED)
        base = self.known.ctypes.data
        self._parameters = [parameters_at(base, *node.cells, node.maps) for node in self.nodes]
        # All but the stream, which stands between these two: what a launch costs the processor is
        # the way through ctypes, and whatever is done in Python before it.
        self._calls: list[tuple[LibraryCall | None, tuple[Any, ...], Any]] = [
            (node.library, node.cells, None)
            if node.library is not None
            else (
                None,
                (node.function, *node.grid, node.threads, 1, 1, node.shared),
                ctypes.addressof(parameters),
            )
            for node, parameters in zip(self.nodes, self._parameters, strict=True)
        ]

    @property
    def pointers(self) -> object:
        """None: memory that comes again is worth a graph, so nobody starts these steps again."""
        return None

    @pointers.setter
    def pointers(self, noted: object) -> None:
        pass

    def has_seen(self, cells: Array) -> bool:
        """Whether one of the last runs had these arguments: PyTorch's allocator places the tensors
        of a training step where those of the last step were, or of the one before it."""
        return any(np.array_equal(cells, known) for known in self._seen)

    def follow(self, cells: Array) -> None:
        """Take over pointers that have changed."""
        self.known[:] = cells
        self._seen.append(self.known.copy())

    def launch(self, stream: int) -> None:
        start: Callable[..., int] = self.driver.cuLaunchKernel  # type: ignore[attr-defined]  # of the driver, set from a table
        cells = self.known.tolist()
        for library, given, parameters in self._calls:
            if library is not None:
                begin, end = given
                library.start(cells[begin + CONTEXT : end], stream)
            elif start(*given, stream, parameters, None):
                # Once more by the way that says what is wrong.
                self.driver.call("cuLaunchKernel", *given, stream, parameters, None)

    def again(self, stream: int) -> int:
        """Start once more; gives the driver's status, which is none of an error: those are
        raised."""
        self.launch(stream)
        return 0
