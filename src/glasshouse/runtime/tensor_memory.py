"""NumPy's view of a torch tensor's memory that leaves the tensor as it was.

`tensor.numpy()` marks the storage as not resizable for good, and who shards parameters (FSDP2)
frees and refills storages by resizing them. Here NumPy is told the address instead; the array keeps
the tensor alive, and is valid as long as nobody resizes the storage.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from glasshouse.ir.dtype import ALL

Array = np.ndarray[Any, Any]


class _Memory:
    """What NumPy asks for (its array interface), and the tensor that owns the bytes."""

    def __init__(self, tensor: Any, dtype: np.dtype[Any]) -> None:
        self.owner = tensor
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(s * dtype.itemsize for s in tensor.stride()),
            "typestr": dtype.str,
        }


def tensor_array(tensor: Any) -> Array:
    """A dense tensor in main memory as an array on the same bytes; bfloat16 comes as uint16, float8
    as uint8.

    One of a GPU is copied.
    """
    import torch

    if tensor.device.type == "cuda":
        tensor = tensor.cpu()
    found = tensor.detach().resolve_conj().resolve_neg()
    dtype = _dtypes().get(found.dtype)
    if dtype is None or type(found) is not torch.Tensor:
        plain: Array = found.numpy()  # no element type of NumPy's, or a class with its own memory
        return plain
    if not found.numel():
        return np.empty(tuple(found.shape), dtype)
    return np.asarray(_Memory(found, dtype))


class _WritableBytes:
    """An array's memory as what may be written: PyTorch warns of arrays that may not, and whoever
    is given the tensor does not write to it."""

    def __init__(self, array: Array) -> None:
        self.owner = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def array_tensor(array: Array, dtype: Any) -> Any:
    """A contiguous array, as it is stored, as a tensor of PyTorch's type `dtype` on the same
    bytes."""
    import torch

    if not array.flags.writeable:
        array = np.asarray(_WritableBytes(array))
    found = _dtypes()[dtype]
    if found.kind == "u":  # bits of what NumPy has not
        return torch.from_numpy(array.view(f"i{found.itemsize}")).view(dtype)
    return torch.from_numpy(array)


@functools.cache
def _dtypes() -> dict[Any, np.dtype[Any]]:
    import torch

    same = (
        "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 "
        "complex64 complex128"
    )
    found = {getattr(torch, name): np.dtype(name) for name in same.split()}
    found |= {getattr(torch, d.name): d.storage for d in ALL if d.is_carried}
    return found
