"""How tensors come into being: from data, from nothing, and from random numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import BY_NAME, DType, as_dtype, bfloat16, finish, from_storage
from glasshouse.tensor.builder import LAZY
from glasshouse.tensor.pending import Array, LazyValue, leaf_node
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.random import next_seed
from glasshouse.tensor.tensor import Tensor


def array(
    data: Any, dtype: object = None, *, requires_grad: bool = False, name: str = ""
) -> Tensor:
    """A tensor with a copy of this data: numbers, lists, arrays, tensors of other packages."""
    if isinstance(data, Tensor):
        held: Array = np.array(data.numpy())
        dtype = dtype or data.dtype
    elif type(data) is np.ndarray:
        held = data
    else:
        held = _as_array(data)
        if dtype is None and not hasattr(data, "dtype"):
            dtype = _plain_dtype(held)
        elif dtype is None:
            dtype = _without_numpy(data)
    out = _leaf(held, dtype, copy=True)
    out.name = name
    return out.requires_grad_() if requires_grad else out


def from_numpy(data: Array) -> Tensor:
    """A tensor that shares the array's memory: what is changed there later is changed here."""
    if not isinstance(data, np.ndarray):
        raise TypeMismatch(f"from_numpy needs an array, not {type(data).__name__}", LAZY.where())
    return _leaf(data, None, copy=False)


def from_dlpack(source: Any) -> Tensor:
    """A tensor that shares the memory of one of another package, through DLPack; CPU only."""
    return _leaf(np.from_dlpack(source), None, copy=False)


def as_tensor(data: Any, dtype: object = None) -> Tensor:
    """The tensor itself where it is one, otherwise a new one."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.cast(dtype)
    return array(data, dtype)


_PLAIN = {np.dtype(d.storage).num: d for d in BY_NAME.values() if not d.is_carried}
"""Types of which NumPy's arrays are data as they are, by NumPy's number. Looking one up by its
NumPy type takes 0.3 us, comparing that with another 0.5."""


def _leaf(data: Array, dtype: object, copy: bool) -> Tensor:
    plain = _PLAIN.get(data.dtype.num)
    if dtype is None and plain is not None and type(data) is np.ndarray and data.dtype.isnative:
        held = data.copy() if copy else data
        node = leaf_node(held, plain, current_origin(sys._getframe(2)))
        return Tensor(LazyValue(node, 0, node.types[0]))
    try:
        if dtype is None:
            kind = bfloat16 if data.dtype == np.uint16 else as_dtype(data.dtype)
        else:
            kind = as_dtype(dtype)
    except TypeMismatch as error:
        raise TypeMismatch(error.message, LAZY.where()) from None
    carried = finish(from_storage(data, kind), kind)
    if copy and np.may_share_memory(carried, data):
        carried = carried.copy()
    node = leaf_node(carried, kind, current_origin(sys._getframe(2)))
    return Tensor(node.outputs[0])


def _without_numpy(data: Any) -> DType | None:
    """The type of a PyTorch tensor that NumPy has not."""
    kind = BY_NAME.get(str(getattr(data, "dtype", "")).removeprefix("torch."))
    return kind if kind is not None and kind.is_carried else None


def _as_array(data: Any) -> Array:
    if isinstance(data, np.ndarray):
        return data
    if hasattr(data, "detach") and hasattr(data, "cpu"):  # a PyTorch tensor, without its import
        data = data.detach().cpu()
        if _without_numpy(data) is not None:
            return np.asarray(data.float().numpy())
        return np.asarray(data.numpy())
    if isinstance(data, (list, tuple)) and any(isinstance(d, Tensor) for d in data):
        return np.stack([d.numpy() if isinstance(d, Tensor) else np.asarray(d) for d in data])
    return np.asarray(data)


def _plain_dtype(data: Array) -> object:
    """Python's numbers are float32 and int64; NumPy would take float64."""
    return "float32" if data.dtype == np.float64 else None


# ------------------------------------------------------------------------------------ from nothing
def _shape(sizes: tuple[Any, ...]) -> tuple[Dim, ...]:
    if len(sizes) == 1 and not isinstance(sizes[0], (int, SymDim)):
        return tuple(sizes[0])
    return sizes


def full(shape: Sequence[Dim] | Dim, value: Any, dtype: object = None) -> Tensor:
    sizes = (shape,) if isinstance(shape, (int, SymDim)) else tuple(shape)
    if dtype is None and isinstance(value, float):
        dtype = "float32"
    return _made("full", shape=sizes, value=value, dtype=dtype)


def zeros(*shape: Any, dtype: object = "float32") -> Tensor:
    return full(_shape(shape), 0, dtype)


def ones(*shape: Any, dtype: object = "float32") -> Tensor:
    return full(_shape(shape), 1, dtype)


def zeros_like(x: Tensor, dtype: object = None) -> Tensor:
    return full(x.shape, 0, dtype or x.dtype)


def ones_like(x: Tensor, dtype: object = None) -> Tensor:
    return full(x.shape, 1, dtype or x.dtype)


def full_like(x: Tensor, value: Any, dtype: object = None) -> Tensor:
    return full(x.shape, value, dtype or x.dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: object = None) -> Tensor:
    """`arange(stop)` or `arange(start, stop, step)`."""
    if stop is None:
        start, stop = 0, start
    return _made("arange", start=start, stop=stop, step=step, dtype=dtype)


def linspace(start: float, stop: float, count: int, dtype: object = "float32") -> Tensor:
    """`count` numbers from start to stop, both included."""
    if count == 1:
        return full((1,), float(start), dtype)
    steps = arange(count, dtype="float64") * ((stop - start) / (count - 1))
    return (steps + float(start)).cast(dtype)  # type: ignore[no-any-return]  # cast gives Any


def eye(rows: int, columns: int | None = None, dtype: object = "float32") -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    wide = rows if columns is None else columns
    same = arange(rows).unsqueeze(1) == arange(wide).unsqueeze(0)
    return same.cast(dtype)  # type: ignore[no-any-return]  # comparisons give Any


# ------------------------------------------------------------------------------------------ random
def randn(*shape: Any, mean: float = 0.0, std: float = 1.0, dtype: object = "float32") -> Tensor:
    """Normally distributed numbers; `manual_seed` makes them repeat."""
    return _made("normal", next_seed(), shape=_shape(shape), mean=mean, std=std, dtype=dtype)


def rand(*shape: Any, low: float = 0.0, high: float = 1.0, dtype: object = "float32") -> Tensor:
    """Evenly distributed numbers from low (included) to high (excluded)."""
    return _made("uniform", next_seed(), shape=_shape(shape), low=low, high=high, dtype=dtype)


def randint(low: int, high: int, shape: Sequence[Dim], dtype: object = "int64") -> Tensor:
    """Whole numbers from low (included) to high (excluded), which are at most 2**24 apart."""
    drawn = rand(tuple(shape), low=float(low), high=float(high), dtype="float64").apply("floor")
    return drawn.clip(high=high - 1).cast(dtype)  # type: ignore[no-any-return]  # apply gives Any


def _made(op: str, *args: Any, **attrs: Any) -> Tensor:
    given = {key: value for key, value in attrs.items() if value is not None}
    return LAZY.make(op, *args, **given)  # type: ignore[no-any-return]  # one output each
