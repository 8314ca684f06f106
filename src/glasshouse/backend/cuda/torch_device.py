"""PyTorch on the same GPU: its tensors by address, and its ops on our memory, in one order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from glasshouse.backend.base import TensorDevice

_TYPESTR = {
    "float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<i2", "int64": "<i8",
    "int32": "<i4", "int16": "<i2", "int8": "|i1", "uint8": "|u1", "bool": "|b1",
    "uint32": "<u4", "uint64": "<u8", "float8_e4m3fn": "|u1", "float8_e5m2": "|u1",
}  # fmt: skip
"""As the array interface spells element types; it has no bfloat16 and no float8, which
are seen as integers first."""


class TorchOnGpu:
    """See `glasshouse.backend.base.TensorDevice`."""

    def __init__(self, torch: Any, number: int) -> None:
        self._torch = torch
        self.index = number
        self.name = f"cuda:{number}"

    def holds(self, given: Any) -> bool:
        if not isinstance(given, self._torch.Tensor) or given.get_device() != self.index:
            return False
        return bool(given.layout is self._torch.strided)

    def stream(self) -> int:
        found: int = self._torch._C._cuda_getCurrentRawStream(self.index)  # a tenth of the time
        return found

    def ordered(self, stream: int) -> AbstractContextManager[Any]:
        if stream == self.stream():
            return nullcontext()
        cuda = self._torch.cuda
        found: AbstractContextManager[Any] = cuda.stream(cuda.ExternalStream(stream, self.name))
        return found

    def tensor(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        kind = getattr(self._torch, dtype)
        if 0 in shape:
            return self._torch.empty(tuple(shape), dtype=kind, device=self.name)
        seen = self._torch.as_tensor(_OnDevice(address, shape, dtype), device=self.name)
        return seen.view(kind) if seen.dtype is not kind else seen

    def release(self) -> None:
        self._torch.cuda.empty_cache()


class _OnDevice:
    """What PyTorch asks for to see memory as a tensor."""

    def __init__(self, address: int, shape: Sequence[int], dtype: str) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "strides": None,
            "typestr": _TYPESTR[dtype],
            "stream": None,  # nobody waits: who asks is in order already
        }


def torch_on(number: int) -> TensorDevice | None:
    """None where PyTorch is not in use, or cannot use GPUs."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return TorchOnGpu(torch, number)
