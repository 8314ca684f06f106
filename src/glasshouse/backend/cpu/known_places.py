"""Places from data that stay the same along a loop, checked once before it.

A check may report a fault, which keeps the compiler from vectors, and every turn pays for it:
distances to 64 rows of a table for each of 256 queries, 64 complex numbers each, took 24 ms inside
of one kernel. Where it stands inside of quotients (rows that are turned), those wait for it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from glasshouse.backend.cxx.words import index_text
from glasshouse.ir.dim import bounds
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.index import Atom, Checked, Derived, Index, Loop, of
from glasshouse.lower.kernel.statement import Fold, Let, Statement


def checked_before(
    body: Sequence[Statement], loops: Sequence[Loop], fresh: Callable[[str], str]
) -> tuple[list[str], tuple[Statement, ...]]:
    """Lines that check the places, and the body that reads there; none where the loops may have no
    turn: what is not read is not checked."""
    if any(bounds(loop.extent)[0] < 1 for loop in loops):
        return [], tuple(body)
    made = {s.name for s in body if isinstance(s, (Let, Fold))}
    names: dict[Checked, str] = {}

    def known(atom: Atom) -> Atom:
        if isinstance(atom, Derived):
            return replace(atom, index=place(atom.index))
        if not isinstance(atom, Checked) or atom.name in made:
            return atom
        if atom not in names:
            names[atom] = fresh("at")
        return Loop(names[atom], atom.size)

    def place(index: Index) -> Index:
        terms = tuple((known(atom), coefficient) for atom, coefficient in index.terms)
        return Index(terms, index.constant)

    def read(s: Statement) -> Statement:
        if not isinstance(s, Let) or not isinstance(s.value, Load):
            return s
        return replace(s, value=replace(s.value, index=place(s.value.index)))

    reading = tuple(map(read, body))
    lines = [f"const int64_t {name} = {index_text(of(atom))};" for atom, name in names.items()]
    return lines, reading
