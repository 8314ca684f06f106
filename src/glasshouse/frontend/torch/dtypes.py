"""Which element type of the graph stands for which of PyTorch's, and who promotes whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import BY_NAME, Category, DType, bool_, int64, promote

_TO_TORCH = {d: getattr(torch, d.name) for d in BY_NAME.values()}
_FROM_TORCH = {t: d for d, t in _TO_TORCH.items()}
WITHOUT_NUMPY = tuple(t for d, t in _TO_TORCH.items() if d.is_carried)
# A complex tensor is carried as pairs of reals along a new last axis.
COMPLEX_PARTS = {
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
    torch.complex32: torch.float16,
}


def dtype_of(dtype: torch.dtype) -> DType:
    """The graph's element type; a complex type gives the type of its parts."""
    found = _FROM_TORCH.get(COMPLEX_PARTS.get(dtype, dtype))
    if found is None:
        raise Unsupported(
            f"the element type {dtype} has no counterpart", hint="cast to one that NumPy knows"
        )
    return found


def torch_dtype(dtype: DType) -> torch.dtype:
    return _TO_TORCH[dtype]


def default_float() -> DType:
    """What Python floats become: `torch.get_default_dtype()`."""
    return dtype_of(torch.get_default_dtype())


def result_dtype(args: Sequence[Any]) -> DType:
    """PyTorch's result type of operands: tensors with axes decide, then scalars, then numbers.

    A lower kind of operand only counts when its category (bool < int < float) is higher.
    """
    kinds: list[DType | None] = [None, None, None]  # with axes, without, numbers
    for arg in args:
        dtype, rank = _weight(arg)
        if dtype is not None:
            held = kinds[rank]
            kinds[rank] = dtype if held is None else promote(held, dtype)
    found: DType | None = None
    for dtype in kinds:
        if dtype is None:
            continue
        if found is None or dtype.category.value > found.category.value:
            found = dtype if found is None else promote(found, dtype)
    assert found is not None  # an op has operands
    return found


def _weight(arg: Any) -> tuple[DType | None, int]:
    if arg is None:
        return None, 2
    if isinstance(arg, bool):
        return bool_, 2
    if isinstance(arg, (int, SymDim)):
        return int64, 2
    if isinstance(arg, float):
        return default_float(), 2
    return arg.dtype, 0 if arg.ndim else 1


def is_integral(dtype: DType) -> bool:
    """Integers and bools: what true division and most functions turn into floats."""
    return dtype.category is not Category.FLOAT
