"""What attributes an op may have and what is accepted for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import DType, as_dtype

AttrValue = Any
"""bool, int, float, str, None, Dim, DType, a tuple of these, a Graph, or an array (constants)."""


class _Required:
    def __repr__(self) -> str:
        return "(required)"


REQUIRED = _Required()


@dataclass(frozen=True)
class Attr:
    """An attribute: how a given value is checked and normalised, and its default."""

    kind: str
    convert: Callable[[Any], AttrValue]
    default: Any = REQUIRED
    doc: str = ""

    def __call__(self, default: Any = REQUIRED, doc: str = "") -> Attr:
        """The same kind of attribute with a default: `axis=INT(-1)`."""
        return Attr(self.kind, self.convert, default, doc)


def _int(given: Any) -> int:
    if isinstance(given, (bool, np.bool_)):
        raise ValueError("an integer")
    if isinstance(given, (int, np.integer)):
        return int(given)
    raise ValueError("an integer")


def _float(given: Any) -> float:
    if isinstance(given, (int, float, np.integer, np.floating)):
        return float(given)
    raise ValueError("a number")


def _number(given: Any) -> bool | int | float:
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    if isinstance(given, (int, np.integer)):
        return int(given)
    return _float(given)


def _bool(given: Any) -> bool:
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    raise ValueError("True or False")


def _str(given: Any) -> str:
    if isinstance(given, str):
        return given
    raise ValueError("a string")


def _dim(given: Any) -> Dim:
    return given if isinstance(given, SymDim) else _int(given)


def _tuple_of(one: Callable[[Any], Any], what: str) -> Callable[[Any], tuple[Any, ...]]:
    def convert(given: Any) -> tuple[Any, ...]:
        if isinstance(given, (list, tuple, np.ndarray)):
            return tuple(one(g) for g in given)
        try:
            return (one(given),)
        except ValueError:
            raise ValueError(what) from None

    return convert


def _dtype(given: Any) -> DType:
    return as_dtype(given)


def _optional(attr: Attr) -> Attr:
    def convert(given: Any) -> Any:
        return None if given is None else attr.convert(given)

    return Attr(attr.kind + "?", convert, None)


INT = Attr("int", _int)
FLOAT = Attr("float", _float)
NUMBER = Attr("number", _number)
BOOL = Attr("bool", _bool)
STR = Attr("str", _str)
DIM = Attr("dim", _dim)
INTS = Attr("ints", _tuple_of(_int, "a list of integers"))
FLOATS = Attr("floats", _tuple_of(_float, "a list of numbers"))
DIMS = Attr("dims", _tuple_of(_dim, "a list of sizes"))
DTYPE = Attr("dtype", _dtype)
ANY = Attr("any", lambda given: given)
OPT_INT = _optional(INT)
OPT_FLOAT = _optional(FLOAT)
OPT_INTS = _optional(INTS)
OPT_DIM = _optional(DIM)
OPT_DTYPE = _optional(DTYPE)


def check_attrs(
    op_name: str, declared: Mapping[str, Attr], given: Mapping[str, Any]
) -> dict[str, AttrValue]:
    """All attributes of a node, normalised, in the order of declaration."""
    for name in given:
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise TypeMismatch(f"{op_name} has no attribute {name!r}; it has: {known}")
    out: dict[str, AttrValue] = {}
    for name, attr in declared.items():
        if name in given:
            try:
                out[name] = attr.convert(given[name])
            except ValueError as wanted:
                raise TypeMismatch(
                    f"{op_name}: attribute {name} must be {wanted}, got {given[name]!r}"
                ) from None
        elif attr.default is REQUIRED:
            raise TypeMismatch(f"{op_name} needs the attribute {name}")
        else:
            out[name] = attr.default
    return out
