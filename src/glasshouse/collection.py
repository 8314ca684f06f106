"""Python's cyclic collector, held back while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from glasshouse.forking import ForkAware


@contextmanager
def no_collection() -> Iterator[None]:
    """Graphs and files are read into objects that stay: collecting while they grow only walks them
    again (5 of 13 seconds for an ONNX file of 100,000 nodes)."""
    enabled = gc.isenabled()
    gc.disable()
    if enabled:
        _COLLECTOR.paused_by = get_ident()
    try:
        yield
    finally:
        if enabled:
            _COLLECTOR.paused_by = 0
            gc.enable()


class _Collector(ForkAware):
    """The thread that keeps Python's collector from running; in a child it may be gone."""

    def __init__(self) -> None:
        self.paused_by = 0
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        if self.paused_by not in (0, get_ident()):
            self.paused_by = 0
            gc.enable()


_COLLECTOR = _Collector()
