"""Places from data that stay the same along a fold, checked once before it.

A check may report a fault, which keeps the compiler from vectors, and every turn pays for it:
distances to 64 rows of a table for each of 256 queries, 64 complex numbers each, took 24 ms inside
of one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from glasshouse.backend.cxx.words import index_text
from glasshouse.ir.dim import bounds
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.index import Atom, Checked, Index, Loop, of
from glasshouse.lower.kernel.statement import Fold, Let


def checked_before(fold: Fold, fresh: Callable[[str], str]) -> tuple[list[str], Fold]:
    """Lines that check the places, and the fold that reads there; none where it may have no turn:
    what is not read is not checked."""
    if any(bounds(loop.extent)[0] < 1 for loop in fold.loops):
        return [], fold
    made = {let.name for let in fold.body}
    names: dict[Checked, str] = {}

    def known(atom: Atom) -> Atom:
        if not isinstance(atom, Checked) or atom.name in made:
            return atom
        if atom not in names:
            names[atom] = fresh("at")
        return Loop(names[atom], atom.size)

    def read(let: Let) -> Let:
        if not isinstance(let.value, Load):
            return let
        index = let.value.index
        terms = tuple((known(atom), coefficient) for atom, coefficient in index.terms)
        return replace(let, value=replace(let.value, index=Index(terms, index.constant)))

    body = tuple(map(read, fold.body))
    lines = [f"const int64_t {name} = {index_text(of(atom))};" for atom, name in names.items()]
    return lines, replace(fold, body=body) if lines else fold
