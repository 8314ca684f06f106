"""Fourier transforms on CPUs: tables are made when a kernel first runs, and kept.

Lines that lie side by side, of a length with small factors, go one at a time with the factors known
to the compiler (`fft_line.h`); all others several at a time, side by side (`fft.h`).
"""

from __future__ import annotations

from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import Routine, buffer_of
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import product
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of


def fourier(builder: KernelBuilder, node: Node) -> None:
    """Add a transform, from memory to memory."""
    operands = [whole(builder, node.inputs[0])]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


SHORT = (3, 5)
"""Factors of a line beside powers of two: others are sums."""
FIRST = (16, 8, 4)
VECTOR_BYTES = 64


def line_factors(length: int, itemsize: int) -> tuple[int, ...]:
    """The passes of a transform of one line; empty where its first one would not go over vectors of
    four, or a factor is none of those that have a short transform.

    The first pass has a turn for each lane at least, and as many lanes as divide its radix.
    """
    best: tuple[int, int] = (0, 0)
    for first in FIRST:
        if length % first == 0:
            lanes = min(first, length // first, VECTOR_BYTES // itemsize)
            best = max(best, (1 << lanes.bit_length() - 1 if lanes else 0, first))
    if best[0] < 4:
        return ()
    rest = length // best[1]
    factors = [best[1]]
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    passes = -(-twos // 4)  # as few as there can be, of radix 16 and 8
    for left in range(passes, 0, -1):
        part = -(-twos // left)
        factors.append(1 << part)
        twos -= part
    for factor in SHORT:
        while rest % factor == 0:
            factors.append(factor)
            rest //= factor
    return tuple(factors) if rest == 1 else ()


# ------------------------------------------------------------------------------------ rendering
def _fft(out: KernelText, tile: Tile) -> None:
    (x,) = tile.operands
    form = tile.attr("form")
    lines, at, length = _lines(tile)
    back = "true" if tile.attr("inverse") or form == "half" else "false"
    kind, result = C_TYPE[tile.dtype], tile.writes[0][1]
    plan = out.fresh("plan")
    factors = _factors_of(tile)
    if factors:
        given = ", ".join((kind, f"gh::LineKind::{form}", back, *map(str, factors)))
        out.add(f"static const auto& {plan} = *new gh::FftLine<{given}>();", tile.ops)
        count = size_text(product(lines[:at]))
        out.add(f"gh::fft_each(ctx, {plan}, {count}, {buffer_of(x)}, {result});", tile.ops)
        return
    given = f"{length}, gh::FftKind::{form}, {back}"
    out.add(f"static const auto& {plan} = *new gh::FftLines<{kind}>({given});", tile.ops)
    sizes = f"{size_text(product(lines[:at]))}, {size_text(product(lines[at + 1 :]))}"
    out.add(f"gh::fft_lines(ctx, {plan}, {sizes}, {buffer_of(x)}, {result});", tile.ops)


def _lines(tile: Tile) -> tuple[Shape, int, int]:
    """The shape of what is transformed, without pairs; the axis, and the length along it."""
    shape, form = tile.operands[0].shape, tile.attr("form")
    lines = shape if form == "real" else shape[:-1]
    at = axis_of(tile.attr("axis"), len(lines))
    length = tile.attr("size") if form == "half" else lines[at]
    assert isinstance(length, int), "the op's shape rule wants it fixed"
    return lines, at, length


def _factors_of(tile: Tile) -> tuple[int, ...]:
    """The passes of lines that go one at a time; real ones of even length are pairs."""
    lines, at, length = _lines(tile)
    real = tile.attr("form") != "complex"
    if at != len(lines) - 1 or (real and length % 2):
        return ()
    return line_factors(length // 2 if real else length, tile.dtype.itemsize)


def _recipe(tile: Tile) -> Recipe:
    """Kernels share the templates of `fft.h`; those of `fft_line.h` are for one length."""
    if _factors_of(tile):
        return Recipe(seconds=0.3, headers=("fft_line.h",))
    return Recipe(seconds=0.2, headers=("fft.h",))


ROUTINES = {"fft": Routine(_fft, recipe=_recipe)}
