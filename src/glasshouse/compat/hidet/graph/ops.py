"""`hidet.graph.ops`: ops under Hidet's names and with its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse import concat as _concat
from glasshouse.compat.missing import names_what_is_there


def matmul(a: Any, b: Any) -> Any:
    return a @ b


batch_matmul = matmul


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """Axes in another order; fewer axes than dimensions reorder the last ones."""
    if axes is None:
        return x.transpose()
    kept = x.ndim - len(axes)
    return x.permute([*range(kept), *(a % x.ndim for a in axes)])


def softmax(x: Any, axis: int = -1) -> Any:
    return x.softmax(axis)


def reshape(x: Any, shape: Sequence[int]) -> Any:
    return x.reshape(shape)


def rearrange(x: Any, plan: Sequence[Sequence[int]]) -> Any:
    return x.rearrange(plan)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    return x.flatten(start_dim, end_dim)


def squeeze(x: Any, dims: Any) -> Any:
    return x.squeeze(dims)


def unsqueeze(x: Any, dims: Any) -> Any:
    return x.unsqueeze(dims)


def broadcast(x: Any, shape: Sequence[int]) -> Any:
    return x.broadcast_to(shape)


def concat(tensors: Sequence[Any], axis: int) -> Any:
    return _concat(tensors, axis)


def cast(x: Any, dtype: Any) -> Any:
    return x.cast(dtype)


def sum(x: Any, dims: Any, keep_dim: bool = False) -> Any:
    return x.sum(dims, keep_dim)


def mean(x: Any, dims: Any, keep_dim: bool = False) -> Any:
    return x.mean(dims, keep_dim)


def max(x: Any, dims: Any, keep_dim: bool = False) -> Any:
    return x.max(dims, keep_dim)


def add(a: Any, b: Any) -> Any:
    return a + b


def subtract(a: Any, b: Any) -> Any:
    return a - b


def multiply(a: Any, b: Any) -> Any:
    return a * b


def divide(a: Any, b: Any) -> Any:
    return a / b


def relu(x: Any) -> Any:
    return x.relu()


def gelu(x: Any, approximate: bool = False) -> Any:
    return x.apply("gelu", approximate="tanh" if approximate else "none")


def silu(x: Any) -> Any:
    return x.apply("silu")


def sigmoid(x: Any) -> Any:
    return x.sigmoid()


def tanh(x: Any) -> Any:
    return x.tanh()


def exp(x: Any) -> Any:
    return x.exp()


def sqrt(x: Any) -> Any:
    return x.sqrt()


__all__ = [
    "add", "batch_matmul", "broadcast", "cast", "concat", "divide", "exp", "flatten", "gelu",
    "matmul", "max", "mean", "multiply", "rearrange", "relu", "reshape", "sigmoid", "silu",
    "softmax", "sqrt", "squeeze", "subtract", "sum", "tanh", "transpose", "unsqueeze",
]  # fmt: skip
__getattr__ = names_what_is_there("hidet.graph.ops", __all__)
