"""What is known of a value before it is computed: its element type and its shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from glasshouse.ir.dim import Dim, Symbol, SymDim, product, symbols_of
from glasshouse.ir.dtype import DType

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """`float32[1, 128, 768]`; a dimension may be symbolic."""

    dtype: DType
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    __repr__ = __str__

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Dim:
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        return self.numel * self.dtype.itemsize

    @property
    def is_static(self) -> bool:
        return not any(isinstance(d, SymDim) for d in self.shape)


@lru_cache(maxsize=65536)
def _interned(dtype: DType, shape: Shape) -> TensorType:
    return TensorType(dtype, shape)


def tensor_type(dtype: DType, shape: Iterable[Dim]) -> TensorType:
    """A type, shared with others that are equal: a graph of 100,000 nodes has a few hundred."""
    return _interned(dtype, tuple(shape))


def symbols_in(types: Iterable[TensorType]) -> list[Symbol]:
    """The symbols of all sizes, by name; one of several ranges as often."""
    distinct = {id(type): type for type in types}.values()
    dims = {dim for type in distinct for dim in type.shape if isinstance(dim, SymDim)}
    return sorted({symbol for dim in dims for symbol in symbols_of(dim).values()})
