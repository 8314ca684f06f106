"""How a complex tensor is carried: as its real and imaginary parts along a last axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.ir.types import TensorType
from glasshouse.ops.composite import stack, unstack
from glasshouse.ops.create import full_near


@dataclass(frozen=True)
class Complex:
    """A complex tensor; `pairs` has one axis more, of size 2."""

    pairs: Any

    @property
    def type(self) -> TensorType:
        found: TensorType = self.pairs.type
        return found

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(self.pairs.shape[:-1])

    @property
    def ndim(self) -> int:
        return len(self.pairs.shape) - 1

    @property
    def dtype(self) -> DType:
        found: DType = self.pairs.dtype
        return found

    def parts(self) -> tuple[Any, Any]:
        real, imaginary = unstack(self.pairs, -1)
        return real, imaginary


def joined(real: Any, imaginary: Any) -> Complex:
    """The complex tensor with these parts."""
    return Complex(stack([real, imaginary], -1))


def as_complex(given: Any) -> Complex:
    """A tensor as a complex one: itself, or with imaginary parts that are zero."""
    if isinstance(given, Complex):
        return given
    return joined(given, full_near(given, given.shape, 0, given.dtype))
