"""A built library, loaded: its functions, and the pool of threads that they run on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glasshouse.backend.cpu.threads import pool_of

LINGER = 200
"""Microseconds that threads wait for the next step of a loop, awake. A lazy loop has 30 to 100 of
Python between two steps; waking a thread that sleeps took 12 to 40 more."""


class CpuExecutable:
    """The functions of a library that `emit.py` wrote."""

    def __init__(self, library: Path, headers: str, threads: int | None = None) -> None:
        """`headers` is the hash of those that the library was built from."""
        loaded = ctypes.CDLL(str(library))
        self._pool = pool_of(loaded, headers, threads)
        self.call: Callable[[Any], int] = loaded.glasshouse_call
        self._run = loaded.glasshouse_run
        self._prepare = loaded.glasshouse_prepare
        self._bytes = loaded.glasshouse_packed_bytes
        self._bytes.restype = ctypes.c_int64
        address = ctypes.c_void_p
        self._run.argtypes = [
            address, address, address, address, ctypes.c_int, ctypes.c_int, address,
        ]  # fmt: skip
        self._prepare.argtypes = [address, address]
        self.stamp: Callable[[int, int, int], int] = _typed(loaded.glasshouse_stamp)
        self._loaded = loaded

    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        return (ctypes.c_void_p * 7)(self._pool.value, table, arena, sizes, steps, 0, 0)

    def call_in_loop(self, frame: Any) -> int:
        frame[6] = LINGER
        try:
            return self.call(frame)
        finally:
            frame[6] = None

    def clocked(self, frame: Any, times: int) -> int:
        frame[5] = times
        try:
            return self.call(frame)
        finally:
            frame[5] = None

    def run(self, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        return int(self._run(self._pool, table, arena, sizes, begin, end, times))

    def prepared_bytes(self, place: int) -> int:
        return int(self._bytes(place))

    def prepare(self, table: int) -> None:
        self._prepare(self._pool, table)


def _typed(stamp: Any) -> Callable[[int, int, int], int]:
    """The library's own function: calls of models ask it, and a frame of Python more is felt."""
    stamp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    stamp.restype = ctypes.c_uint64
    found: Callable[[int, int, int], int] = stamp
    return found
