"""Scatters on GPUs by atomics on whole numbers, which no order of writers changes (`atomics.cuh`):
which of them suit, what memory they need, and the functions that they are."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cuda.routine import least, most, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, dim_max, product
from glasshouse.ir.dtype import DType, bool_, float16, float64, int64
from glasshouse.lower.kernel.statement import Scratch, Tile

ATOMICS = "atomics"
MOST_WRITERS = 1 << 22
"""Of a line: sums of float16 are 40 bits and as many more as log2 of them."""
SPARSE = 4
"""Elements of a result for each that comes, up to which all of them get a sum or a level."""
ENOUGH = 1 << 17
"""Threads that fill a chip; where there are more, each takes several writers."""


@dataclass(frozen=True)
class Writers:
    """Lines of n writers [before, n, inner], and the elements that they come to."""

    which: str
    """The C++ that says which places they name (`gh::RowsToPlaces`, `gh::ElementsAlong`)."""
    before: Dim
    n: Dim
    inner: Dim
    elements: Dim
    claims: str = ""
    """The same for rows as one element each, of which one writer owns a place."""
    places: Dim = 0

    @property
    def run(self) -> int:
        """Writers of a thread."""
        total, run = most(self.before * self.n * self.inner), 1
        while run < 8 and total >= 2 * run * ENOUGH:
            run *= 2
        return run


def suits(mode: str, dtype: DType, writers: Writers) -> bool:
    """Whether a scatter has whole numbers to meet in, and not too many of them."""
    if mode == "mul" or not most(writers.n) < MOST_WRITERS:
        return False
    if mode == "set":
        return True
    if mode == "add" and dtype in (float64, bool_):
        return False
    coming = SPARSE * least(writers.before * writers.n * writers.inner)
    return not isinstance(writers.elements, int) or writers.elements <= coming


def needed(mode: str, dtype: DType, writers: Writers) -> tuple[Scratch, ...]:
    return (Scratch(ATOMICS, _words(mode, dtype, writers) * 4, int64),)


def _words(mode: str, dtype: DType, writers: Writers) -> Dim:
    """Words of 32 bits: owners, levels, or sums and the largest behind them."""
    if mode == "set":
        return writers.places if writers.claims else writers.elements
    if mode == "add" and dtype.is_float:
        return writers.elements * 3
    return writers.elements * (2 if dtype.itemsize == 8 else 1)


def put_atomics(
    out: CudaText, tile: Tile, mode: str, writers: Writers, source: str, updates: str
) -> None:
    """The functions of a scatter; `source` is what stands there before, a null pointer for 0."""
    dtype, to = tile.operands[0].element.dtype, tile.writes[0][1]
    room = out.scratch(tile, ATOMICS)
    if mode == "set":
        _set(out, tile, writers, source, updates, f"(uint32_t*){room}")
    elif mode == "add" and dtype.is_float:
        sums = f"(uint64_t*){room}"
        tops = f"(uint32_t*)({sums} + {size_text(writers.elements)})"
        _clear(out, tile, room, _words(mode, dtype, writers))
        log = max(int(most(writers.n)) - 1, 0).bit_length()
        if dtype is not float16:
            _writers(out, tile, writers, f"note_tops<{writers.run}>", f"{updates}, {tops}")
        call = f"add_fixed<{log}, {writers.run}>"
        _writers(out, tile, writers, call, f"{updates}, {sums}, {tops}")
        _elements(out, tile, writers, f"end_fixed<{log}>", f"{source}, {sums}, {tops}, {to}")
    elif mode == "add":
        sums = f"({'uint64_t' if dtype.itemsize == 8 else 'uint32_t'}*){room}"
        _clear(out, tile, room, _words(mode, dtype, writers))
        _writers(out, tile, writers, f"add_whole<{writers.run}>", f"{updates}, {sums}")
        _elements(out, tile, writers, "end_whole", f"{source}, {sums}, {to}")
    else:
        kind, how = C_TYPE[dtype], f"gh::Meeting::{mode}"
        levels = f"(gh::Level<{kind}>*){room}"
        _elements(out, tile, writers, f"levels_of<{how}>", f"{source}, {levels}")
        call = f"raise_levels<{how}, {writers.run}>"
        _writers(out, tile, writers, call, f"{updates}, {levels}")
        _elements(out, tile, writers, f"end_levels<{how}>", f"{levels}, {to}")


def _set(
    out: CudaText, tile: Tile, writers: Writers, source: str, updates: str, owners: str
) -> None:
    to, words = tile.writes[0][1], size_text(_words("set", float64, writers))
    put_fill(out, tile, source, f"gh::clear_words({owners}, {words});")
    claims = writers
    if writers.claims:
        claims = Writers(writers.claims, 1, writers.n, 1, writers.places)
    _writers(out, tile, claims, f"claim<{claims.run}>", owners)
    place = "to_"
    if writers.claims:
        place = f"to_ / {size_text(writers.inner)} % {size_text(writers.places)}"
    owner = f"[&](int64_t to_) {{ return {owners} + {place}; }}"
    _writers(out, tile, writers, f"put_owned<{writers.run}>", f"{updates}, {owner}, {to}")


def put_fill(out: CudaText, tile: Tile, source: str, also: str = "") -> None:
    """What nobody comes to."""
    total, each = product(tile.shape), 256 * (16 // tile.operands[0].element.dtype.itemsize)
    with out.function((dim_max((total + (each - 1)) // each, 1), 1, 1), 256):
        if also:
            out.add(also, tile.ops)
        out.add(f"gh::fill_places({source}, {size_text(total)}, {tile.writes[0][1]});", tile.ops)


def _clear(out: CudaText, tile: Tile, room: str, words: Dim) -> None:
    with out.function(((words + 1023) // 1024, 1, 1), 256):
        out.add(f"gh::clear_words((uint32_t*){room}, {size_text(words)});", tile.ops)


def _writers(out: CudaText, tile: Tile, writers: Writers, call: str, given: str) -> None:
    """A function with a thread for each run of writers."""
    runs = (writers.n + (writers.run - 1)) // writers.run
    total = writers.before * runs * writers.inner
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        out.add(f"gh::{call}(ctx, e_, {writers.which}, {given});", tile.ops)


def _elements(out: CudaText, tile: Tile, writers: Writers, call: str, given: str) -> None:
    with out.function(((writers.elements + 255) // 256, 1, 1), 256):
        thread_each(out, writers.elements)
        out.add(f"gh::{call}(e_, {given});", tile.ops)
