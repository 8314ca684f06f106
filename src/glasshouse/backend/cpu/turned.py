"""Copies that swap two axes, found in loops and rendered as transposes of tiles.

Element by element, such a copy touches a line of the cache for each element: images to channels
last took 1.3 to 3.7 ns an element, and tiles turned in registers take 0.3 to 1.0. One of the axes
may be reversed as well, as it is where an image is rotated.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cpu.runs import copy_in
from glasshouse.backend.cxx.words import index_text, size_text
from glasshouse.ir.dim import Dim, floor_div, remainder
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.index import Index, Loop
from glasshouse.lower.kernel.statement import For, Store

LEAST = 8
"""Elements of both axes from which a tile is filled."""
ITEM_TYPE = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
"""What a tile holds, by bytes: an element, or some that stay together, as a complex number's two
parts do."""


@dataclass(frozen=True)
class Turned:
    """A copy whose `rows` lie side by side where it goes, and `columns` where it comes from."""

    around: tuple[Loop, ...]
    rows: Loop
    columns: Loop
    items: tuple[Loop, ...]  # the loop over an item's elements, if it has several
    load: Load
    store: Store

    @property
    def run(self) -> int:
        return _size(self.items)

    def line(self, first: str, count: str) -> str:
        """The call for `count` columns from `first` on."""
        along = self.load.index.coefficient(self.columns)
        apart = self.store.index.coefficient(self.columns)
        step = floor_div(self.load.index.coefficient(self.rows), self.run)
        other = floor_div(apart, self.run)
        begin = first
        if along != self.run:  # backwards: from the last one on
            begin, other = f"({first} + {count} - 1)", -other
        kind = ITEM_TYPE[self.load.dtype.itemsize * self.run]
        source = f"{self.load.buffer} + {self._place(self.load.index)} + {begin} * "
        place = f"{self.store.buffer} + {self._place(self.store.index)} + {begin} * "
        return (
            f"gh::transpose2d({size_text(self.rows.extent)}, {count}, "
            f"(const {kind}*)({source}{size_text(along)}), {size_text(step)}, "
            f"({kind}*)({place}{size_text(apart)}), {size_text(other)});"
        )

    def _place(self, index: Index) -> str:
        return index_text(index.without(self.rows, self.columns, *self.items))


def turned(nest: For) -> Turned | None:
    """The copy that a nest is, if it is one that swaps axes of items of up to 8 bytes."""
    loops, body = [nest.loop], nest.body
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0].loop)
        body = body[0].body
    found = copy_in(body)
    if found is None or not isinstance(found[1], Load):
        return None
    _, load, store = found
    assert isinstance(load, Load), "asked above"
    if not (load.index.is_affine and store.index.is_affine):
        return None
    items: tuple[Loop, ...] = ()
    if load.index.coefficient(loops[-1]) == store.index.coefficient(loops[-1]) == 1:
        *loops, last = loops
        items = (last,)
    run = _size(items)
    if load.dtype.itemsize * run not in ITEM_TYPE or len(loops) < 2:
        return None
    rows = loops[-1]
    step = load.index.coefficient(rows)
    if store.index.coefficient(rows) != run or step in (0, run) or not _divides(run, step):
        return None
    for columns in loops[:-1]:
        other = store.index.coefficient(columns)
        if load.index.coefficient(columns) in (run, -run) and other != 0 and _divides(run, other):
            if not all(isinstance(x.extent, int) and x.extent >= LEAST for x in (rows, columns)):
                return None
            around = tuple(x for x in loops if x not in (rows, columns))
            return Turned(around, rows, columns, items, load, store)
    return None


def _size(items: tuple[Loop, ...]) -> int:
    """Elements of an item; 0: nobody knows."""
    size = items[0].extent if items else 1
    return size if isinstance(size, int) else 0


def _divides(run: int, step: Dim) -> bool:
    return remainder(step, run) == 0
