"""Decides what becomes of copies, casts and other ops that leave numbers alone."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.registry import Context, aten
from glasshouse.ir.dtype import DType


def _same(x: Any, *_: Any, **__: Any) -> Any:
    return x


aten(
    "clone", "detach", "alias", "contiguous", "lift", "lift_fresh", "lift_fresh_copy",
    "detach_copy", "alias_copy", "resolve_neg", "identity", "_to_cpu", "cpu", "pin_memory",
    "view_as_real_copy", "detach_",
)(_same)  # fmt: skip


@aten("to", "_to_copy", "_autocast_to_reduced_precision", "_autocast_to_full_precision")
def to(x: Any, *args: Any, dtype: DType | None = None, **_: Any) -> Any:
    """All overloads: the element type is the one argument that counts, wherever it stands."""
    for arg in args:
        if isinstance(arg, DType):
            dtype = arg
        elif hasattr(arg, "builder"):  # to.other
            dtype = arg.dtype
    return x if dtype is None else x.cast(dtype)


aten("type_as")(lambda x, other: x.cast(other.dtype))
for _name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8"):
    _short = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
              "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char"}[_name]  # fmt: skip
    aten(f"_cast_{_short}")(lambda x, non_blocking=False, dtype=_name: x.cast(dtype))
aten("prims::convert_element_type")(lambda x, dtype: x.cast(dtype))


@aten("copy", "copy_")
def copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """What `x.copy_(source)` leaves in x."""
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
def scalar_tensor(ctx: Context, value: Any, dtype: DType | None = None, **_: Any) -> Any:
    from glasshouse.frontend.torch.dtypes import default_float

    if hasattr(value, "builder"):
        return value.cast(dtype or default_float())
    return ctx.full((), value, dtype or default_float())
