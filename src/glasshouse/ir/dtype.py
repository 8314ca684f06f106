"""Which element types there are, how they promote, and how NumPy carries them.

NumPy has no bfloat16 and no float8, and NumPy is all that the core may need. So each type has two
NumPy types: `storage`, the bytes as they lie in memory (uint16 for bfloat16, uint8 for float8), and
`carrier`, the type in which NumPy computes with it (float32 for those, with every result rounded to
a value of the type). What rounds to more than a float8 can hold is PyTorch's choice: the largest
number of e4m3fn, which has no infinity, and infinity of e5m2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch


class Category(Enum):
    """Ordered as promotion goes: a bool gives way to an int, an int to a float."""

    BOOL = 0
    INT = 1
    FLOAT = 2


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One of `ALL`. Compared and hashed by identity: types are parts of most keys, and a hash of
    the fields took 1.5 us."""

    name: str
    category: Category
    bits: int
    storage: np.dtype[Any]
    carrier: np.dtype[Any]

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __reduce__(self) -> str:
        """A copy, or what was pickled, is the type itself."""
        return "bool_" if self.name == "bool" else self.name

    @property
    def itemsize(self) -> int:
        return self.storage.itemsize

    @property
    def is_carried(self) -> bool:
        """Whether NumPy has no such type."""
        return self.storage != self.carrier

    @property
    def is_float(self) -> bool:
        return self.category is Category.FLOAT


def _make(name: str, category: Category, storage: str, carrier: str | None = None) -> DType:
    stored = np.dtype(storage)
    bits = 1 if category is Category.BOOL else stored.itemsize * 8
    return DType(name, category, bits, stored, np.dtype(carrier or storage))


float64 = _make("float64", Category.FLOAT, "float64")
float32 = _make("float32", Category.FLOAT, "float32")
float16 = _make("float16", Category.FLOAT, "float16")
bfloat16 = _make("bfloat16", Category.FLOAT, "uint16", "float32")
float8_e4m3fn = _make("float8_e4m3fn", Category.FLOAT, "uint8", "float32")
float8_e5m2 = _make("float8_e5m2", Category.FLOAT, "uint8", "float32")
int64 = _make("int64", Category.INT, "int64")
int32 = _make("int32", Category.INT, "int32")
int16 = _make("int16", Category.INT, "int16")
int8 = _make("int8", Category.INT, "int8")
uint8 = _make("uint8", Category.INT, "uint8")
uint32 = _make("uint32", Category.INT, "uint32")
uint64 = _make("uint64", Category.INT, "uint64")
bool_ = _make("bool", Category.BOOL, "bool")

ALL: tuple[DType, ...] = (
    float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2,
    int64, int32, int16, int8, uint8, uint32, uint64, bool_,
)  # fmt: skip
FLOAT8 = (float8_e4m3fn, float8_e5m2)
UNSIGNED = (uint8, uint32, uint64)
NARROW = (bfloat16, float16, *FLOAT8)
"""Stored narrow, and computed with as float32."""
BY_NAME: dict[str, DType] = {d.name: d for d in ALL}
_BY_NUMPY: dict[np.dtype[Any], DType] = {d.storage: d for d in ALL if not d.is_carried}


def as_dtype(given: object) -> DType:
    """The type that a name, a NumPy type or a DType stands for."""
    if isinstance(given, DType):
        return given
    if isinstance(given, np.dtype) and given in _BY_NUMPY:  # asking for its name takes 2 us
        return _BY_NUMPY[given]
    if isinstance(given, str) and given in BY_NAME:
        return BY_NAME[given]
    name = getattr(given, "name", None)
    if isinstance(name, str) and name in BY_NAME:
        return BY_NAME[name]
    try:
        return _BY_NUMPY[np.dtype(given)]  # type: ignore[call-overload]  # any dtype-like
    except (KeyError, TypeError):
        names = ", ".join(BY_NAME)
        raise TypeMismatch(f"there is no element type {given!r}; there are {names}") from None


