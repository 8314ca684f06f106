"""Jittor's names for what Glasshouse has: `import glasshouse.compat.jittor as jt`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse import (
    Tensor,
    clear_trace_data,
    concat,
    dump_trace_data,
    exp,
    flag_scope,
    gradients,
    log,
    maximum,
    minimum,
    no_grad,
    optim,
    sqrt,
    stack,
    sync_all,
    where,
)
from glasshouse import array as _array
from glasshouse import manual_seed as set_global_seed
from glasshouse import ones as _ones
from glasshouse import rand as _rand
from glasshouse import randn as _randn
from glasshouse import zeros as _zeros
from glasshouse.compat.jittor import nn
from glasshouse.compat.jittor.module import Module, make_module
from glasshouse.compat.missing import names_what_is_there

Var = Tensor


def array(data: Any, dtype: Any = None) -> Tensor:
    return _array(data, dtype)


def float32(data: Any) -> Tensor:
    return _array(data, "float32")


def float64(data: Any) -> Tensor:
    return _array(data, "float64")


def int32(data: Any) -> Tensor:
    return _array(data, "int32")


def int64(data: Any) -> Tensor:
    return _array(data, "int64")


def random(shape: Sequence[int], dtype: Any = "float32", type: str = "uniform") -> Tensor:
    """Random numbers, "uniform" between 0 and 1 or "normal"."""
    make = _randn if type == "normal" else _rand
    return make(tuple(shape), dtype=dtype)


rand = _rand
randn = _randn


def ones(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    return _ones(shape, dtype=dtype)


def zeros(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    return _zeros(shape, dtype=dtype)


def matmul(a: Any, b: Any) -> Any:
    return a @ b


def grad(loss: Tensor, targets: Any) -> Any:
    """The gradient of the sum of a loss by a variable, or by each of several."""
    if isinstance(targets, Tensor):
        return gradients(loss, [targets])[0]
    return gradients(loss, list(targets))


__all__ = [
    "Module", "Var", "array", "clear_trace_data", "concat", "dump_trace_data", "exp",
    "flag_scope", "float32", "float64", "grad", "int32", "int64", "log", "make_module", "matmul",
    "maximum", "minimum", "models", "nn", "no_grad", "ones", "optim", "rand", "randn", "random",
    "set_global_seed", "sqrt", "stack", "sync_all", "where", "zeros",
]  # fmt: skip

from glasshouse.compat.jittor import models  # noqa: E402  # models are made of what stands above

__getattr__ = names_what_is_there("jittor", __all__)
