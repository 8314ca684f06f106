"""How a complex tensor is carried: its real and imaginary parts, apart or along a last axis."""

from __future__ import annotations

from typing import Any

from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.ir.types import TensorType
from glasshouse.ops.composite import stack, unstack
from glasshouse.ops.create import full_near


class Complex:
    """A complex tensor: pairs along a last axis of size 2, or two tensors where it was computed
    from parts. What is never paired runs in whole vectors.

    The form that was asked for is not kept: it may belong to an attempt that is taken back.
    """

    __slots__ = ("_pairs", "_parts")

    def __init__(self, pairs: Any) -> None:
        self._pairs = pairs
        self._parts: tuple[Any, Any] | None = None

    @property
    def pairs(self) -> Any:
        return self._pairs if self._parts is None else stack(list(self._parts), -1)

    def parts(self) -> tuple[Any, Any]:
        if self._parts is not None:
            return self._parts
        real, imaginary = unstack(self._pairs, -1)
        return real, imaginary

    @property
    def is_apart(self) -> bool:
        """Whether there are no pairs yet."""
        return self._parts is not None

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, (*self.shape, 2))

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(self._parts[0].shape if self._parts else self._pairs.shape[:-1])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        found: DType = (self._parts[0] if self._parts else self._pairs).dtype
        return found


def joined(real: Any, imaginary: Any) -> Complex:
    """The complex tensor with these parts."""
    made = Complex(None)
    made._parts = (real, imaginary)
    return made


def as_complex(given: Any) -> Complex:
    """A tensor as a complex one: itself, or with imaginary parts that are zero."""
    if isinstance(given, Complex):
        return given
    return joined(given, full_near(given, given.shape, 0, given.dtype))
