"""How ATen's running products and extremes are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.frontend.torch.dtypes import is_integral
from glasshouse.ir.dtype import DType, int64


@aten("cumprod")
def cumprod(x: Any, dim: int, dtype: DType | None = None) -> Any:
    kind = dtype or (int64 if is_integral(x.dtype) else x.dtype)
    return x.cast(kind).apply("cumprod", axis=dim)


@aten("logcumsumexp")
def logcumsumexp(x: Any, dim: int) -> Any:
    return x.apply("logcumsumexp", axis=dim)


@aten("cummax")
def cummax(x: Any, dim: int) -> Any:
    return x.apply("cummax", axis=dim)


@aten("cummin")
def cummin(x: Any, dim: int) -> Any:
    return x.apply("cummax", axis=dim, largest=False)
