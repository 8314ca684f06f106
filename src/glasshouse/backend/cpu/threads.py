"""Which threads run kernels: one pool for the process, made by the first library loaded.

Libraries that were built from the same headers (a hash tells) can use one pool. One that another
version of Glasshouse built and saved gets its own: its idea of a pool may differ.
"""

from __future__ import annotations

import ctypes
import os

from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock

_making = ForkLock()
_made: dict[str, tuple[ctypes.c_void_p, ctypes.CDLL]] = {}


def default_threads() -> int:
    """GLASSHOUSE_THREADS, or this process's share of the processors that it may use.

    Launchers of several processes on one machine (torchrun) say how many: LOCAL_WORLD_SIZE.
    """
    named = os.environ.get("GLASSHOUSE_THREADS") or "0"
    if not named.isdecimal():
        raise ExecutionError(
            f"GLASSHOUSE_THREADS is {named!r}, and must be a number of threads",
            hint="GLASSHOUSE_THREADS=4; 0, or none, for all processors",
        )
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    share = max(1, int(ranks)) if ranks.isdecimal() else 1
    return int(named) or max(1, len(os.sched_getaffinity(0)) // share)


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
