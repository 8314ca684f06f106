"""What an op gives for operands of known types is checked and inferred once.

A training loop applies the same ops to the same types in every step, and checking attributes and
inferring types is half of what recording a node costs. A key holds types by their identity (they
are shared, and an entry keeps them alive), and attributes only of kinds that compare as they mean:
1, 1.0 and True are equal to Python, and so are 0.0 and -0.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.dtype import DType
from glasshouse.ir.types import TensorType

if TYPE_CHECKING:
    from glasshouse.ir.graph import Value

MOST = 1 << 16
"""Entries that are kept; then all are forgotten, which costs a millisecond for each hundred."""

Key = tuple[Any, ...]


class Known(NamedTuple):
    """All attributes, the output types, and the operand types whose identity the key has."""

    attrs: Mapping[str, AttrValue]
    types: Sequence[TensorType]
    operands: Sequence[TensorType]


_known: dict[Key, Known] = {}
_PLAIN = (int, bool, str, type(None), DType)


def key_of(op: object, values: Sequence[Value], attrs: Mapping[str, Any]) -> Key | None:
    """None where an attribute has no plain form."""
    parts: list[Any] = [op]
    for name, given in attrs.items():
        kind = type(given)
        if kind in _PLAIN:
            parts += (name, kind, given)
        elif kind in (tuple, list) and all(type(x) is int for x in given):
            parts += (name, tuple(given))
        else:
            return None
    parts += [id(v.type) for v in values]
    return tuple(parts)


def find(key: Key) -> Known | None:
    return _known.get(key)


def keep(
    key: Key,
    attrs: Mapping[str, AttrValue],
    types: Sequence[TensorType],
    operands: Sequence[TensorType],
) -> None:
    if len(_known) >= MOST:
        _known.clear()
    _known[key] = Known(attrs, types, operands)
