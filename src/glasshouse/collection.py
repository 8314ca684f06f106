"""Python's cyclic collector, held back while many objects are made that stay, and free memory given
back to the system where a model needs all there is."""

from __future__ import annotations

import ctypes
import gc
import linecache
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock, get_ident

from glasshouse.forking import ForkAware

_SPARING: ContextVar[bool] = ContextVar("sparing", default=False)
NEVER = 1 << 30
"""Collections of younger objects before a full one."""


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


@contextmanager
def no_full_collection() -> Iterator[None]:
    """Young objects are collected, all of them together are not: for code of others that makes
    garbage beside what stays. PyTorch's exporter brings 1,200 modules, whose import alone walks
    all objects of the process twice (0.25 s of a second and a half), and leaves 6 MB of garbage."""
    _COLLECTOR.hold()
    try:
        yield
    finally:
        _COLLECTOR.release()


@contextmanager
def sparing_memory(wanted: bool) -> Iterator[None]:
    """While it lasts, and if it is wanted, each stage of a compilation gives its memory back."""
    token = _SPARING.set(wanted)
    try:
        yield
    finally:
        _SPARING.reset(token)


def stage_over() -> None:
    """Where memory is spared: collect what a stage of a compilation has left, so that the next one
    makes its objects there, and return free pages of the heap to the system (glibc keeps them).
    Texts of source files that Python holds go, too: it reads them again when it wants them
    (transformers leaves 3 MB of its own behind, PyTorch's tracer those of the model).

    A tenth of a second beside PyTorch's objects.
    """
    if not _SPARING.get():
        return
    for name, entry in list(linecache.cache.items()):
        # What has no time of change is no file: a notebook's cell, or code that was generated.
        if len(entry) == 4 and entry[1] is not None:
            del linecache.cache[name]
    gc.collect()
    with suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


class _Collector(ForkAware):
    """Which threads keep Python's collector from running; in a child they may be gone."""

    def __init__(self) -> None:
        self.paused_by = 0
        self.holders: list[int] = []
        self.usual = gc.get_threshold()
        self.lock = Lock()
        self.watch_forks()

    def hold(self) -> None:
        with self.lock:
            if not self.holders:
                self.usual = gc.get_threshold()
                gc.set_threshold(*self.usual[:2], NEVER)
            self.holders.append(get_ident())

    def release(self) -> None:
        with self.lock:
            self.holders.remove(get_ident())
            if not self.holders:
                gc.set_threshold(*self.usual)

    def after_fork_in_child(self) -> None:
        if self.paused_by not in (0, get_ident()):
            self.paused_by = 0
            gc.enable()
        self.lock = Lock()
        if self.holders:
            self.holders = [h for h in self.holders if h == get_ident()]
            if not self.holders:
                gc.set_threshold(*self.usual)


_COLLECTOR = _Collector()
