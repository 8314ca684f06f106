"""Which instruction sets this processor has, and this process may use."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

# Those that kernels may use.
_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni")
AMX = ("amx_tile", "amx_bf16", "amx_int8")
"""Tiles: kernels use them all or none. The system saves 8 KB more for each thread that does, so a
process asks first."""
_ARCH_PRCTL, _ASK, _TILE_DATA = 158, 0x1023, 18  # x86-64 Linux: the call, what it does, of what


@lru_cache(maxsize=1)
def processor_features() -> tuple[str, ...]:
    """Those that kernels may use; where one cannot look, none."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    flags = next((x for x in text.splitlines() if x.startswith("flags")), "").split()
    return usable(flags, _tiles_permitted)


def usable(flags: list[str], permitted: Callable[[], bool]) -> tuple[str, ...]:
    """Of a processor with these flags; tiles beside wide vectors, and with the system's leave."""
    found = tuple(f for f in _FEATURES if f in flags)
    beside = {"avx512f", "avx512bw", "avx512vl", *AMX} <= set(flags)
    return (*found, *AMX) if beside and permitted() else found


def has_tiles() -> bool:
    """Whether products of bfloat16 and of bytes run on AMX tiles."""
    return AMX[0] in processor_features()


def widens_bfloat16() -> bool:
    """Whether constant bfloat16 weights are held as float32, because this processor takes as long
    to widen them in each register tile as to multiply them. Those with wide vectors keep them."""
    return "avx512f" not in processor_features()


def _tiles_permitted() -> bool:
    """Ask the system for tiles, once for the process and its children; old systems know none, and
    it refuses where a signal handler's stack is too small for them."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        arguments = map(ctypes.c_long, (_ARCH_PRCTL, _ASK, _TILE_DATA))
        return int(ctypes.CDLL(None).syscall(*arguments)) == 0
    return False
