"""Hidet's names for what Glasshouse has: `import glasshouse.compat.hidet as hidet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse import array as _array
from glasshouse import full as _full
from glasshouse import randn as _randn
from glasshouse.compat.hidet import graph, utils
from glasshouse.compat.hidet.device import Tensor, placed
from glasshouse.compat.missing import names_what_is_there

_SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8",
    "u32": "uint32", "u64": "uint64",
}  # fmt: skip


def _dtype(given: Any) -> Any:
    return _SHORT.get(given, given) if isinstance(given, str) else given


def randn(
    shape: Sequence[int], dtype: Any = "float32", mean: float = 0.0, stddev: float = 1.0,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers."""
    return placed(_randn(tuple(shape), mean=mean, std=stddev, dtype=_dtype(dtype)), device)


def full(
    shape: Sequence[int], fill_value: Any, dtype: Any = "float32", device: Any = None
) -> Tensor:
    return placed(_full(tuple(shape), fill_value, _dtype(dtype)), device)


def ones(shape: Sequence[int], dtype: Any = "float32", device: Any = None) -> Tensor:
    return full(shape, 1, dtype, device)


def zeros(shape: Sequence[int], dtype: Any = "float32", device: Any = None) -> Tensor:
    return full(shape, 0, dtype, device)


def asarray(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    return placed(_array(data, _dtype(dtype)), device)


def from_torch(tensor: Any) -> Tensor:
    """A copy on the host that names the tensor's device."""
    return placed(_array(tensor.detach().cpu()), tensor.device)


__all__ = ["Tensor", "asarray", "from_torch", "full", "graph", "ones", "randn", "utils", "zeros"]
__getattr__ = names_what_is_there("hidet", __all__)
