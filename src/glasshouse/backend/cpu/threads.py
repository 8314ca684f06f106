"""Which threads run kernels: one pool for the process, one for each budget that modules ask for.

A pool is made by the first library that needs it. Libraries that were built from the same headers
(a hash tells) can share one; what another version of Glasshouse built and saved gets its own: its
idea of a pool may differ.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

from glasshouse.errors import ExecutionError
from glasshouse.forking import ForkLock

_making = ForkLock()
# By headers and budget; None is the process's own.
_made: dict[tuple[str, int | None], tuple[ctypes.c_void_p, ctypes.CDLL]] = {}
_before_pinning: list[int] = []  # the processors that this process had before it was pinned


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
    return int(named) or max(1, _processors() // max(1, _number("LOCAL_WORLD_SIZE", 1)))


def pin_rank() -> None:
    """Keep this rank, and threads that it makes from now on, to a share of the processors.

    Ranks with as many threads as their shares have processors would be moved onto each other's by
    the system now and then, and everybody waits for the slower one at the next collective. Only
    where a launcher says which rank this is, and nobody chose processors or threads (numactl,
    GLASSHOUSE_THREADS); GLASSHOUSE_PIN=0 leaves it out.
    """
    ranks, rank = _number("LOCAL_WORLD_SIZE", 1), _number("LOCAL_RANK", -1)
    chosen = os.environ.get("GLASSHOUSE_THREADS") or os.environ.get("GLASSHOUSE_PIN") == "0"
    if chosen or not 0 <= rank < ranks or ranks == 1 or _before_pinning:
        return
    if sys.platform == "linux":  # others do not let a process choose
        mine = sorted(os.sched_getaffinity(0))
        share = len(mine) // ranks
        if len(mine) == os.cpu_count() and share:
            _before_pinning.extend(mine)
            with suppress(OSError):  # a sandbox that forbids it
                os.sched_setaffinity(0, mine[rank * share : (rank + 1) * share])


def leave_share() -> None:
    """Let this thread, and what it starts, have all processors again.

    For compilers: while one rank builds, the others wait, and their shares are idle.
    """
    if sys.platform == "linux" and _before_pinning:
        with suppress(OSError):
            os.sched_setaffinity(0, _before_pinning)


def _number(name: str, otherwise: int) -> int:
    given = os.environ.get(name, "")
    return int(given) if given.isdecimal() else otherwise


def _processors() -> int:
    if _before_pinning:
        return len(_before_pinning)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows do not say which of them a process may use


def pool_of(library: ctypes.CDLL, headers: str, threads: int | None = None) -> ctypes.c_void_p:
    """The pool of this many threads for libraries built from these headers."""
    with _making.lock:
        if (headers, threads) not in _made:
            library.glasshouse_pool.restype = ctypes.c_void_p
            if threads is None:
                pin_rank()
            made = library.glasshouse_pool(threads or default_threads())
            _made[headers, threads] = ctypes.c_void_p(made), library
        return _made[headers, threads][0]


def set_threads(count: int) -> None:
    """Run kernels of modules without a budget of their own on this many threads from now on."""
    os.environ["GLASSHOUSE_THREADS"] = str(count)
    with _making.lock:
        for (_, threads), (pool, library) in _made.items():
            if threads is None:
                library.glasshouse_set_threads(pool, count)
