"""Which process makes a file of the cache when several want it: the first, while the others wait.

Ranks of one training ask for the same kernels at the same moment. Whoever holds the claim on a file
makes it; the others sleep until the claim is free, and then find the file. A process that dies
loses its claim with its life. Whoever waited GLASSHOUSE_BUILD_WAIT seconds (600) makes the file
itself: both are whole, the later one stays. Where a launcher says which rank a process is, rank 0
of the machine comes first, so that one process pays for compiling, and not all by turns.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from glasshouse.errors import BuildError

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
else:  # no file is ever opened for a claim: every process builds for itself
    LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN = range(4)

    def flock(handle: int, how: int) -> None:
        """Nothing to lock."""


_LOG = logging.getLogger("glasshouse.build")
_LONGEST_NAP = 0.25  # seconds between two looks
_GRACE = 10.0  # seconds for which other ranks leave a file to rank 0
_own_programs = Event()  # set once this rank waited for rank 0 in vain


@contextmanager
def claimed(target: Path, moved_to: Path | None = None) -> Iterator[bool]:
    """Hold the claim on a file; False where the wait for it was given up, or there are no claims.

    What another process made meanwhile is there now (or where it was moved to): look before making
    it.
    """
    handle = _opened(target)
    if handle is None:
        yield False
        return
    mine = False
    try:
        _leave_to_rank_0(handle, moved_to or target)
        mine = _locked(handle, target)
        yield mine
    finally:
        # Closing alone would not do where a forked process has the file open, too.
        if mine:
            flock(handle, LOCK_UN)
        os.close(handle)


def _opened(target: Path) -> int | None:
    if sys.platform != "win32":
        with suppress(OSError):  # a read-only cache: building says it better
            return os.open(target.with_suffix(".claim"), os.O_RDWR | os.O_CREAT, 0o600)
    return None


def _leave_to_rank_0(handle: int, target: Path) -> None:
    """Let rank 0 begin. A rank that waited for it in vain has programs of its own (a stage of a
    pipeline, an uneven shard), and waits no more."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        return
    end = time.monotonic() + min(_GRACE, wait_limit())
    nap = 0.005
    while not (_own_programs.is_set() or target.exists()):
        try:  # shared: other ranks that look at the same moment are no builder
            flock(handle, LOCK_SH | LOCK_NB)
        except OSError:  # somebody makes it, or there are no locks here
            return
        flock(handle, LOCK_UN)
        if time.monotonic() >= end:
            _own_programs.set()
        time.sleep(nap)
        nap = min(nap * 1.5, _LONGEST_NAP)


def _locked(handle: int, target: Path) -> bool:
    end = time.monotonic() + wait_limit()
    nap = 0.005
    waits = False
    while True:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
            return True
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks
            return False
        left = end - time.monotonic()
        if left <= 0:
            _LOG.warning(
                "waited %.0f s for another process to build %s; building it here as well",
                wait_limit(), target.name,
            )  # fmt: skip
            return False
        if not waits:
            waits = True
            _LOG.info("another process builds %s; waiting for it", target.name)
        time.sleep(min(nap, left))
        nap = min(nap * 1.5, _LONGEST_NAP)


def wait_limit() -> float:
    """GLASSHOUSE_BUILD_WAIT in seconds."""
    text = os.environ.get("GLASSHOUSE_BUILD_WAIT") or "600"
    try:
        return float(text)
    except ValueError:
        raise BuildError(
            f"GLASSHOUSE_BUILD_WAIT is {text!r}, and must be a number of seconds",
            hint="GLASSHOUSE_BUILD_WAIT=60; 0 to wait for nobody",
        ) from None