def promote(a: DType, b: DType) -> DType:
    """The common type of two operands: the higher category wins, then the wider type.

    As in PyTorch and unlike NumPy, float32 with int64 stays float32: the integer operand of a
    model is an index or a mask, and should not double the width of everything that follows.
    """
    if a is b:
        return a
    unsigned = {a, b} & {uint32, uint64} and not (a.is_float or b.is_float)
    if a in FLOAT8 or b in FLOAT8 or unsigned:  # as in PyTorch
        raise TypeMismatch(f"{a} and {b} have no common type", hint="cast one of them")
    if a.category is not b.category:
        return a if a.category.value > b.category.value else b
    if {a, b} == {float16, bfloat16}:
        return float32
    if a is uint8 or b is uint8:
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if a.bits > b.bits else b


def rounded(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Values in the carrier of a type, rounded to the nearest of the type (ties to even)."""
    return from_storage(to_storage(array, dtype), dtype)


def to_storage(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """An array of `dtype` values as the bytes that lie in memory."""
    if array.dtype == dtype.storage:
        return array
    if not dtype.is_carried:
        return array.astype(dtype.storage)
    wide = np.ascontiguousarray(array, np.float32)
    bits = _bfloat16_bits(wide) if dtype is bfloat16 else _float8_bits(wide, dtype)
    return bits.reshape(array.shape)


def _bfloat16_bits(wide: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    bits = wide.view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    # A NaN whose payload sits in the low half would round to infinity.
    return np.where(np.isnan(wide), np.uint16(0x7FC0), rounded)


def _float8_bits(wide: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Steps of the exponent that a value has, or of the least one, behind those of lesser ones."""
    fraction, bias, most = _FLOAT8_FORM[dtype]
    # More than any is, NaN too, of which NumPy's frexp warns on some processors (AVX2).
    size = np.fmin(np.abs(wide), np.float32(65536.0))
    exponent = np.frexp(np.maximum(size, np.float32(2.0 ** (1 - bias))))[1] - 1
    steps = np.rint(np.ldexp(size, fraction - exponent)).astype(np.int32)
    bits = np.minimum(steps + ((exponent + bias - 1) << fraction), most)
    bits = np.where(np.isnan(wide), 0x7F, bits)
    return (bits | np.where(np.signbit(wide), 0x80, 0)).astype(np.uint8)


_FLOAT8_FORM = {float8_e4m3fn: (3, 7, 0x7E), float8_e5m2: (2, 15, 0x7C)}
"""Bits of the fraction, bias of the exponent, and what is past the largest number becomes."""


@cache
def _float8_values(dtype: DType) -> np.ndarray[Any, Any]:
    """The value of each of the 256 bytes."""
    fraction, bias, most = _FLOAT8_FORM[dtype]
    exponent, part = np.divmod(np.arange(128), 1 << fraction)
    steps = np.where(exponent > 0, part + (1 << fraction), part)
    size = np.ldexp(steps, np.maximum(exponent, 1) - bias - fraction).astype(np.float32)
    size[most + 1 :] = np.nan
    if dtype is float8_e5m2:
        size[most] = np.inf
    return np.concatenate((size, -size))


def from_storage(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Stored bytes as an array that NumPy can compute with."""
    if not dtype.is_carried or array.dtype != dtype.storage:
        return array
    if dtype in FLOAT8:
        return np.asarray(_float8_values(dtype)[array])
    return (array.astype(np.uint32) << 16).view(np.float32).reshape(array.shape)


def finish(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """A computed array brought to exactly the values and the carrier of `dtype`."""
    out = np.asarray(array)
    if out.dtype != dtype.carrier:
        with np.errstate(all="ignore"):
            out = out.astype(dtype.carrier)
    return rounded(out, dtype) if dtype.is_carried else out
