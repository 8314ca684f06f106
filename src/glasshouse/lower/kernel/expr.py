"""Expressions of the kernel IR: what one element is.

Each has a `dtype`. Elements of half floats are held as float32: a load widens, arithmetic is that
of float32, only a `cast` to the type rounds on the way, and a store rounds last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.index import Index

Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Load:
    """The element of a buffer at a flat position, in the buffer's layout."""

    buffer: str
    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Var:
    """What a `Let` or a `Fold` before it, or the tile around it, bound to this name."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """An op of the registry on elements, with its attributes: elementwise ops, `quantize` and
    `dequantize` (element, scale, zero point).

    Some ops take positions: `uniform` and `normal` (seed, number of the element), `dropout`
    (element, seed, number of the element), `one_hot` (class, position), `arange` (position).
    """

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    attrs: Attrs = ()

    def attr(self, name: str) -> Any:
        return next(v for k, v in self.attrs if k == name)


@dataclass(frozen=True, slots=True)
class Position:
    """A position as an element: the index, converted to `dtype`."""

    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition on positions: `left` <, <=, >= `right`; or `inside`: 0 <= left < right."""

    op: str
    left: Index
    right: Index


COMPARISONS = ("<", "<=", ">=", "inside")


@dataclass(frozen=True, slots=True)
class Choose:
    """`then` where all conditions hold, else `otherwise`; both are values, computed anyway."""

    conditions: tuple[Compare, ...]
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:
        return self.then.dtype


Expr = Load | Number | Var | Apply | Position | Choose
