"""How parameters and buffers enter a graph: as constants or variables on shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS
from glasshouse.ir.dtype import DType
from glasshouse.runtime.late_array import DeviceArray, can_stay
from glasshouse.runtime.tensor_memory import tensor_array


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """The bytes of a tensor as they lie in memory; None where it has none (meta, fake).

    No copy is made of a dense tensor in main memory. bfloat16 comes as uint16, complex numbers as
    pairs of reals.
    """
    found = tensor.detach()
    if found.is_meta or isinstance(found, torch._subclasses.FakeTensor):
        return None
    if found.layout != torch.strided:
        found = found.to_dense()
    found = found.cpu().resolve_conj().resolve_neg()
    if found.dtype in COMPLEX_PARTS:
        found = torch.view_as_real(found)
    return tensor_array(found)


def data_of(tensor: torch.Tensor, kind: DType) -> np.ndarray[Any, Any] | DeviceArray | None:
    """As `array_of`, but a large dense tensor of a GPU stays there until the host reads it: 2.4 GB
    of weights take 1.8 s to the host and 0.4 s back."""
    # Vectors may be zero points, which compiling looks at.
    if tensor.dim() > 1 and can_stay(tensor):
        return DeviceArray(tensor.detach(), np.dtype(kind.storage))
    return array_of(tensor)


def identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Equal for tensors that are the same memory seen the same way: tied weights."""
    try:
        storage = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a subclass without storage of its own
        return (id(tensor),)
    return (storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
