"""Rows that a warp or a block keeps in registers while it goes over them several times.

A norm or a softmax reads its row for each of its folds and once more for its results. Where a row
is short, each thread loads its part once, all of it at once, and what is constant (scales of a
norm) before earlier kernels have ended. On an H200 a chain of small kernels waits for memory and
for each other, not for arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glasshouse.backend.cuda.elements import WIDEST, most_neighbours, together
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, index_text
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.index import Index, Loop, of
from glasshouse.lower.kernel.statement import Let, Statement

MOST_HELD = 32
"""Elements of a row that a thread keeps: 16 registers of half floats, 32 of float32."""
WARP_ROW = 32 * 24
"""Elements of a row up to which a warp keeps it: no barriers, and no other warp to wait for. Longer
ones it keeps where there are rows enough for all. On an H200, threads a row: 128 rows of 768 take
1.42 us with 32 and 1.60 with 64; 512 of 1024 take 1.84 with 32, 1.69 with 128; 16384 of 1024 take
17.9 with 32, 21.9 with 128."""

Pass = tuple[Loop, Sequence[Statement]]
"""A loop over a row, and what is computed for each of its elements."""


@dataclass
class HeldRows:
    """How the parts of a row lie in the registers of `size` threads: `turns` times `count`
    neighbours each, a variable for each load."""

    extent: int
    size: int
    count: int
    along: Loop
    loads: dict[tuple[str, Index], str] = field(default_factory=dict)  # where each is held
    types: dict[str, DType] = field(default_factory=dict)

    @property
    def turns(self) -> int:
        return -(-self.extent // (self.size * self.count))

    def _key(self, loop: Loop, load: Load) -> tuple[str, Index]:
        return load.buffer, load.index.at(loop, of(self.along))

    def add(self, loop: Loop, statements: Sequence[Statement]) -> None:
        for s in statements:
            if isinstance(s, Let) and isinstance(s.value, Load):
                load = s.value
                if together(load.index, loop, self.count) and _only_loops(load.index):
                    name = self.loads.setdefault(self._key(loop, load), f"held{len(self.loads)}_")
                    self.types[name] = load.dtype

    def where(self, loop: Loop, let: Let) -> str | None:
        """The neighbours of a load in the turn `h_`."""
        if not isinstance(let.value, Load):
            return None
        name = self.loads.get(self._key(loop, let.value))
        return None if name is None else f"{name}[h_]"

    def put(self, out: CudaText, constant: bool) -> None:
        """Load all that is constant, or all that is not."""
        known = {b.name for b in out.kernel.buffers if b.constant}
        known -= {form.buffer for form in out.kernel.forms}  # of which another form is there
        wanted = [
            (key, name) for key, name in self.loads.items()
            if (key[0] in known and set(key[1].atoms()) == {self.along}) == constant
        ]  # fmt: skip
        for _, name in wanted:
            out.add(f"gh::Vec<{C_TYPE[self.types[name]]}, {self.count}> {name}[{self.turns}];")
        if not wanted:
            return
        out.pragma("#pragma unroll")
        with out.block(f"for (int h_ = 0; h_ < {self.turns}; ++h_) {{", "}"):
            out.add(f"const int {self.along.name} = {self.first};")
            inside = "" if self.is_whole else f"if ({self.along.name} < {self.extent}) "
            for (buffer, index), name in wanted:
                place = f"{buffer} + {index_text(index)}"
                out.add(f"{inside}{name}[h_] = gh::load_vec<{self.count}>({place});")

    @property
    def first(self) -> str:
        """A thread's first element in the turn `h_`."""
        return f"(h_ * {self.size} + lane_) * {self.count}"

    @property
    def is_whole(self) -> bool:
        return self.extent % (self.size * self.count) == 0


def _only_loops(index: Index) -> bool:
    return all(isinstance(atom, Loop) for atom in index.atoms())


def held_rows(passes: Sequence[Pass], size: int) -> HeldRows | None:
    """The rows of several passes over the same extent, shared by `size` threads or by a warp; None
    where they are too long, or where nothing is read twice."""
    if len(passes) < 2:
        return None
    (along, _), *others = passes
    extent = along.extent
    if not isinstance(extent, int) or any(x.extent != extent for x, _ in others):
        return None
    size = 32 if extent <= WARP_ROW else size
    limit = min(WIDEST, 1 << max(extent // size, 1).bit_length() - 1)  # every thread has some
    count = min(most_neighbours(body, loop, limit) for loop, body in passes)
    if count == 1:
        return None
    made = HeldRows(extent, size, count, along)
    if made.turns * count > MOST_HELD:
        return None
    for loop, body in passes:
        made.add(loop, body)
    return made if made.loads else None
