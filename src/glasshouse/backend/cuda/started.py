"""Steps with calls of libraries, started one by one on the stream while their memory moves.

A graph is not worth its price for memory that it sees once: every call of a library would be
captured anew, and its node set. Started so, a step of training whose tensors PyTorch places
elsewhere each time costs the processor what eager PyTorch costs it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver
from glasshouse.backend.cuda.graph import LaunchNode, parameters_at
from glasshouse.backend.cuda.launch import CONTEXT

Array = np.ndarray[Any, Any]


class StartedSteps:
    """Nodes in order on a stream; used as a `StepGraph` is."""

    def __init__(self, cuda: Driver, nodes: Sequence[LaunchNode], cells: Array) -> None:
        self.driver = cuda
        self.nodes = list(nodes)
        self.known = cells.copy()  # arguments are read from here
        base = self.known.ctypes.data
        self._parameters = [parameters_at(base, *node.cells, node.maps) for node in self.nodes]

    @property
    def pointers(self) -> object:
        """None: memory that comes again is worth a graph, so nobody starts these steps again."""
        return None

    @pointers.setter
    def pointers(self, noted: object) -> None:
        pass

    def follow(self, cells: Array) -> None:
        """Take over pointers that have changed."""
        self.known[:] = cells

    def launch(self, stream: int) -> None:
        for node, parameters in zip(self.nodes, self._parameters, strict=True):
            if node.library is not None:
                begin, end = node.cells
                node.library.start(self.known[begin + CONTEXT : end].tolist(), stream)
            else:
                self.driver.call(
                    "cuLaunchKernel", node.function, *node.grid, node.threads, 1, 1, node.shared,
                    stream, ctypes.addressof(parameters), None,
                )  # fmt: skip

    def again(self, stream: int) -> int:
        """Start once more; gives the driver's status, which is none of an error: those are
        raised."""
        self.launch(stream)
        return 0
