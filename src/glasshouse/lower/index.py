"""Decides how positions in tensors are computed: sums of loop variables times sizes.

An `Index` is affine over atoms: loop variables, and computed C++ expressions where nothing simpler
will do (a gathered index, a quotient that does not come out). Going back through a reshape divides
an index; where a loop variable straddles the divisor, the loop itself is split (`SplitLoop` is
raised and the nest built again), so that split and merged heads cost no divisions at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.ir.dim import Dim, bounds, floor_div, remainder
from glasshouse.lower.cxx import size_text


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop variable that runs from 0 to `extent` - 1."""

    name: str
    extent: Dim


@dataclass(frozen=True, slots=True)
class Computed:
    """An index that only the running code knows, as a C++ expression of type int64_t."""

    text: str


Atom = Loop | Computed


class SplitLoop(Exception):
    """A loop must become two, the inner one of this extent; the nest is then built again."""

    def __init__(self, loop: Loop, inner: Dim) -> None:
        super().__init__(loop.name)
        self.loop = loop
        self.inner = inner


@dataclass(frozen=True, slots=True)
class Index:
    """`sum(atom * coefficient) + constant`."""

    terms: tuple[tuple[Atom, Dim], ...] = ()
    constant: Dim = 0

    def __add__(self, other: Index | Dim) -> Index:
        if not isinstance(other, Index):
            return Index(self.terms, self.constant + other)
        merged = dict(self.terms)
        for atom, coefficient in other.terms:
            merged[atom] = merged.get(atom, 0) + coefficient
        kept = tuple((a, c) for a, c in merged.items() if c != 0)
        return Index(kept, self.constant + other.constant)

    def __mul__(self, factor: Dim) -> Index:
        if factor == 0:
            return Index()
        return Index(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)

    def __neg__(self) -> Index:
        return self * -1

    def divmod(self, size: Dim) -> tuple[Index, Index]:
        """Quotient and remainder by `size`, for an index that is never negative."""
        if size == 1:
            return self, Index()
        whole = tuple((a, floor_div(c, size)) for a, c in self.terms if remainder(c, size) == 0)
        rest = tuple((a, c) for a, c in self.terms if remainder(c, size) != 0)
        low = self.constant if remainder(self.constant, size) != 0 else 0
        left = Index(rest, low)
        if left.within(size):
            return Index(whole, floor_div(self.constant - low, size)), left
        for atom, coefficient in rest:
            self._ask_for_split(atom, coefficient, size)
        text = self.text()
        divisor = size_text(size)
        return of(Computed(f"(({text}) / {divisor})")), of(Computed(f"(({text}) % {divisor})"))

    def _ask_for_split(self, atom: Atom, coefficient: Dim, size: Dim) -> None:
        """If the loop runs over several multiples of `size`, split it at one."""
        if not isinstance(atom, Loop) or remainder(size, coefficient) != 0:
            return
        inner = floor_div(size, coefficient)
        if inner != atom.extent and remainder(atom.extent, inner) == 0:
            raise SplitLoop(atom, inner)

    def within(self, size: Dim) -> bool:
        """Whether the index is surely less than `size` (and not negative)."""
        top: Dim = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, Computed) or bounds(coefficient)[0] < 0:
                return False
            top = top + (atom.extent - 1) * coefficient
        return bounds(self.constant)[0] >= 0 and bounds(size - top)[0] > 0

    def coefficient(self, loop: Loop) -> Dim:
        return dict(self.terms).get(loop, 0)

    def depends_on(self, loop: Loop) -> bool:
        """Whether the value changes with the loop; computed atoms name the loops in their text."""
        return any(
            a == loop or (isinstance(a, Computed) and loop.name in a.text) for a, _ in self.terms
        )

    @property
    def computed_letters(self) -> int:
        """How much text it takes beyond loop variables."""
        return sum(len(a.text) for a, _ in self.terms if isinstance(a, Computed))

    def text(self) -> str:
        """The index as a C++ expression."""
        parts = []
        for atom, coefficient in self.terms:
            name = atom.name if isinstance(atom, Loop) else atom.text
            parts.append(name if coefficient == 1 else f"{name} * {size_text(coefficient)}")
        if self.constant != 0 or not parts:
            parts.append(size_text(self.constant))
        return " + ".join(parts)


def of(atom: Atom) -> Index:
    return Index(((atom, 1),))


ZERO = Index()


def strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Row-major strides, in elements."""
    out: list[Dim] = []
    step: Dim = 1
    for size in reversed(shape):
        out.append(step)
        step = step * size
    return tuple(reversed(out))


def offset(index: tuple[Index, ...], shape: tuple[Dim, ...]) -> Index:
    """The position in a row-major buffer."""
    total = ZERO
    for one, step in zip(index, strides(shape), strict=True):
        total = total + one * step
    return total


def delinearized(position: Index, shape: tuple[Dim, ...]) -> tuple[Index, ...]:
    """The index of a position in a row-major buffer of this shape."""
    out: list[Index] = []
    for axis, size in reversed(list(enumerate(shape))):
        if axis == 0:
            out.append(position)
        else:
            position, low = position.divmod(size)
            out.append(low)
    return tuple(reversed(out))
