"""Sorts and the top k on GPUs, and items in order for whoever wants them (`order.cuh`)."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cuda.routine import CudaRoutine, most, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import int64
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Ops, Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

ROOM = 32 << 10
"""Bytes of shared memory for a run: what a block has without asking for more."""
LEAST_RUN, MOST_THREADS = 64, 1024
FEW = 64
"""Elements of a line up to which each is compared with all others, in one step."""
MOST_ITEMS = 1 << 28
"""Of all lines: 4 GB of workspace, for whole numbers and floats of 32 bits."""
HALVES = "items", "others"
"""Scratch between which items go back and forth as runs are joined."""


@dataclass(frozen=True)
class Lines:
    """Lines of items that are put in order."""

    count: Dim
    n: Dim
    wide: bool  # keys of 64 bits

    @property
    def run(self) -> int:
        """Items that a block orders: a power of two."""
        largest = ROOM // self.item
        run = LEAST_RUN
        while run < largest and run < most(self.n):
            run *= 2
        return run

    @property
    def item(self) -> int:
        """Bytes of an item."""
        return 16 if self.wide else 8

    @property
    def key(self) -> str:
        return "uint64_t" if self.wide else "uint32_t"

    @property
    def runs(self) -> Dim:
        return (self.n + (self.run - 1)) // self.run

    @property
    def joins(self) -> int:
        """How often runs are joined, two by two."""
        return max(int(-(-most(self.n) // self.run)) - 1, 0).bit_length()

    def check(self, name: str) -> None:
        """Refuse what is too much, or may be."""
        if not most(self.count * self.n) <= MOST_ITEMS:
            raise Unsupported(f"{name} puts too many elements in order here, or nobody knows how")

    def items(self, buffer: str) -> str:
        return f"gh::Items<{self.key}>{{(gh::Item<{self.key}>*){buffer}, {size_text(self.n)}}}"

    def scratch(self, halves: int) -> tuple[Scratch, ...]:
        size = self.count * self.n * self.item
        return tuple(Scratch(name, size, int64) for name in HALVES[:halves])


def put_run(out: CudaText, ops: Ops, lines: Lines, source: str, taker: str) -> None:
    """Each run of each line in order, in shared memory."""
    threads = min(lines.run // 2, MOST_THREADS)
    with out.function((lines.count * lines.runs, 1, 1), threads):
        call = f"gh::order_run<{lines.run}, {threads}>"
        out.add(f"{call}({size_text(lines.n)}, {source}, {taker});", ops)


def put_order(out: CudaText, tile: Tile, lines: Lines, source: str, taker: str = "") -> str:
    """Lines in order, given to a taker; without one, left in the scratch that is named."""
    names = [out.scratch(tile, name) for name in HALVES]
    steps = lines.joins
    last = taker or lines.items(names[steps % 2])
    put_run(out, tile.ops, lines, source, last if not steps else lines.items(names[0]))
    for step in range(steps):
        total = lines.count * lines.n
        to = last if step == steps - 1 else lines.items(names[(step + 1) % 2])
        with out.function(((total + 255) // 256, 1, 1), 256):
            thread_each(out, total)
            length = f"(int64_t){lines.run << step}"
            given = f"e_, {length}, {lines.items(names[step % 2])}, {to}"
            out.add(f"gh::join_runs({given});", tile.ops)
    return names[steps % 2]


# ------------------------------------------------------------------------------ sorts and the top k
def order(builder: KernelBuilder, node: Node) -> None:
    """Add a sort or the top k, from memory to memory."""
    shape, dtype = node.inputs[0].type.shape, node.inputs[0].type.dtype
    _lines(shape, node.attrs["axis"], dtype.itemsize)[0].check(node.op.name)
    operand = whole(builder, node.inputs[0])
    add_tile(builder, node, node.op.name, [operand], writes=write_all(builder, node))


def _lines(shape: Shape, axis: int, itemsize: int) -> tuple[Lines, Dim]:
    """Lines of a value, and how far apart their elements lie."""
    if not shape:
        return Lines(1, 1, itemsize == 8), 1
    at = axis_of(axis, len(shape))
    inner = product(shape[at + 1 :])
    return Lines(product(shape[:at]) * inner, shape[at], itemsize == 8), inner


def _firsts(lines: Lines, k: int) -> list[Lines]:
    """Lines of which the first k of each run are kept, one after the other; the last has one run.
    None where that leaves too many."""
    if not 0 < k <= lines.run // 4:
        return []
    found = [lines]
    while found[-1].joins:
        found.append(Lines(lines.count, found[-1].runs * k, lines.wide))
    return found


def _described(tile: Tile) -> tuple[Lines, Dim, Dim]:
    """Lines, the distance of their elements, and how many of each are wanted."""
    (x,) = tile.operands
    lines, inner = _lines(x.shape, tile.attr("axis"), x.element.dtype.itemsize)
    return lines, inner, lines.n if tile.op == "sort" else tile.attr("k")


def _chosen(tile: Tile) -> list[Lines]:
    k = None if tile.op == "sort" else tile.attr("k")
    return _firsts(_described(tile)[0], k) if isinstance(k, int) else []


def _needs(tile: Tile) -> Needs:
    lines, _, _ = _described(tile)
    chosen = _chosen(tile)
    if most(lines.n) <= FEW or not lines.joins:
        return (), ()
    if chosen:
        rooms = zip(HALVES, chosen[1:], strict=False)  # those that follow are smaller
        return (), tuple(Scratch(name, x.count * x.n * x.item, int64) for name, x in rooms)
    return (), lines.scratch(min(lines.joins, 2))


def _order(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    lines, inner, k = _described(tile)
    descending = tile.attr("descending" if tile.op == "sort" else "largest")
    flag, source = "true" if descending else "false", view(x).buffer
    n, apart, wanted = (size_text(d) for d in (lines.n, inner, k))
    places = ", ".join(buffer for _, buffer in tile.writes)
    if most(lines.n) <= FEW:
        total = lines.count * lines.n
        with out.function(((total + 255) // 256, 1, 1), 256):
            thread_each(out, total)
            given = f"e_, {source}, {n}, {apart}, {wanted}, {flag}"
            out.add(f"gh::rank_element({given}, {places});", tile.ops)
        return
    kind = C_TYPE[x.element.dtype]
    elements = f"gh::Elements<{kind}>{{{source}, {n}, {apart}, {flag}}}"
    taker = f"gh::Ordered<{kind}>{{{elements}, {wanted}, {places}}}"
    chosen = _chosen(tile)
    if len(chosen) < 2:
        put_order(out, tile, lines, elements, taker)
        return
    given = elements
    for number, part in enumerate(chosen[:-1]):
        name = out.scratch(tile, HALVES[number % 2])
        room = f"(gh::Item<{lines.key}>*){name}"
        kept = f"gh::Firsts<{part.run}, {lines.key}>{{{room}, {wanted}, {size_text(part.runs)}}}"
        put_run(out, tile.ops, part, given, kept)
        given = chosen[number + 1].items(name)
    put_run(out, tile.ops, chosen[-1], given, taker)


ROUTINES = {"sort": CudaRoutine(_order, _needs), "topk": CudaRoutine(_order, _needs)}
