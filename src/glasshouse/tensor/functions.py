"""The ops that are called as functions of tensors, besides the methods of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.ops import composite
from glasshouse.tensor.builder import LAZY

einsum = composite.einsum


def _two(op: str, a: Any, b: Any) -> Any:
    """Numbers and arrays may stand on either side."""
    return LAZY.make(op, a, b)


def maximum(a: Any, b: Any) -> Any:
    return _two("maximum", a, b)


def minimum(a: Any, b: Any) -> Any:
    return _two("minimum", a, b)


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, b elsewhere."""
    return LAZY.make("where", condition, a, b)


def concat(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Tensors joined along an axis."""
    return LAZY.make("concat", *tensors, axis=axis)


def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Tensors of one shape along a new axis."""
    return composite.stack(tensors, axis)


def exp(x: Any) -> Any:
    return LAZY.make("exp", x)


def log(x: Any) -> Any:
    return LAZY.make("log", x)


def sqrt(x: Any) -> Any:
    return LAZY.make("sqrt", x)


def tanh(x: Any) -> Any:
    return LAZY.make("tanh", x)


def sigmoid(x: Any) -> Any:
    return LAZY.make("sigmoid", x)


def relu(x: Any) -> Any:
    return LAZY.make("relu", x)


def softmax(x: Any, axis: int = -1) -> Any:
    return LAZY.make("softmax", x, axis=axis)
