"""A built library, loaded: its functions, and the pool of threads that they run on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glasshouse.backend.cpu.threads import pool_of


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
        self._loaded = loaded

    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        return (ctypes.c_void_p * 6)(self._pool.value, table, arena, sizes, steps, 0)

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

    def stamp(self, addresses: int, sizes: int, count: int) -> int:
        function = self._loaded.glasshouse_stamp
        function.restype = ctypes.c_uint64
        return int(function(ctypes.c_void_p(addresses), ctypes.c_void_p(sizes), count))

    def prepare(self, table: int) -> None:
        self._prepare(self._pool, table)
