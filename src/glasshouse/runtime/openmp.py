"""Sends PyTorch's idle OpenMP threads to rest before a program of ours takes the processors.

They wait for the next loop by spinning. A program that is called between ops of PyTorch (a training
step, a loop over tokens) finds every processor but one taken so: forward and backward of an MLP
took 7.1 ms instead of 3.6. Ending the threads takes 20 us, and so does starting them again; where
there are none, asking takes 0.2 us.
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
"""Whether threads may be ended: not in a forked child, where none is there to answer."""


def _forked() -> None:
    may_rest[0] = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def pause() -> Callable[[int], int] | None:
    """What ends the idle threads of the calling thread's own (it is called with 1); None where
    PyTorch brings no OpenMP of GNU's."""
    if not _found:
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
