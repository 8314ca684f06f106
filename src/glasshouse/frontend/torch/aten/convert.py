"""What becomes of copies, casts and other ops that leave numbers alone."""

from __future__ import annotations

from typing import Any

import torch

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Context, aten
from glasshouse.frontend.torch.complex import Complex, as_complex, joined
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.ir.dtype import DType
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import expanded


def _same(x: Any, *_: Any, **__: Any) -> Any:
    return x


aten(
    "clone", "alias", "contiguous", "lift", "lift_fresh", "lift_fresh_copy",
    "detach_copy", "alias_copy", "identity", "_to_cpu", "cpu", "pin_memory", "view_as_real_copy",
    "detach_", "resolve_conj", "resolve_neg",  # a conjugate is computed where it stands
)(_same)  # fmt: skip


@aten("detach", context=True)
def detach(ctx: Context, x: Any) -> Any:
    return x if ctx.stopped is None or isinstance(x, Complex) else ctx.stopped(x)


@aten("to", "_to_copy", "_autocast_to_reduced_precision", "_autocast_to_full_precision")
def to(x: Any, *args: Any, dtype: Any = None, **_: Any) -> Any:
    """All overloads: the element type is the one argument that counts, wherever it stands."""
    for arg in args:
        if isinstance(arg, (DType, torch.dtype)):
            dtype = arg
        elif isinstance(arg, Complex):  # to.other
            dtype = torch.complex64
        elif hasattr(arg, "builder"):
            dtype = arg.dtype
    if isinstance(dtype, torch.dtype) or (dtype is not None and isinstance(x, Complex)):
        return _to_complex(x, dtype)
    return x if dtype is None else x.cast(dtype)


def _to_complex(x: Any, dtype: Any) -> Any:
    """Complex types are left as PyTorch's; the core has none."""
    if dtype not in COMPLEX_PARTS:
        raise Unsupported(f"{x.type} as {dtype}")
    kind = dtype_of(dtype)
    if isinstance(x, Complex):
        if x.is_apart:
            return joined(*(p.cast(kind) for p in x.parts()))
        return Complex(x.pairs.cast(kind))
    real = x.cast(kind)
    return joined(real, full_near(real, real.shape, 0, kind))


aten("type_as")(lambda x, other: x.cast(other.dtype))
for _name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8"):
    _short = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
              "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char"}[_name]  # fmt: skip
    aten(f"_cast_{_short}")(lambda x, non_blocking=False, dtype=_name: x.cast(dtype))
aten("prims::convert_element_type")(lambda x, dtype: x.cast(dtype))


@aten("copy", "copy_")
def copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """What `x.copy_(source)` leaves in x."""
    if isinstance(x, Complex):
        pairs = as_complex(source).pairs.cast(x.dtype)
        return Complex(expanded(pairs, x.pairs.shape))
    if isinstance(source, Complex):  # PyTorch warns, and leaves the imaginary part out
        source = source.parts()[0]
    return (
        source.cast(x.dtype).apply("expand", shape=x.shape)
        if source.shape != x.shape
        else (source.cast(x.dtype))
    )


@aten("fill", "fill_", context=True)
def fill(ctx: Context, x: Any, value: Any) -> Any:
    if hasattr(value, "builder"):
        return value.cast(x.dtype).apply("expand", shape=x.shape)
    return ctx.full(x.shape, value, x.dtype)


@aten("zero", "zero_", context=True)
def zero(ctx: Context, x: Any) -> Any:
    return ctx.full(x.shape, 0, x.dtype)


@aten("scalar_tensor", context=True)
def scalar_tensor(ctx: Context, value: Any, dtype: Any = None, **_: Any) -> Any:
    from glasshouse.frontend.torch.dtypes import default_float

    if isinstance(dtype, torch.dtype) and dtype in COMPLEX_PARTS:
        parts = (value.real, value.imag)
        return joined(*(ctx.full((), float(p), dtype_of(dtype)) for p in parts))
    if hasattr(value, "builder"):
        return value.cast(dtype or default_float())
    return ctx.full((), value, dtype or default_float())
