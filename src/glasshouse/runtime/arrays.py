"""Decides how data goes in and out of compiled code: arrays and tensors, without copies."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from glasshouse.ir.dtype import DType, bfloat16, from_storage

Array = np.ndarray[Any, Any]
ALIGN = 64
LARGE_PAGE = 2 << 20


def aligned_bytes(count: int) -> Array:
    """Zeroed bytes that begin at a multiple of 64, in large pages where there are many.

    Kernels read weights from end to end: with pages of 4 KB a tenth of their time goes into looking
    up addresses. NumPy asks for large pages only from 4 MB on.
    """
    large = count >= LARGE_PAGE // 2 and hasattr(mmap, "MADV_HUGEPAGE")
    align = LARGE_PAGE if large else ALIGN
    if large:
        block = mmap.mmap(-1, count + align, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without them
            block.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(block, np.uint8)
    else:
        raw = np.zeros(count + align, np.uint8)
    begin = -raw.ctypes.data % align
    return raw[begin : begin + max(count, 1)]


def let_go(array: Array) -> None:
    """Give the system back the pages that lie wholly inside of an array, which must own them.

    Memory then reads as zeroes, a mapped file as what the file holds.
    """
    begin = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    count = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - begin
    if count > 0 and hasattr(mmap, "MADV_DONTNEED"):
        where = ctypes.c_void_p(begin), ctypes.c_size_t(count)
        ctypes.CDLL(None).madvise(*where, mmap.MADV_DONTNEED)


def address_of(array: Array) -> int:
    """Where an array begins: 0.23 us, where `array.ctypes.data` takes 1.0."""
    try:
        # NumPy's stubs do not tell that an array is a buffer.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # above
    except (TypeError, ValueError, BufferError):  # read-only, or without elements
        return int(array.ctypes.data)


def array_of(given: Any) -> Array:
    """NumPy's view of an argument; torch tensors and lazy tensors are not copied."""
    if _is_torch(given):
        import torch

        given = given.detach().resolve_conj().resolve_neg()
        if given.dtype is torch.bfloat16:
            return np.asarray(given.view(torch.int16).numpy()).view(np.uint16)
        given = given.numpy()
    array = np.asarray(given)
    return as_pairs(array) if array.dtype.kind == "c" else array


def as_pairs(array: Array) -> Array:
    """Complex numbers as compiled code takes them: real and imaginary part along a last axis."""
    parts = np.float32 if array.dtype == np.complex64 else np.float64
    return np.ascontiguousarray(array).view(parts).reshape(*array.shape, 2)


def as_complex(given: Any) -> Any:
    """Pairs along the last axis of an array or a tensor as complex numbers, without a copy."""
    if _is_torch(given):
        import torch

        return torch.view_as_complex(given)
    wide = np.complex128 if given.dtype == np.float64 else np.complex64
    return given.view(wide).reshape(given.shape[:-1])


def like_inputs(inputs: Sequence[Any], array: Array, dtype: DType) -> Any:
    """An output in the kind of container that the inputs came in."""
    if not any(_is_torch(x) for x in inputs):
        return from_storage(array, dtype)
    import torch

    if dtype is bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _is_torch(given: Any) -> bool:
    return type(given).__module__.split(".")[0] == "torch"
