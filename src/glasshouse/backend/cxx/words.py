"""How types, sizes, positions and numbers are written in generated C++."""

from __future__ import annotations

import math

from glasshouse.ir.dim import Dim, Function
from glasshouse.ir.dtype import (
    NARROW,
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)  # fmt: skip
from glasshouse.lower.kernel.index import (
    CLAMPED,
    GUARDED,
    QUOTIENT,
    REFLECTED,
    REMAINDER,
    WRAPPED,
    Atom,
    Checked,
    Derived,
    Index,
)
from glasshouse.lower.kernel.queries import sizes_that_hold
from glasshouse.lower.symbols import symbol_name

C_TYPE: dict[DType, str] = {
    float64: "double", float32: "float", float16: "gh::f16", bfloat16: "gh::bf16",
    float8_e4m3fn: "gh::f8e4", float8_e5m2: "gh::f8e5",
    int64: "int64_t", int32: "int32_t", int16: "int16_t", int8: "int8_t", uint8: "uint8_t",
    uint32: "uint32_t", uint64: "uint64_t", bool_: "bool",
}  # fmt: skip

COMPUTE_TYPE: dict[DType, str] = {**C_TYPE, **dict.fromkeys(NARROW, "float")}
"""The type in which generated code holds an element: narrow floats are widened when loaded."""


def size_text(dim: Dim) -> str:
    """A size as an expression of type int64_t; symbols are variables of the kernel."""
    if isinstance(dim, int):
        return f"int64_t({dim})" if dim < 0 else str(dim)
    text = ""
    for monomial, coefficient in dim.terms:
        factors = [_atom_text(a) for a in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient) if coefficient >= 0 else f"({coefficient})")
        text += (" + " if text else "") + " * ".join(factors)
    return f"({text})"


def index_text(index: Index) -> str:
    """A position as an expression of the type that its variables have."""
    parts: list[str] = []
    for atom, coefficient in index.terms:
        name = _place_text(atom)
        parts.append(name if coefficient == 1 else f"{name} * {size_text(coefficient)}")
    constant = index.constant
    if not parts:
        return size_text(constant)
    text = " + ".join(parts)
    if constant == 0:
        return text
    if isinstance(constant, int) and constant < 0:
        return f"{text} - {-constant}"
    return f"{text} + {size_text(constant)}"


def unless_empty(index: Index, load: str, nothing: str) -> str:
    """A load from a buffer that may hold nothing (`sizes_that_hold`)."""
    sizes = [size_text(d) for d in sizes_that_hold(index)]
    return (
        f"({' && '.join(f'{size} > 0' for size in sizes)} ? {load} : {nothing})" if sizes else load
    )


_DERIVED = {
    QUOTIENT: "(({0}) / {1})",
    REMAINDER: "(({0}) % {1})",
    WRAPPED: "gh::floor_mod<int64_t>({0}, {1})",
    CLAMPED: "gh::clamp({0}, {1})",
    GUARDED: "gh::clamp({0}, {1})",
    REFLECTED: "gh::reflect({0}, {1})",
}


def _place_text(atom: Atom) -> str:
    if isinstance(atom, Derived):
        return _DERIVED[atom.how].format(index_text(atom.index), size_text(atom.size))
    if isinstance(atom, Checked):
        return f"ctx.index({atom.name}, {size_text(atom.size)})"
    return atom.name


def number_text(value: float | int | bool, dtype: DType) -> str:
    """A literal of the type in which elements of `dtype` are held."""
    if dtype is bool_:
        return "true" if value else "false"
    if not dtype.is_float:
        whole = int(value)
        if whole == -(2**63):
            return "INT64_MIN"
        suffix = "ULL" if whole >= 2**63 else "LL" if abs(whole) > 2**31 - 1 else ""
        return f"{COMPUTE_TYPE[dtype]}({whole}{suffix})"
    number = float(value)
    suffix = "" if dtype is float64 else "f"
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    text = repr(number)
    return f"{text if any(c in text for c in '.e') else text + '.0'}{suffix}"


def _atom_text(atom: object) -> str:
    if isinstance(atom, Function):
        left, right = size_text(atom.left), size_text(atom.right)
        name = {
            "//": "gh::floor_div",
            "%": "gh::floor_mod",
            "min": "gh::min_of",
            "max": "gh::max_of",
        }
        return f"{name[atom.kind]}<int64_t>({left}, {right})"
    return symbol_name(str(atom))
