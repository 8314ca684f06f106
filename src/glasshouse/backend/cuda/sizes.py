"""Sizes of a plan as plain data and back: a number, or a sum [[factor, [atom, ...]], ...] of
products whose atoms are symbols or [kind, left, right]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glasshouse.ir.dim import Dim, Function


def dim_json(dim: Dim) -> Any:
    """A size as plain lists and numbers."""
    if isinstance(dim, int):
        return dim
    return [
        [
            factor,
            [
                [a.kind, dim_json(a.left), dim_json(a.right)] if isinstance(a, Function) else a.name
                for a in monomial
            ],
        ]
        for monomial, factor in dim.terms
    ]


def dim_value(given: Any, sizes: Mapping[str, int]) -> int:
    """The number that a size is, for known symbols."""
    if isinstance(given, int):
        return given
    total = 0
    for factor, atoms in given:
        for atom in atoms:
            factor *= sizes[atom] if isinstance(atom, str) else _function(atom, sizes)
        total += factor
    return total


def _function(atom: list[Any], sizes: Mapping[str, int]) -> int:
    left, right = dim_value(atom[1], sizes), dim_value(atom[2], sizes)
    if atom[0] == "//":
        return left // right
    if atom[0] == "%":
        return left % right
    return min(left, right) if atom[0] == "min" else max(left, right)
