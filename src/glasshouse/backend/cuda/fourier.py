"""Fourier transforms on GPUs: lines in the shared memory of blocks (`fourier.cuh`)."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cuda.routine import CudaRoutine, most
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
"""Factors of a length that have a kernel; a line with another one is PyTorch's."""
ROOM = 99 << 10
"""Bytes of shared memory that every chip from sm_80 on gives a block."""
BLOCKS = 2 * 132
"""That keep a GPU busy: below, a block takes fewer lines."""
ELEMENTS, EACH = 2048, 8
"""Pairs that a block takes at a time, of several lines where these are short, and a thread's."""
MOST_ROUNDS = 16


@dataclass(frozen=True)
class Transform:
    """A transform of many lines, and how a block goes about them."""

    n: int
    form: str
    inverse: bool
    dtype: DType
    count: Dim
    inner: Dim

    @property
    def length(self) -> int:
        """Of what is transformed: an even number of real elements is half as many pairs."""
        return self.n if self.form == "complex" or self.n % 2 else self.n // 2

    @property
    def radices(self) -> tuple[int, ...]:
        """Factors of the length; none if there is another one."""
        left, found = self.length, []
        for radix in RADICES:
            while left % radix == 0:
                found.append(radix)
                left //= radix
        return tuple(found or [1]) if left == 1 else ()

    @property
    def beside(self) -> bool:
        """Whether neighbours across lines lie together."""
        return most(self.inner) >= 4

    @property
    def at_a_time(self) -> int:
        """Neighbouring lines of a block."""
        fewest = 4 if self.beside else 1
        many = 32 if self.beside else 64
        while many > fewest and (many * self.length > ELEMENTS or most(self.count) < many * BLOCKS):
            many //= 2
        while many > 1 and self._bytes(many, padded=True) > ROOM:
            many //= 2
        return many

    @property
    def threads(self) -> int:
        elements = self.at_a_time * self.length
        return min(max(-(-elements // (32 * EACH)) * 32, 32), 512)

    @property
    def rounds(self) -> int:
        """How often a block takes lines: one table of turns serves all of them."""
        blocks = most(self.count) / self.at_a_time
        return int(min(max(blocks // (4 * BLOCKS), 1), MOST_ROUNDS))

    @property
    def padded(self) -> bool:
        return not self.beside and self._bytes(self.at_a_time, padded=True) <= ROOM

    @property
    def shared(self) -> int:
        return self._bytes(self.at_a_time, self.padded)

    def _bytes(self, many: int, padded: bool) -> int:
        pair = 2 * self.dtype.itemsize
        line = self.length + (self.length * pair // 128 if padded else 0)
        return (line * many + (self.n if self.n % 2 else self.n // 2)) * pair

    @property
    def fits(self) -> bool:
        return bool(self.radices) and self.shared <= ROOM


def _lines(shape: Shape, dtype: DType, axis: int, form: str, inverse: bool, size: int) -> Transform:
    lines = shape if form == "real" else shape[:-1]
    at = axis_of(axis, len(lines))
    n = size if form == "half" else lines[at]
    assert isinstance(n, int), "a transform's length is known"
    before, inner = product(lines[:at]), product(lines[at + 1 :])
    return Transform(n, form, inverse or form == "half", dtype, before * inner, inner)


def _lines_of(node: Node) -> Transform:
    x = node.inputs[0].type
    return _lines(x.shape, x.dtype, **node.attrs)


def fourier(builder: KernelBuilder, node: Node) -> None:
    """Add a transform, from memory to memory."""
    if no_transform(node):
        raise Unsupported(f"no transform of lines of {_lines_of(node).n}")
    operands = [whole(builder, node.inputs[0])]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


def no_transform(node: Node) -> bool:
    """Whether a node is a transform without a kernel: a large prime factor, or a line that does not
    fit into shared memory."""
    return node.op.name == "fft" and not _lines_of(node).fits


# ------------------------------------------------------------------------------------ rendering
def _fft(out: CudaText, tile: Tile) -> None:
    (x,) = tile.operands
    given = {name: tile.attr(name) for name in ("axis", "form", "inverse", "size")}
    lines = _lines(x.shape, tile.dtype, **given)
    each = lines.at_a_time * lines.rounds
    grid = ((lines.count + (each - 1)) // each, 1, 1)
    flags = ["true" if flag else "false" for flag in (lines.inverse, lines.beside, lines.padded)]
    kind = ", ".join(
        [
            C_TYPE[lines.dtype], str(lines.n), f"gh::Signal::{lines.form}", flags[0],
            str(lines.at_a_time), *flags[1:], str(lines.threads), *map(str, lines.radices),
        ]
    )  # fmt: skip
    with out.function(grid, lines.threads, lines.shared, waits=False):
        sizes = f"{size_text(lines.count)}, {size_text(lines.inner)}"
        passed = f"{view(x).buffer}, {sizes}, {tile.writes[0][1]}, ctx, {lines.rounds}"
        out.add(f"gh::Transform<{kind}>::run({passed});", tile.ops)


ROUTINES = {"fft": CudaRoutine(_fft)}
