"""Copies that swap two axes, found in loops and rendered as transposes of tiles.

Element by element, such a copy touches a line of the cache for each element: images to channels
last took 1.3 to 3.7 ns an element, and tiles turned in registers take 0.3 to 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cxx.words import C_TYPE, index_text, size_text
from glasshouse.lower.kernel.expr import Load, Var
from glasshouse.lower.kernel.index import Index, Loop
from glasshouse.lower.kernel.statement import For, Let, Ops, Store

LEAST = 8
"""Elements of both axes from which a tile is filled."""


@dataclass(frozen=True)
class Turned:
    """A copy whose `rows` lie side by side where it goes, and `columns` where it comes from."""

    around: tuple[Loop, ...]
    rows: Loop
    columns: Loop
    load: Load
    store: Store
    ops: Ops

    def line(self, first: str, count: str) -> str:
        """The call for `count` columns from `first` on."""
        held = {self.rows, self.columns}
        step, other = (
            self.load.index.coefficient(self.rows),
            self.store.index.coefficient(self.columns),
        )
        source = f"{self.load.buffer} + {_place(self.load.index, held)} + {first}"
        place = (
            f"{self.store.buffer} + {_place(self.store.index, held)} + {first} * {size_text(other)}"
        )
        kind, rows = C_TYPE[self.load.dtype], size_text(self.rows.extent)
        return (
            f"gh::transpose2d<{kind}>({rows}, {count}, {source}, {size_text(step)}, {place}, "
            f"{size_text(other)});"
        )


def _place(index: Index, held: set[Loop]) -> str:
    return index_text(index.without(*held))


def turned(nest: For) -> Turned | None:
    """The copy that a nest is, if it is one that swaps axes of elements of 2 or 4 bytes."""
    loops, body = [nest.loop], nest.body
    while len(body) == 1 and isinstance(body[0], For):
        if body[0].role.is_vector:
            return None
        loops.append(body[0].loop)
        body = body[0].body
    if len(loops) < 2 or len(body) != 2:
        return None
    let, store = body
    if not isinstance(let, Let) or not isinstance(store, Store) or not isinstance(let.value, Load):
        return None
    load, rows = let.value, loops[-1]
    if store.value != Var(let.name, let.dtype) or load.dtype is not store.dtype:
        return None
    if load.dtype.itemsize not in (2, 4) or not (load.index.is_affine and store.index.is_affine):
        return None
    if store.index.coefficient(rows) != 1 or load.index.coefficient(rows) in (0, 1):
        return None
    for columns in loops[:-1]:
        if load.index.coefficient(columns) == 1 and store.index.coefficient(columns) != 0:
            if not all(isinstance(x.extent, int) and x.extent >= LEAST for x in (rows, columns)):
                return None
            around = tuple(x for x in loops if x not in (rows, columns))
            return Turned(around, rows, columns, load, store, (*let.ops, *store.ops))
    return None
