"""How sizes that are not known yet are written, computed with and compared.

A dimension is an `int` or a `SymDim`: a polynomial with integer coefficients over atoms. An atom is
a symbol with a range (batch, sequence length) or one of four functions of two dimensions (floor
quotient, remainder, minimum, maximum) that no polynomial can say. The form is canonical, so two
equal sizes compare equal, and whatever turns out constant becomes an `int` again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import total_ordering
from math import inf
from typing import Union

from glasshouse.errors import ShapeError

Dim = Union[int, "SymDim"]
Range = tuple[float, float]


@total_ordering
@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size and the range (both ends included) in which it may lie."""

    name: str
    low: int = 0
    high: int | None = None

    def __str__(self) -> str:
        return self.name

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)

    @property
    def declared(self) -> str:
        """The name with its range: "batch in 1..64"."""
        return f"{self.name} in {self.low}..{'' if self.high is None else self.high}"


@total_ordering
@dataclass(frozen=True, slots=True)
class Function:
    """`//`, `%`, `min` or `max` of two dimensions."""

    kind: str
    left: Dim
    right: Dim

    def __str__(self) -> str:
        if self.kind in ("min", "max"):
            return f"{self.kind}({self.left}, {self.right})"
        return f"({_bracket(self.left, False)} {self.kind} {_bracket(self.right, True)})"

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)


Atom = Symbol | Function
Monomial = tuple[Atom, ...]  # sorted, with repeats; () is the constant term


