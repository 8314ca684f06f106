"""The kernels of a small program launched one by one on the stream, each over the end of the last.

A CUDA graph costs the chip about 4.4 us before its first and behind its last kernel, however small
it is (an H200, replays of a graph of one empty kernel); a launch on the stream costs the processor
2 to 3 us, which a chip that is still busy with the kernel before does not see. The first kernel
begins when all that came before it on the stream has ended: it may read what others wrote.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.backend.cuda.driver import Driver, LaunchAttribute, LaunchConfig
from glasshouse.backend.cuda.graph import LaunchNode, parameters_at

Array = np.ndarray[Any, Any]
FEW = 6
"""Launches up to which a graph is not clearly better: each costs the processor as much as a small
kernel takes."""
_OVERLAPS = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""


class StepLaunches:
    """Nodes in order, launched on a stream; used as a `StepGraph` is."""

    def __init__(self, cuda: Driver, nodes: Sequence[LaunchNode], cells: Array) -> None:
        assert all(node.library is None for node in nodes), "libraries launch what they like"
        self.driver = cuda
        self.pointers: object = None
        self.nodes = list(nodes)
        self.known = cells.copy()  # arguments are read from here at each launch
        self._stream: int | None = None
        self._attribute = LaunchAttribute(_OVERLAPS)
        self._attribute.value[0] = 1
        base = self.known.ctypes.data
        self._parameters = [parameters_at(base, node.cells, node.maps) for node in self.nodes]
        self._configs = [self._config(i, node) for i, node in enumerate(self.nodes)]
        self._start = getattr(cuda, "cuLaunchKernelEx")  # noqa: B009  # set from a table
        self._calls = [
            (ctypes.addressof(config), node.function, ctypes.addressof(parameters))
            for config, node, parameters in zip(
                self._configs, self.nodes, self._parameters, strict=True
            )
        ]

    def _config(self, number: int, node: LaunchNode) -> LaunchConfig:
        made = LaunchConfig()
        made.grid[:] = node.grid
        made.block[:] = (node.threads, 1, 1)
        made.shared = node.shared
        made.attributes = ctypes.pointer(self._attribute)
        made.attribute_count = int(number > 0)
        return made

    def follow(self, cells: Array) -> None:
        """Take over pointers that have changed."""
        self.pointers = None
        self.known[:] = cells

    def handles(self) -> list[tuple[str, int]]:
        """What the driver made: nothing."""
        return []

    def launch(self, stream: int) -> None:
        self._direct(stream)
        for call in self._calls:
            self.driver.call("cuLaunchKernelEx", *call, None)

    def again(self, stream: int) -> int:
        """Launch without a look at anything; gives the driver's first status that is not 0."""
        if stream != self._stream:
            self._direct(stream)
        start = self._start
        for config, function, parameters in self._calls:
            status: int = start(config, function, parameters, None)
            if status:
                return status
        return 0

    def _direct(self, stream: int) -> None:
        for config in self._configs:
            config.stream = stream
        self._stream = stream
