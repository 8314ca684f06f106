"""How ATen's ops that make tensors from numbers are spelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Context, aten, is_handle, is_static, number
from glasshouse.frontend.torch.complex import as_complex, joined
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, default_float, dtype_of
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import DType, bool_, int64
from glasshouse.ops.shape import reshaped


def _declared(ctx: Context) -> DType:
    """The element type that PyTorch found: it knows the default and the rules for numbers."""
    return dtype_of(ctx.fx_node.meta["val"].dtype)


def _filled(ctx: Context, shape: Any, value: Any, dtype: Any) -> Any:
    if is_handle(value):
        return value.cast(dtype).apply("expand", shape=tuple(shape))
    if isinstance(dtype, torch.dtype):  # a complex one, which the core does not have
        dtype = dtype_of(dtype)
    if isinstance(value, complex):
        return joined(*(ctx.full(shape, part, dtype) for part in (value.real, value.imag)))
    made = ctx.full(shape, value if isinstance(value, SymDim) else number(value, dtype), dtype)
    return as_complex(made) if ctx.fx_node.meta["val"].dtype in COMPLEX_PARTS else made


@aten("full", context=True)
def full(ctx: Context, size: Any, value: Any, **_: Any) -> Any:
    return _filled(ctx, size, value, _declared(ctx))


@aten("full_like", context=True)
def full_like(ctx: Context, x: Any, value: Any, dtype: DType | None = None, **_: Any) -> Any:
    return _filled(ctx, x.shape, value, dtype or x.dtype)


@aten("new_full", context=True)
def new_full(
    ctx: Context, x: Any, size: Any, value: Any, dtype: DType | None = None, **_: Any
) -> Any:
    return _filled(ctx, size, value, dtype or x.dtype)


def _constant(value: int) -> Any:
    def made(ctx: Context, size: Any, *_: Any, **__: Any) -> Any:
        return _filled(ctx, size, value, _declared(ctx))

    def like(ctx: Context, x: Any, *_: Any, dtype: DType | None = None, **__: Any) -> Any:
        return _filled(ctx, x.shape, value, dtype or x.dtype)

    def new(ctx: Context, x: Any, size: Any, *_: Any, dtype: DType | None = None, **__: Any) -> Any:
        return _filled(ctx, size, value, dtype or x.dtype)

    return made, like, new


# What `empty` holds is not defined; zeros are as good as anything and the same in every run.
for _names, _value in {
    ("zeros", "empty", "empty_permuted", "_efficientzerotensor"): 0,
    ("ones",): 1,
}.items():
    _made, _like, _new = _constant(_value)
    aten(*_names, context=True)(_made)
    aten(*(f"{n}_like" for n in _names if "_" not in n), context=True)(_like)
    aten(*(f"new_{n}" for n in _names if "_" not in n), context=True)(_new)
_made, _, _new = _constant(0)
aten("empty_strided", context=True)(_made)
aten("new_empty_strided", context=True)(_new)


@aten("arange.default", "arange", context=True)
def arange(ctx: Context, end: Any, **_: Any) -> Any:
    return arange_between(ctx, 0, end)


@aten("arange.start", "arange.start_step", context=True)
def arange_between(ctx: Context, start: Any, end: Any, step: Any = 1, **_: Any) -> Any:
    if is_handle(start) or is_handle(end) or is_handle(step):
        raise Unsupported("the number of elements depends on data")
    if not is_static(start, end):  # of sizes and fractions nobody knows the number
        start, end, step = (_whole(n) for n in (start, end, step))
    return ctx.make("arange", start=start, stop=end, step=step, dtype=_declared(ctx))


def _whole(number: Any) -> Any:
    """The integer that a float is, if it is one: `arange(size - 1, -1, -1.0)`."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


@aten("linspace", context=True)
def linspace(ctx: Context, start: Any, end: Any, steps: int, **_: Any) -> Any:
    dtype = _declared(ctx)
    if is_handle(start) or is_handle(end) or not is_static(steps):
        raise Unsupported("linspace between tensors")
    # From both ends to the middle, as PyTorch has it.
    kind = dtype.carrier if dtype.is_float else np.dtype(np.float64)
    if steps == 1:
        return ctx.constant(np.full(1, start, kind), dtype)
    step = (end - start) / (steps - 1)
    at = np.arange(steps)
    data = np.where(at < steps // 2, start + step * at, end - step * (steps - 1 - at))
    return ctx.constant(data.astype(kind), dtype)


@aten("logspace.default", "logspace", context=True)
def logspace(ctx: Context, start: Any, end: Any, steps: int, base: float = 10.0, **_: Any) -> Any:
    if is_handle(start) or is_handle(end) or not is_static(steps):
        raise Unsupported("logspace between tensors")
    dtype = _declared(ctx)
    data = float(base) ** np.linspace(start, end, steps, dtype=np.float64)
    return ctx.constant(data.astype(dtype.carrier), dtype)


@aten("eye", "eye.m", context=True)
def eye(ctx: Context, rows: Any, columns: Any = None, **_: Any) -> Any:
    dtype = _declared(ctx)
    columns = rows if columns is None else columns
    at = reshaped(ctx.make("arange", start=0, stop=rows, dtype=int64), (rows, 1))
    made = at.apply("equal", ctx.make("arange", start=0, stop=columns, dtype=int64)).cast(dtype)
    return as_complex(made) if ctx.fx_node.meta["val"].dtype in COMPLEX_PARTS else made


def _triangle(upper: bool) -> Any:
    def indices(ctx: Context, rows: int, columns: int, offset: int = 0, **_: Any) -> Any:
        if not is_static(rows, columns):
            raise Unsupported("the number of indices depends on sizes")
        kind = np.triu_indices if upper else np.tril_indices
        return ctx.constant(np.stack(kind(rows, offset, columns)).astype(np.int64), _declared(ctx))

    return indices


aten("tril_indices", context=True)(_triangle(False))
aten("triu_indices", context=True)(_triangle(True))


@aten("tril", context=True)
def tril(ctx: Context, x: Any, diagonal: Any = 0) -> Any:
    return x.apply("triangle", diagonal=diagonal)


@aten("triu", context=True)
def triu(ctx: Context, x: Any, diagonal: Any = 0) -> Any:
    return x.apply("triangle", diagonal=diagonal, upper=True)


@aten("_tensor_constant", context=True)
def tensor_constant(ctx: Context, value: Any) -> Any:
    return ctx.constant(value, default_float() if isinstance(value, float) else None)


def _window(name: str) -> Any:
    """A window of a fixed length: numbers that PyTorch computes once."""

    def made(ctx: Context, length: Any, *options: Any, **_: Any) -> Any:
        if not is_static(length):
            raise Unsupported(f"a window of {length} elements")
        kept = [o for o in options if isinstance(o, (bool, float))]
        data = getattr(torch, name)(int(length), *kept, dtype=torch.float64).numpy()
        dtype = _declared(ctx)
        return ctx.constant(data.astype(dtype.carrier), dtype)

    return made


for _name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
    aten(f"{_name}_window", context=True)(_window(f"{_name}_window"))

__all__ = ["bool_"]
