"""Decides how types, sizes and numbers are written in generated C++."""

from __future__ import annotations

import math

from glasshouse.ir.dim import Dim, Function, SymDim
from glasshouse.ir.dtype import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip

C_TYPE: dict[DType, str] = {
    float64: "double", float32: "float", float16: "gh::f16", bfloat16: "gh::bf16",
    int64: "int64_t", int32: "int32_t", int16: "int16_t", int8: "int8_t", uint8: "uint8_t",
    bool_: "bool",
}  # fmt: skip

COMPUTE_TYPE: dict[DType, str] = {**C_TYPE, float16: "float", bfloat16: "float"}
"""The type in which generated code holds an element: half floats are widened when loaded."""


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


def symbol_name(name: str) -> str:
    """The C++ variable of a symbol; names from files may hold anything, and stay apart."""
    plain = (c if c == "_" or (c.isascii() and c.isalnum()) else f"_{ord(c):x}_" for c in name)
    return "n_" + "".join(plain)


def number_text(value: float | int | bool, dtype: DType) -> str:
    """A literal of the type in which elements of `dtype` are held."""
    if dtype is bool_:
        return "true" if value else "false"
    if not dtype.is_float:
        whole = int(value)
        if whole == -(2**63):
            return "INT64_MIN"
        return f"{COMPUTE_TYPE[dtype]}({whole}{'LL' if abs(whole) > 2**31 - 1 else ''})"
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


def is_static(dims: tuple[Dim, ...]) -> bool:
    return not any(isinstance(d, SymDim) for d in dims)
