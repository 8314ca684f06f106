"""Data of constants that becomes an array of the host only when something there reads it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from glasshouse.runtime.arrays import Array

SMALLEST = 64 << 10
"""Bytes: less is read at once, as rules look at small constants."""
DEVICES = ("cuda",)
"""PyTorch's names of devices whose memory kernels read in place."""


class LateArray:
    """What an array tells of itself without its elements; NumPy gets those when it asks."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.size = int(np.prod(shape, dtype=np.int64))
        self.nbytes = self.size * dtype.itemsize

    def fetched(self) -> Array:
        """The elements as they are stored, contiguous."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        made = self.fetched()
        if dtype is not None and made.dtype != dtype:
            return made.astype(dtype)
        return made.copy() if copy else made

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (np.asarray(self),)


class DeviceArray(LateArray):
    """A dense tensor of a device: kernels there read it in place, and it is copied to the host
    once, when something asks for its elements."""

    def __init__(self, tensor: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(tuple(int(s) for s in tensor.shape), dtype)
        self.tensor = tensor
        self._fetched: Array | None = None

    def fetched(self) -> Array:
        if self._fetched is None:
            from glasshouse.runtime.tensor_memory import tensor_array

            with _real_tensors():
                self._fetched = np.ascontiguousarray(tensor_array(self.tensor.cpu()))
        return self._fetched

    def copied(self) -> DeviceArray:
        """The same elements in memory of their own on the device."""
        with _real_tensors():
            return DeviceArray(self.tensor.detach().clone(), self.dtype)

    def largest(self) -> float:
        """See `passes/subgraph_rewrite/scaled_weights.py`."""
        with _real_tensors():
            return float(self.tensor.abs().max())

    def scaled(self, scale: Array, shift: Array) -> tuple[DeviceArray, Array]:
        """See `passes/subgraph_rewrite/scaled_weights.py`. No more than the sums go to the host,
        and when they are there, what is left on the device has been written."""
        import torch

        with _real_tensors(), torch.no_grad():
            along = torch.from_numpy(np.stack([scale, shift])).to(self.tensor.device)
            wide = self.tensor.float()
            made = (wide * along[0]).to(self.tensor.dtype)
            parts = made.float(), wide * along[1]
            columns = torch.stack([part.sum(1, dtype=torch.float64) for part in parts])
            return DeviceArray(made, self.dtype), columns.float().cpu().numpy()


def _real_tensors() -> AbstractContextManager[None]:
    """Tensors with elements, which a tracer's fake ones do not have."""
    from torch.utils._python_dispatch import _disable_current_modes

    modes: AbstractContextManager[None] = _disable_current_modes()
    return modes


def can_stay(tensor: Any) -> bool:
    """Whether kernels of a device can read a tensor in place: one of PyTorch's own, of real numbers
    that lie there one behind the other."""
    import torch

    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type in DEVICES
        and tensor.layout is torch.strided
        and not tensor.is_complex()
        and tensor.nbytes >= SMALLEST
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


def on_host(data: Array | LateArray) -> Array:
    """As a contiguous array of the host."""
    return np.ascontiguousarray(data)
