"""Sends PyTorch's idle OpenMP threads to rest before a program of ours takes the processors, and
before a fork.

They wait for the next loop by spinning. A program that is called between ops of PyTorch (a training
step, a loop over tokens) finds every processor but one taken so: forward and backward of an MLP
took 7.1 ms instead of 3.6. Ending the threads takes 20 us, and so does starting them again; where
there are none, asking takes 0.2 us.

A forked child has none of these threads, and the first op of PyTorch's there that wants them waits
for them for ever, inside of our modules or outside. Those that were ended are started anew.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

from glasshouse.lower.program import Call, Program

FLOPS, BYTES = 1e7, 1e6
"""For each thread, work from which it pays: 0.1 ms or more."""

_SOFT = 1  # omp_pause_soft
_found: list[Callable[[int], int] | None] = []
may_rest = [True]
"""Whether threads may be ended: not in a child that was forked while there were some, by a server
written in C, because none is there to answer."""
_ended_for_fork = [False]


def _before_fork() -> None:
    rest()
    _ended_for_fork[0] = may_rest[0]


def _in_parent() -> None:
    _ended_for_fork[0] = False


def _in_child() -> None:
    may_rest[0], _ended_for_fork[0] = _ended_for_fork[0], False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


def pause() -> Callable[[int], int] | None:
    """What ends the idle threads of the calling thread's own (it is called with 1); None where
    PyTorch brings no OpenMP of GNU's."""
    if not _found:
        if not hasattr(sys.modules.get("torch"), "set_num_threads"):  # not yet, or under import
            return None
        _found.append(_pause())
    return _found[0]


def rest() -> None:
    """Let the calling thread's idle OpenMP threads rest."""
    ends = pause()
    if ends is not None and may_rest[0]:
        ends(_SOFT)


def pays_for(program: Program, threads: int | None) -> bool:
    """Whether a program works long enough, on several threads; None: as many as processors."""
    threads = threads or os.cpu_count() or 1
    steps = [s for s in program.steps if isinstance(s, Call)]
    flops = sum(s.flops for s in steps)
    moved = sum(s.bytes_read + s.bytes_written for s in steps)
    return threads > 1 and (flops >= FLOPS * threads or moved >= BYTES * threads)


def _pause() -> Callable[[int], int] | None:
    torch = sys.modules.get("torch")
    if sys.platform == "linux" and torch is not None:
        beside = Path(str(torch.__file__)).parent
        for folder in (beside / "lib", beside.parent / "torch.libs"):
            for path in sorted(folder.glob("libgomp*.so*")):
                try:  # the one that PyTorch has loaded, none anew
                    library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
                    made: Callable[[int], int] = library.omp_pause_resource_all
                except (OSError, AttributeError):
                    continue
                return made
    return None
