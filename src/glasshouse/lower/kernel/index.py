"""Positions in tensors as index algebra: sums of loop variables times sizes.

An `Index` is affine over atoms: loop variables, and index expressions where nothing simpler will do
(a gathered index, a quotient that does not come out). Going back through a reshape divides an
index; where a loop variable straddles the divisor, the loop itself is split (`SplitLoop` is raised
and the nest built again), so that split and merged heads cost no divisions at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glasshouse.ir.dim import Dim, bounds, floor_div, remainder


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop variable that runs from 0 to `extent` - 1."""

    name: str
    extent: Dim


@dataclass(frozen=True, slots=True)
class Derived:
    """A position made of another one and a size n > 0.

    quotient and remainder: of an index that is never negative, by n. wrapped: modulo n, also where
    it is negative (the result is in 0 .. n - 1). clamped: the nearest of 0 .. n - 1. guarded: some
    place of 0 .. n - 1 where it lies outside, since what is read there is not used. reflected:
    mirrored at 0 and at n - 1, the border not repeated.
    """

    how: str
    index: Index
    size: Dim


@dataclass(frozen=True, slots=True)
class Checked:
    """An index from data: the integer variable `name`. Negative ones count from the end of `size`;
    one outside of -size .. size - 1 is reported as an error of the run, and 0 is used instead."""

    name: str
    size: Dim


Atom = Loop | Derived | Checked

QUOTIENT, REMAINDER, WRAPPED = "quotient", "remainder", "wrapped"
CLAMPED, GUARDED, REFLECTED = "clamped", "guarded", "reflected"
DERIVATIONS = (QUOTIENT, REMAINDER, WRAPPED, CLAMPED, GUARDED, REFLECTED)


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
        if not other.terms:
            return Index(self.terms, self.constant + other.constant)
        if not self.terms:
            return Index(other.terms, self.constant + other.constant)
        merged = dict(self.terms)
        for atom, coefficient in other.terms:
            merged[atom] = merged.get(atom, 0) + coefficient
        kept = tuple([(a, c) for a, c in merged.items() if c != 0])
        return Index(kept, self.constant + other.constant)

    def __mul__(self, factor: Dim) -> Index:
        if factor == 0:
            return ZERO
        if factor == 1:
            return self
        return Index(tuple([(a, c * factor) for a, c in self.terms]), self.constant * factor)

    def __neg__(self) -> Index:
        return self * -1

    def divmod(self, size: Dim) -> tuple[Index, Index]:
        """Quotient and remainder by `size`, for an index that is never negative."""
        if size == 1:
            return self, ZERO
        if size == 0:  # nothing lies there, so no element is ever asked for
            return ZERO, ZERO
        whole = tuple((a, floor_div(c, size)) for a, c in self.terms if remainder(c, size) == 0)
        rest = tuple((a, c) for a, c in self.terms if remainder(c, size) != 0)
        low = self.constant if remainder(self.constant, size) != 0 else 0
        left = Index(rest, low)
        if left.within(size):
            return Index(whole, floor_div(self.constant - low, size)), left
        for atom, coefficient in rest:
            self._ask_for_split(atom, coefficient, size)
        return of(Derived(QUOTIENT, self, size)), of(Derived(REMAINDER, self, size))

    def _ask_for_split(self, atom: Atom, coefficient: Dim, size: Dim) -> None:
        """If the loop runs over several multiples of `size`, split it at one."""
        if not isinstance(atom, Loop) or bounds(coefficient)[0] <= 0:  # backwards: there is no row
            return
        if remainder(size, coefficient) != 0:
            return
        inner = floor_div(size, coefficient)
        if inner != atom.extent and remainder(atom.extent, inner) == 0:
            raise SplitLoop(atom, inner)

    def within(self, size: Dim) -> bool:
        """Whether the index is surely less than `size` (and not negative)."""
        least: Dim = self.constant
        top: Dim = self.constant
        for atom, coefficient in self.terms:
            count = _count(atom)
            if count is None:
                return False
            if bounds(coefficient)[0] >= 0:
                top = top + (count - 1) * coefficient
            elif isinstance(coefficient, int):
                least = least + (count - 1) * coefficient
            else:
                return False
        return bounds(least)[0] >= 0 and bounds(size - top)[0] > 0

    def outside(self, size: Dim) -> bool:
        """Whether the index is surely negative, or not less than `size`."""
        top: Dim = self.constant
        for atom, coefficient in self.terms:
            if not isinstance(atom, Loop) or bounds(coefficient)[0] < 0:
                return False
            top = top + (atom.extent - 1) * coefficient
        return bounds(top)[1] < 0 or bounds(self.constant - size)[0] >= 0

    def coefficient(self, loop: Loop) -> Dim:
        for atom, coefficient in self.terms:
            if atom == loop:
                return coefficient
        return 0

    def step(self, loop: Loop) -> Dim | None:
        """How far apart neighbours along a loop lie; None where an index expression depends on it.
        Of variables with indices from data the statements say whether they do."""
        for atom, _ in self.terms:
            if isinstance(atom, Derived) and atom.index.depends_on(loop):
                return None
        return self.coefficient(loop)

    def without(self, *loops: Loop) -> Index:
        """The index where these loops are at 0."""
        return Index(tuple((a, c) for a, c in self.terms if a not in loops), self.constant)

    def at(self, loop: Loop, place: Index) -> Index:
        """The index where `loop` is at `place`."""
        factor = self.coefficient(loop)
        return self if factor == 0 else self.without(loop) + place * factor

    @property
    def is_affine(self) -> bool:
        """Whether it is made of loop variables alone."""
        return all(isinstance(atom, Loop) for atom, _ in self.terms)

    def depends_on(self, loop: Loop) -> bool:
        """Whether the position changes with the loop; what `Checked` variables depend on is said by
        the statements that compute them."""
        return any(a == loop for a in self.atoms())

    def atoms(self) -> Iterator[Atom]:
        """All atoms, those inside of index expressions among them."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, Derived):
                yield from atom.index.atoms()

    @property
    def inner_size(self) -> int:
        """How many atoms stand in or under its index expressions: 0 for an affine one."""
        if self.is_affine:
            return 0
        return sum(
            1 + (sum(1 for _ in a.index.atoms()) if isinstance(a, Derived) else 0)
            for a, _ in self.terms
            if not isinstance(a, Loop)
        )


def _count(atom: Atom) -> Dim | None:
    """How many values an atom may have, from 0 on; None: nobody knows."""
    if isinstance(atom, Loop):
        return atom.extent
    if isinstance(atom, Derived) and atom.how in (QUOTIENT, REFLECTED):
        return None
    return atom.size


def of(atom: Atom) -> Index:
    return Index(((atom, 1),))


ZERO = Index()


def derived(how: str, index: Index, size: Dim) -> Index:
    """A position brought into 0 .. `size` - 1: nothing to do for one that lies there, and of a
    single place there is only 0."""
    if size == 1:
        return ZERO
    turns: tuple[Dim, ...] = (0, size, -size) if how == WRAPPED else (0,)
    for turn in turns:
        if (index + turn).within(size):
            return index + turn
    return of(Derived(how, index, size))


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
    for axis in range(len(shape) - 1, 0, -1):
        position, low = position.divmod(shape[axis])
        out.append(low)
    if shape:
        out.append(position)
    return tuple(reversed(out))
