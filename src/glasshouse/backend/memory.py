"""Memory of the host: aligned, in large pages where there is much, and given back when asked."""

from __future__ import annotations

import ctypes
import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ALIGN = 64
LARGE_PAGE = 2 << 20


def aligned_bytes(count: int) -> Array:
    """Zeroed bytes that begin at a multiple of 64, in large pages where there are many.

    Kernels read weights from end to end: with pages of 4 KB a tenth of their time goes into looking
    up addresses. NumPy asks for large pages only from 4 MB on. A large page is there as a whole as
    soon as one byte of it is used, so the last one is asked for only if half of it will be.
    """
    large = (count + LARGE_PAGE // 2) // LARGE_PAGE
    if sys.platform == "linux" and large:
        align = LARGE_PAGE
        try:
            block = mmap.mmap(-1, count + align, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError):
            raise MemoryError(f"no memory for {count:,} bytes") from None
        raw = np.frombuffer(block, np.uint8)
        begin = -raw.ctypes.data % align
        with suppress(OSError):  # a kernel without them
            block.madvise(mmap.MADV_HUGEPAGE, begin, min(large * align, len(block) - begin))
    else:
        raw = np.zeros(count + ALIGN, np.uint8)
        begin = -raw.ctypes.data % ALIGN
    return raw[begin : begin + max(count, 1)]


def release_pages(array: Array) -> None:
    """Give the system back the pages that lie wholly inside of an array, which must own them.

    Memory then reads as zeroes, a mapped file as what the file holds.
    """
    begin = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    count = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - begin
    if count > 0 and hasattr(mmap, "MADV_DONTNEED"):
        where = ctypes.c_void_p(begin), ctypes.c_size_t(count)
        ctypes.CDLL(None).madvise(*where, mmap.MADV_DONTNEED)
