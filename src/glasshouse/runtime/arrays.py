"""How data goes in and out of compiled code: arrays and tensors, without copies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.ir.dtype import DType, from_storage
from glasshouse.runtime.tensor_memory import tensor_array

Array = np.ndarray[Any, Any]
LARGE = 1 << 13
"""Elements from which a call of PyTorch's costs less than it saves."""


def array_of(given: Any) -> Array:
    """NumPy's view of an argument; torch tensors and lazy tensors are not copied."""
    if is_torch(given):
        given = tensor_array(given)
    array = np.asarray(given)
    return as_pairs(array) if array.dtype.kind == "c" else array


def as_pairs(array: Array) -> Array:
    """Complex numbers as compiled code takes them: real and imaginary part along a last axis."""
    parts = np.float32 if array.dtype == np.complex64 else np.float64
    return np.ascontiguousarray(array).view(parts).reshape(*array.shape, 2)


def contiguous(array: Array) -> Array:
    """An array in row-major order, copied where it lies otherwise.

    By PyTorch where it is loaded: it copies by tiles, and takes a quarter of NumPy's time for a
    transposed matrix of 512 x 1000.
    """
    torch: Any = sys.modules.get("torch")
    if array.flags.c_contiguous or array.size < LARGE or torch is None:
        return np.ascontiguousarray(array).reshape(array.shape)
    width = array.itemsize
    # PyTorch has no views that go backwards, and warns of memory that may not be written.
    if width not in (1, 2, 4, 8) or not array.flags.writeable or not array.flags.aligned:
        return np.ascontiguousarray(array)
    if any(s < 0 or s % width for s in array.strides):
        return np.ascontiguousarray(array)
    bits = array.view(f"i{width}")
    copied: Array = torch.from_numpy(bits).contiguous().numpy().view(array.dtype)
    return copied


def as_complex(given: Any) -> Any:
    """Pairs along the last axis of an array or a tensor as complex numbers, without a copy."""
    if is_torch(given):
        import torch

        # PyTorch looks at strides even of nothing; those of NumPy's empty arrays are all 0.
        return torch.view_as_complex(given if given.numel() else given.new_empty(given.shape))
    wide = np.complex128 if given.dtype == np.float64 else np.complex64
    return given.view(wide).reshape(given.shape[:-1])


def like_inputs(inputs: Sequence[Any], array: Array, dtype: DType) -> Any:
    """An output in the kind of container that the inputs came in."""
    if not any(is_torch(x) for x in inputs):
        return from_storage(array, dtype)
    import torch

    if dtype.is_carried:
        same = torch.from_numpy(array.view(f"i{dtype.itemsize}"))
        return same.view(getattr(torch, dtype.name))
    return torch.from_numpy(array)


def on_gpu(given: Any) -> bool:
    """Whether an argument is a tensor of a GPU."""
    return is_torch(given) and getattr(given, "is_cuda", False)


def is_torch(given: Any) -> bool:
    """Whether an argument is a tensor of PyTorch."""
    return type(given).__module__.split(".")[0] == "torch"
