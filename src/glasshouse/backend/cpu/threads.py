"""Decides which threads run kernels: one pool for the process, made by the first library loaded.

Libraries that were built from the same headers (a hash tells) can use one pool. One that another
version of Glasshouse built and saved gets its own: its idea of a pool may differ.
"""

from __future__ import annotations

import ctypes
import os

from glasshouse.forking import ForkLock

_making = ForkLock()
_made: dict[str, tuple[ctypes.c_void_p, ctypes.CDLL]] = {}


def default_threads() -> int:
    """GLASSHOUSE_THREADS, or the processors that this process may use."""
    named = int(os.environ.get("GLASSHOUSE_THREADS", "0"))
    return named or len(os.sched_getaffinity(0))


def pool_of(library: ctypes.CDLL, headers: str) -> ctypes.c_void_p:
    """The pool of this process for libraries built from these headers."""
    with _making.lock:
        if headers not in _made:
            library.glasshouse_pool.restype = ctypes.c_void_p
            _made[headers] = ctypes.c_void_p(library.glasshouse_pool(default_threads())), library
        return _made[headers][0]


def set_threads(count: int) -> None:
    """Run kernels on this many threads from now on."""
    os.environ["GLASSHOUSE_THREADS"] = str(count)
    for pool, library in _made.values():
        library.glasshouse_set_threads(pool, count)
