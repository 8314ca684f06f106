"""Decides which threads run kernels: one pool for the process, made by the first library loaded.

All libraries are built from the same headers (their hash is part of every file's name), so a pool
made by one can be used by all.
"""

from __future__ import annotations

import ctypes
import os
import threading

_lock = threading.Lock()
_made: tuple[ctypes.c_void_p, ctypes.CDLL] | None = None


def default_threads() -> int:
    """GLASSHOUSE_THREADS, or the processors that this process may use."""
    named = int(os.environ.get("GLASSHOUSE_THREADS", "0"))
    return named or len(os.sched_getaffinity(0))


def pool_of(library: ctypes.CDLL) -> ctypes.c_void_p:
    """The pool of this process."""
    global _made  # noqa: PLW0603  # one pool for the process
    with _lock:
        if _made is None:
            library.glasshouse_pool.restype = ctypes.c_void_p
            _made = ctypes.c_void_p(library.glasshouse_pool(default_threads())), library
        return _made[0]


def set_threads(count: int) -> None:
    """Run kernels on this many threads from now on."""
    os.environ["GLASSHOUSE_THREADS"] = str(count)
    if _made is not None:
        _made[1].glasshouse_set_threads(_made[0], count)
