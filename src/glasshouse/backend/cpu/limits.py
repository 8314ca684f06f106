"""What this machine can do at best, measured: operations a second by element type, bytes a second.

The best of several short runs counts, because noise only takes away. It is measured once for a
machine, a compiler and a number of threads (a second, and some for the compiler), and kept on disk;
not where the machine was too busy for two runs to agree: then it holds for this process.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from glasshouse.backend.base import GeneratedSource, Limits
from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cpu.build import build, salt_of
from glasshouse.backend.cpu.toolchain import toolchain
from glasshouse.backend.memory import aligned_bytes

TYPES = ("float32", "bfloat16", "int8")
_ROUNDS, _MOST = 8, 30  # runs at least, at most
_SAME = 1.05  # two runs that differ by less than this saw no noise
_TURNS = 60_000  # about 0.5 ms: short enough to pass between other work
_BYTES = 512 << 20
"""What is read, and half of it copied, again and again: so much that the last cache keeps little of
it. Two Zen 4 cores before 32 MB of cache read 64 MB at 103 GB/s, 128 at 62, 256 and 512 at 35."""


@lru_cache(maxsize=4)
def known_limits(threads: int) -> Limits | None:
    """What was measured before."""
    try:
        found = json.loads(_file(threads).read_text())
        compute = {str(k): float(v) for k, v in found["compute"].items()}
        return Limits(compute, float(found["read"]), float(found["copy"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def measured_limits(threads: int) -> Limits:
    """What this machine can do with so many threads, measured now unless it was before."""
    return known_limits(threads) or _measured_once(threads)


@lru_cache(maxsize=4)
def _measured_once(threads: int) -> Limits:
    limits = _measured(threads)
    if not limits.sure:
        return limits
    figures = {"compute": dict(limits.compute), "read": limits.read, "copy": limits.copy}
    write_whole(_file(threads), json.dumps({"threads": threads, **figures}))
    known_limits.cache_clear()
    return limits


def _file(threads: int) -> Path:
    key = hash_text(f"{salt_of(toolchain())} {_text()} {_BYTES} {threads}")
    return made_cache_folder() / f"limits-{key}.json"


@lru_cache(maxsize=1)
def _text() -> str:
    return Path(__file__).with_suffix(".cpp").read_text()


def _measured(threads: int) -> Limits:
    library: Any = ctypes.CDLL(str(build(GeneratedSource({}, _text()))))
    library.glasshouse_pool.restype = ctypes.c_void_p
    for name in ("compute", "read", "copy"):
        getattr(library, f"glasshouse_{name}").restype = ctypes.c_double
    pool = ctypes.c_void_p(library.glasshouse_pool(threads))
    operations = ctypes.c_long()

    def compute(number: int) -> tuple[float, bool]:
        def run() -> float:
            turns, out = ctypes.c_long(_TURNS), ctypes.byref(operations)
            return float(library.glasshouse_compute(pool, number, turns, out))

        seconds, sure = _best(run)
        return operations.value / seconds, sure

    data = aligned_bytes(_BYTES)
    data[:] = 1  # pages that were never written are all the same one
    begin, half = ctypes.c_void_p(data.ctypes.data), _BYTES // 2
    middle = ctypes.c_void_p(data.ctypes.data + half)
    figures = [compute(number) for number in range(len(TYPES))]
    read, copy = (
        _best(lambda: float(library.glasshouse_read(pool, begin, ctypes.c_long(_BYTES // 4)))),
        _best(lambda: float(library.glasshouse_copy(pool, begin, middle, ctypes.c_long(half)))),
    )
    by_type = dict(zip(TYPES, (figure for figure, _ in figures), strict=True))
    # Where bfloat16 has no instruction of its own, it can still be computed as float32.
    by_type["bfloat16"] = max(by_type["bfloat16"], by_type["float32"])
    sure = all(s for _, s in (*figures, read, copy))
    return Limits(by_type, _BYTES / read[0], _BYTES / copy[0], sure)


def _best(run: Callable[[], float]) -> tuple[float, bool]:
    """The least seconds of some runs, and whether two of them took that long: no noise in them."""
    seconds = sorted(run() for _ in range(_ROUNDS))
    while len(seconds) < _MOST and seconds[1] > seconds[0] * _SAME:
        seconds = sorted([*seconds, run()])
    return seconds[0], seconds[1] <= seconds[0] * _SAME
