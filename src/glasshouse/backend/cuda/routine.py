"""What the CUDA backend has for a tile: its functions, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from glasshouse.backend.cuda.elements import early_loads, most_neighbours, put_body, put_loads
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim, bounds
from glasshouse.lower.kernel.index import Index, Loop
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.target import Needs, needs_nothing


@dataclass(frozen=True)
class CudaRoutine:
    """How a tile is rendered and what it needs."""

    render: Callable[[CudaText, Tile], None]
    needs: Callable[[Tile], Needs] = needs_nothing


def neighbours(tile: Tile) -> int:
    """How many results a thread hands over together."""
    return most_neighbours(tile.epilogue, tile.variables[-1])


def hand_over(
    out: CudaText,
    tile: Tile,
    call: str,
    count: int,
    parameters: Sequence[str],
    known: str = "",
    single: bool = False,
    result: str = "{}",
    rows: str = "",
    beside: str = "",
) -> None:
    """A call whose last argument is a lambda over positions and `sums_`, results side by side.

    `parameters` are the positions that the routine gives; `known` a line that finds the others;
    `result` is what a sum stands for, where it is not itself the result.
    What it loads is a lambda of its own (`gh::after`): a routine can load for the next results
    before it hands over these; with `single`, also where it hands them over one by one.
    `rows` is what is asked of each row (`gh::after_rows`), known as `row_`; `beside`, in which
    `{count}` is how many results there are, is loaded too, and is `{beside}` in `result`, in which
    `{at}` is the number of a neighbour.
    """
    given = ", ".join(f"{out.index} {name}" for name in parameters)
    early = early_loads(tile.epilogue, tile.variables[-1], count, single)
    if early or rows or beside:
        with out.block(f"const auto loads_ = [=]({given}) {{", "};"):
            if known:
                out.add(known)
            more = beside.format(count=count)
            put_loads(out, tile.epilogue, early, tile.variables[-1], count, more)
        taken = f"{given}, const auto& sums_, const auto& loaded_"
        opened = f"{call}, gh::after(loads_, [=]({taken}) {{"
        if rows:
            opened = f"{call}, gh::after_rows({rows}, loads_, [=]({taken}, const auto& row_) {{"
    else:
        opened = f"{call}, [=]({given}, const auto& sums_) {{"
    with out.block(opened, "}));" if early or rows or beside else "});"):
        if known:
            out.add(known)
        at = "u_" if count > 1 else "0"
        value = result.format(f"sums_[{at}]", at=at, beside=f"gh::get<{len(early)}>(loaded_)")
        put_body(
            out, tile.epilogue, tile.variables[-1], count, out.index,
            given=lambda: out.add(f"const auto {tile.result} = {value};", tile.ops),
            early=early,
        )  # fmt: skip


def thread_each(out: CudaText, total: Dim, block: int = 256) -> None:
    """A thread for each of some things, number `e_`, in blocks of so many."""
    out.add(f"const int64_t e_ = (int64_t)blockIdx.x * {block} + threadIdx.x;")
    out.add(f"if (e_ >= {size_text(total)}) return;")


@contextmanager
def thread_for_channels(
    out: CudaText, pixels: Dim, channels: Dim, count: int, names: Sequence[str] = ("pixel", "c")
) -> Iterator[None]:
    """A function with a thread for `count` neighbouring channels of each pixel, channels last:
    element `e_` is the first of them, at the pixel and the channel of these names."""
    total, each = pixels * channels, 256 * count
    with out.function(((total + (each - 1)) // each, 1, 1), 256):
        out.add(f"const int64_t e_ = ((int64_t)blockIdx.x * 256 + threadIdx.x) * {count};")
        out.add(f"if (e_ >= {size_text(total)}) return;")
        pixel, channel, width = *names, size_text(channels)
        out.add(f"const {out.index} {pixel} = e_ / {width}, {channel} = e_ % {width};")
        yield


def image_of_pixel(buffer: str, cells: Dim, image: Dim) -> str:
    """Channel `c` of the first cell of an image, channels last: that of `pixel`, of which each has
    so many cells, where an image has so many elements."""
    return f"{buffer} + (int64_t)(pixel / {size_text(cells)}) * {size_text(image)} + c"


def lies_whole(index: Index, along: Loop, run: int = 8) -> bool:
    """Whether runs along a loop, of eight half floats say, are aligned to 16 bytes."""
    if index.coefficient(along) != 1 or not index.is_affine:
        return False
    rest: list[Dim] = [c for a, c in index.terms if a != along]
    return all(isinstance(c, int) and c % run == 0 for c in (along.extent, index.constant, *rest))


def most(dim: Dim) -> float:
    return bounds(dim)[1]


def least(dim: Dim) -> float:
    return bounds(dim)[0]