@dataclass(frozen=True, slots=True)
class SymDim:
    """A size that depends on symbols: `sum(coefficient * product(atoms))`."""

    terms: tuple[tuple[Monomial, int], ...]

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            factors = "*".join(str(a) for a in monomial)
            size = abs(coefficient)
            body = str(size) if not monomial else factors if size == 1 else f"{size}*{factors}"
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {body}" if text else ("-" if sign == "-" else "") + body
        return text

    __repr__ = __str__

    def __add__(self, other: Dim) -> Dim:
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _combine(self, other, -1)

    def __rsub__(self, other: Dim) -> Dim:
        return _combine(other, self, -1)

    def __neg__(self) -> Dim:
        return _combine(0, self, -1)

    def __mul__(self, other: Dim) -> Dim:
        out: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                key = tuple(sorted(left + right))
                out[key] = out.get(key, 0) + a * b
        return _normal(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floor_div(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floor_div(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return remainder(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return remainder(other, self)


def symbol(name: str, low: int = 0, high: int | None = None) -> SymDim:
    """A named size; `low` and `high` are both included."""
    if high is not None and low > high:
        raise ShapeError(f"symbol {name} has an empty range [{low}, {high}]")
    return SymDim((((Symbol(name, low, high),), 1),))


def floor_div(left: Dim, right: Dim) -> Dim:
    exact = _exact_quotient(left, right)
    if exact is not None:
        return exact
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if isinstance(right, int):
        # (right*q + r) // right = q + r // right: the part that divides comes out.
        whole = {m: c // right for m, c in _terms(left) if c % right == 0}
        rest = {m: c for m, c in _terms(left) if c % right != 0}
        if whole:
            return _combine(_normal(whole), floor_div(_normal(rest), right), 1)
    return _atom(Function("//", left, right))


def remainder(left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if _exact_quotient(left, right) is not None:
        return 0
    return _atom(Function("%", left, right))


def dim_min(left: Dim, right: Dim) -> Dim:
    return _extreme("min", left, right)


def dim_max(left: Dim, right: Dim) -> Dim:
    return _extreme("max", left, right)


def product(dims: tuple[Dim, ...]) -> Dim:
    out: Dim = 1
    for d in dims:
        out = out * d
    return out


def bounds(dim: Dim) -> Range:
    """The least and the greatest value that a size can take."""
    if isinstance(dim, int):
        return dim, dim
    low = high = 0.0
    for monomial, coefficient in dim.terms:
        part: Range = (coefficient, coefficient)
        for atom in monomial:
            part = _times(part, _atom_bounds(atom))
        low, high = low + part[0], high + part[1]
    return low, high


def evaluate(dim: Dim, sizes: Mapping[str, int], made_up: bool = False) -> int:
    """The size when every symbol has the value given by its name.

    Values that are `made_up`, for an estimate, need not go together: a divisor of 0 counts as 1.
    """
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms:
        for atom in monomial:
            coefficient *= _atom_value(atom, sizes, made_up)
        total += coefficient
    return total


def symbols_of(dim: Dim) -> dict[str, Symbol]:
    """All symbols that a size depends on, by name."""
    found: dict[str, Symbol] = {}
    pending: list[Dim] = [dim]
    while pending:
        current = pending.pop()
        if isinstance(current, SymDim):
            for monomial, _ in current.terms:
                for atom in monomial:
                    if isinstance(atom, Symbol):
                        found[atom.name] = atom
                    else:
                        pending += (atom.left, atom.right)
    return found


def as_symbol(dim: Dim) -> Symbol | None:
    """The symbol itself when the size is nothing but one symbol."""
    if isinstance(dim, SymDim) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0]
    return None


def solve(dim: Dim, size: int, known: Mapping[str, int]) -> tuple[str, int] | None:
    """The one symbol (name, value) for which `dim` equals `size`, if it is linear in it."""
    if isinstance(dim, int):
        return None
    unknown, slope, rest = None, 0, 0
    for monomial, coefficient in dim.terms:
        term = SymDim(((monomial, coefficient),)) if monomial else coefficient
        free = [name for name in symbols_of(term) if name not in known]
        if not free:
            rest += evaluate(term, known)
        elif unknown in (None, free[0]) and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            unknown, slope = free[0], slope + coefficient
        else:
            return None
    if unknown is None or slope == 0 or (size - rest) % slope:
        return None
    return unknown, (size - rest) // slope


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    return dim.terms if isinstance(dim, SymDim) else (((), dim),)


def _normal(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    # Longer products first and the constant last, as a person writes it.
    kept.sort(key=lambda t: (-len(t[0]), [str(a) for a in t[0]]))
    return SymDim(tuple(kept))


def _combine(left: Dim, right: Dim, sign: int) -> Dim:
    out = dict(_terms(left))
    for monomial, coefficient in _terms(right):
        out[monomial] = out.get(monomial, 0) + sign * coefficient
    return _normal(out)


def _atom(atom: Atom) -> Dim:
    return SymDim((((atom,), 1),))


def _exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """`left / right` when it is a polynomial again; None when it is not, or not known to be."""
    if right == 0:
        raise ShapeError(f"size {left} divided by zero")
    if left == 0:
        return 0
    if left == right:
        return 1
    divisor = _terms(right)
    if len(divisor) != 1:
        first, leading = divisor[0]
        ratio = _divide_term(_terms(left)[0], (first, leading))
        if ratio is None:
            return None
        quotient = _normal(dict([ratio]))
        return quotient if quotient * right == left else None
    out: dict[Monomial, int] = {}
    for term in _terms(left):
        divided = _divide_term(term, divisor[0])
        if divided is None:
            return None
        out[divided[0]] = divided[1]
    return _normal(out)


def _divide_term(
    term: tuple[Monomial, int], by: tuple[Monomial, int]
) -> tuple[Monomial, int] | None:
    atoms = list(term[0])
    for atom in by[0]:
        if atom not in atoms:
            return None
        atoms.remove(atom)
    return (tuple(atoms), term[1] // by[1]) if term[1] % by[1] == 0 else None


def _extreme(kind: str, left: Dim, right: Dim) -> Dim:
    low, high = bounds(_combine(left, right, -1))
    if high <= 0:
        return left if kind == "min" else right
    if low >= 0:
        return right if kind == "min" else left
    return _atom(Function(kind, left, right))


def _times(a: Range, b: Range) -> Range:
    corners = [0.0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(corners), max(corners)


def _atom_bounds(atom: Atom) -> Range:
    if isinstance(atom, Symbol):
        return atom.low, inf if atom.high is None else atom.high
    left, right = bounds(atom.left), bounds(atom.right)
    if atom.kind == "min":
        return min(left[0], right[0]), min(left[1], right[1])
    if atom.kind == "max":
        return max(left[0], right[0]), max(left[1], right[1])
    if right[0] <= 0:  # a divisor that may be negative or zero bounds nothing
        return -inf, inf
    if atom.kind == "%":
        return 0, right[1] - 1
    corners = [_quotient(x, y) for x in left for y in right]
    return min(corners), max(corners)


def _quotient(x: float, y: float) -> float:
    if abs(x) == inf:
        return x
    return (0.0 if x >= 0 else -1.0) if y == inf else x // y


def _atom_value(atom: Atom, sizes: Mapping[str, int], made_up: bool) -> int:
    if isinstance(atom, Symbol):
        if atom.name not in sizes:
            raise ShapeError(
                f"size {atom.name} has no value", hint="no input's shape determines it"
            )
        return sizes[atom.name]
    left, right = evaluate(atom.left, sizes, made_up), evaluate(atom.right, sizes, made_up)
    if made_up and right == 0 and atom.kind in ("//", "%"):
        right = 1
    if atom.kind == "//":
        return left // right
    if atom.kind == "%":
        return left % right
    return min(left, right) if atom.kind == "min" else max(left, right)


def _bracket(dim: Dim, after: bool) -> str:
    """In brackets where it would be read apart: `2*n // 3`, but `3 // (2*n)` and `(-n) // 2`."""
    if isinstance(dim, int):
        return str(dim)
    monomial, coefficient = dim.terms[0]
    alone = len(dim.terms) == 1 and coefficient > 0
    if after:
        alone = alone and coefficient == 1 and len(monomial) == 1
    return str(dim) if alone else f"({dim})"
