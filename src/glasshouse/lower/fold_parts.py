"""Long folds for few rows, in parts: a nest computes each part, the next one joins them, and what
reads the fold reads what was joined.

A GPU shares a row among the threads of one block. The statistics of a batch norm are folds over
images and pixels for 64 to 512 channels, so few blocks would read all of an image: 20 times slower
than memory hands it over. Parts are joined in one order, so results are the same in every run.
Parts of a sum are float64: rounded to float32, 64 parts of a sum of 20,000 terms lost four bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import pairwise
from math import gcd, prod
from typing import Any

from glasshouse.ir.dim import Dim, floor_div
from glasshouse.ir.dtype import NARROW, DType, float32, float64
from glasshouse.lower.kernel.expr import Apply, Expr, Load, Var
from glasshouse.lower.kernel.index import ZERO, Derived, Index, Loop, of
from glasshouse.lower.kernel.queries import expressions, loads, simple, variables
from glasshouse.lower.kernel.statement import Fold, For, Let, Role, Statement, Store
from glasshouse.lower.target import Teams

LONG, LONG_COLUMN, LEAST = 16384, 1024, 256
"""Terms from which a fold is long, one of rows that are neighbours, and that a part has at least.
Rows of layer norms are shorter, and threads hold them in registers from pass to pass."""
ENOUGH = 1 << 18
"""Elements from which two more functions are worth their start."""
VERY_LONG_COLUMN, FEW = 4096, 1 << 16
"""Terms of rows that are neighbours from which fewer elements are enough: 64 threads share such a
row, so each would wait for memory 64 times, one after the other."""
SUPPOSED = 16
"""Turns of a loop whose extent is a symbol, as far as it decides whether a fold is long."""
_TYPES = (float32, float64, *NARROW)
_OPS = ("sum", "prod", "max", "min")


@dataclass
class FoldParts:
    """Computes the folds of a kernel's nests in parts; equal ones once."""

    teams: Teams
    temporary: Callable[[DType, int], str]
    """A new buffer for so many elements of a type."""
    _joined: dict[str, str] = field(default_factory=dict)  # what equal folds were joined to

    def split(self, statements: Sequence[Statement]) -> list[Statement]:
        """A nest, or several in its place."""
        chain = _chain_of(statements) if self.teams.threads else None
        if chain is None:
            return list(statements)
        lets: list[Let | Fold] = list(chain.before)
        made: list[Statement] = []
        for s in chain.body:
            if isinstance(s, Fold) and s.loops:
                cut = self._cut(s, chain.outer)
                if cut is None:
                    return list(statements)
                lets += self._joined_fold(cut, lets, chain, made)
            elif isinstance(s, Store):
                continue
            else:
                lets.append(s)
        stores = [s for s in chain.body if isinstance(s, Store)]
        if stores:
            made += _nest(chain.outer, [*_needed(lets, stores), *stores])
        if chain.inside:
            loops = _as_stored((*chain.outer, *chain.inner), chain.inside)
            made += _nest(loops, [*_needed(lets, chain.inside), *chain.inside])
        return made

    def _joined_fold(
        self, cut: _Cut, lets: Sequence[Let | Fold], chain: _Chain, made: list[Statement]
    ) -> list[Let | Fold]:
        """What stands for a fold, behind the nests that it needs: its parts, joined on the spot
        where nothing but stores follows, or before."""
        fold, outer = cut.fold, chain.outer
        needed = _needed(lets, [fold])
        key = _key(needed, fold, (*cut.parts, *outer))
        if key not in self._joined:
            rows = _turns(outer)
            parts = self.temporary(fold.dtype, cut.count * rows)
            place, found = _flat((*cut.parts, *outer)), Var(fold.name, fold.dtype)
            store = Store(parts, place, found, fold.dtype, fold.ops)
            made += _nest((*cut.parts, *outer), [*needed, fold, store])
            join = _join(cut, outer, parts)
            value = _cast(Var(join.name, join.dtype), cut.held)
            if not chain.inside and sum(isinstance(s, Fold) for s in chain.body) == 1:
                return [join, Let(fold.name, cut.dtype, value, fold.ops)]
            whole = self._joined[key] = self.temporary(cut.held, rows)
            made += _nest(outer, [join, Store(whole, _flat(outer), value, cut.held, fold.ops)])
        at = Load(self._joined[key], _flat(outer), cut.held)
        return [Let(fold.name, cut.dtype, at, fold.ops)]

    def _cut(self, fold: Fold, outer: Sequence[Loop]) -> _Cut | None:
        """A fold with its outermost loops taken out, as many turns as keep the target busy; of
        those behind the last one whose extent is a symbol (images of a batch)."""
        free = [n for n, x in enumerate(fold.loops) if not isinstance(x.extent, int)]
        own = _factor(fold.loops[free[-1]].extent) if free else 1
        lead = fold.loops[: free[-1] + (own == 1)] if free else ()
        loops = fold.loops[len(lead) : len(lead) + 1] if own > 1 else fold.loops[len(lead) :]
        behind = fold.loops[len(lead) + len(loops) :]
        extents = [_factor(x.extent) for x in loops]
        rows = _turns(outer)
        terms = prod(extents) * _turns([*lead, *behind]) * SUPPOSED ** len(free)
        known = bool(extents) and fold.dtype in _TYPES and fold.op in _OPS
        places = [x.index for let in fold.body for x in loads(let.value)]
        near = bool(outer) and any(x.coefficient(outer[-1]) == 1 for x in places)
        enough = FEW if near and terms >= VERY_LONG_COLUMN else ENOUGH
        if not known or terms < (LONG_COLUMN if near else LONG) or rows * terms < enough:
            return None
        wanted = self.teams.parts(rows, near)
        most = min(terms // LEAST, 8 * wanted)
        ways = [
            (prod(extents[:depth]) * count, depth, count)
            for depth, extent in enumerate(extents)
            for count in range(1, min(extent, most) + 1)
            if extent % count == 0 and 1 < prod(extents[:depth]) * count <= most
        ]
        if wanted == 1 or not ways:
            return None
        count, depth, turns = min((w for w in ways if w[0] >= wanted), default=max(ways))
        loop = loops[depth]
        part = Loop(f"{loop.name}o_", turns)
        rest = Loop(f"{loop.name}i_", floor_div(loop.extent, turns))
        place = of(part) * rest.extent + of(rest)
        held = float32 if fold.dtype in NARROW else fold.dtype
        wide = float64 if fold.op == "sum" else held
        inner = replace(
            fold,
            dtype=wide,
            loops=(*lead, rest, *loops[depth + 1 :], *behind),
            body=_with(fold.body, loop, place),
            element=_cast(_with(fold.element, loop, place), wide),
        )
        return _Cut(inner, (*loops[:depth], part), count, fold.dtype, held)


@dataclass(frozen=True)
class _Cut:
    """A fold over a part, the loops over parts, and how many there are; the type of the whole, and
    that in which it is held (narrow floats are held as float32)."""

    fold: Fold
    parts: tuple[Loop, ...]
    count: int
    dtype: DType
    held: DType


@dataclass(frozen=True)
class _Chain:
    """A nest whose folds all stand in one body: loops around it, what stands before, the body, the
    loops inside and what stands in them."""

    outer: tuple[Loop, ...]
    before: tuple[Let, ...]
    body: tuple[Let | Fold | Store, ...]
    inner: tuple[Loop, ...]
    inside: tuple[Let | Store, ...]


def _chain_of(statements: Sequence[Statement]) -> _Chain | None:
    loops: list[Loop] = []
    bodies: list[tuple[Statement, ...]] = []
    here = tuple(statements)
    while here and isinstance(here[-1], For):
        bodies.append(here[:-1])
        loops.append(here[-1].loop)
        here = here[-1].body
    bodies.append(here)
    folding = [n for n, b in enumerate(bodies) if any(isinstance(s, Fold) and s.loops for s in b)]
    if len(folding) != 1:
        return None
    (level,) = folding
    before = [s for body in bodies[:level] for s in body if isinstance(s, Let)]
    body = [s for s in bodies[level] if isinstance(s, (Let, Fold, Store))]
    inside = [s for b in bodies[level + 1 :] for s in b if isinstance(s, (Let, Store))]
    outer = tuple(loops[:level])
    if len(before) + len(body) + len(inside) != sum(map(len, bodies)):
        return None
    if not all(isinstance(x.extent, int) for x in outer):
        return None
    return _Chain(outer, tuple(before), tuple(body), tuple(loops[level:]), tuple(inside))


def _join(cut: _Cut, outer: Sequence[Loop], parts: str) -> Fold:
    """The fold over the parts of each row. Its name is its own: without loops around, all names of
    a kernel stand beside each other."""
    fold, name = cut.fold, f"{cut.fold.name}part_"
    loop = Loop(f"p{fold.name}", cut.count)
    rows = _turns(outer)
    part = Load(parts, of(loop) * rows + _flat(outer), fold.dtype)
    return Fold(
        f"{fold.name}all_", fold.op, fold.dtype, (loop,), Role.SERIAL,
        (Let(name, fold.dtype, part, fold.ops),), Var(name, fold.dtype), fold.ops,
    )  # fmt: skip


def _cast(value: Expr, dtype: DType) -> Expr:
    if value.dtype is dtype:
        return value
    return Apply("cast", (value,), dtype, (("dtype", dtype),))


def _nest(loops: Sequence[Loop], body: Sequence[Statement]) -> list[Statement]:
    made = list(body)
    for loop in reversed(loops):
        made = [For(loop, Role.SERIAL, tuple(made))]
    return made


def _factor(extent: Dim) -> int:
    """A number that the extent is a multiple of: pixels times a symbol of images."""
    return extent if isinstance(extent, int) else gcd(*(int(c) for _, c in extent.terms))


def _turns(loops: Sequence[Loop]) -> int:
    """Of loops whose extents are numbers."""
    return prod([x.extent for x in loops if isinstance(x.extent, int)])


def _flat(loops: Sequence[Loop]) -> Index:
    """The number of a turn of loops, the innermost the fastest."""
    index = ZERO
    for loop in loops:
        index = index * loop.extent + of(loop)
    return index


def _as_stored(loops: tuple[Loop, ...], body: Sequence[Statement]) -> tuple[Loop, ...]:
    """Loops without folds, in the order in which results lie in memory."""
    index = next(s.index for s in reversed(body) if isinstance(s, Store))
    steps = [index.coefficient(x) for x in loops]
    known = [s for s in steps if isinstance(s, int) and s > 0]
    if len(known) < len(steps):
        return loops
    order = sorted(range(len(loops)), key=lambda i: -known[i])
    return loops if all(a < b for a, b in pairwise(order)) else tuple(loops[i] for i in order)


def _needed(lets: Sequence[Let | Fold], readers: Sequence[Statement]) -> list[Let | Fold]:
    """Those that others read, with what they read themselves, in order."""
    out: list[Let | Fold] = []
    wanted = _read(readers)
    for s in reversed(lets):
        if s.name in wanted:
            out.append(s)
            wanted |= _read([s])
    return out[::-1]


def _read(statements: Sequence[Statement]) -> set[str]:
    return {v for s in simple(statements) for e in expressions(s) for v in variables(e)}


def _key(needed: Sequence[Statement], fold: Fold, loops: Sequence[Loop]) -> str:
    """The same for folds that differ in the names of loops and variables alone."""
    own = [*(x.name for x in (*loops, *fold.loops)), *(s.name for s in fold.body), fold.name]
    own += [s.name for s in needed if isinstance(s, (Let, Fold))]
    names = {name: f"n{number}" for number, name in enumerate(own)}
    text = repr((needed, fold, loops))
    return re.sub(r"\w+", lambda found: names.get(found[0], found[0]), text)


def _with(part: Any, loop: Loop, place: Index) -> Any:
    """A part of a statement where a loop is at a place."""
    if isinstance(part, Index):
        index = Index((), part.constant)
        for atom, step in part.terms:
            if isinstance(atom, Derived):
                atom = replace(atom, index=_with(atom.index, loop, place))
            index = index + (place if atom == loop else of(atom)) * step
        return index
    if isinstance(part, tuple):
        return tuple(_with(x, loop, place) for x in part)
    if is_dataclass(part) and not isinstance(part, (type, DType, Loop)):
        return replace(part, **{f.name: _with(getattr(part, f.name), loop, place) for f in
                                fields(part)})  # fmt: skip
    return part
