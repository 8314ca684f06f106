"""The memory that a kernel needs for itself: temporaries, then the scratch of its tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.kernel import TEMPORARY, Buffer, Kernel
from glasshouse.lower.kernel.statement import Statement, Tile

ALIGN = 64


def pieces(
    buffers: Sequence[Buffer], statements: Sequence[Statement]
) -> Iterator[tuple[str, DType | None, Dim]]:
    """Name, element type and bytes of each piece of the workspace, in order.

    The scratch of a tile is named after the tile's number in the kernel.
    """
    for buffer in buffers:
        if buffer.role == TEMPORARY:
            yield buffer.name, buffer.dtype, buffer.size * buffer.dtype.itemsize
    tiles = (s for s in statements if isinstance(s, Tile))
    for number, tile in enumerate(tiles):
        for scratch in tile.scratch:
            yield f"{scratch.name}{number}", scratch.dtype, scratch.nbytes


def places(kernel: Kernel) -> list[tuple[str, DType | None, Dim]]:
    """Name, element type and offset of each piece of a kernel's workspace."""
    out: list[tuple[str, DType | None, Dim]] = []
    offset: Dim = 0
    for name, dtype, nbytes in pieces(kernel.buffers, kernel.body):
        out.append((name, dtype, offset))
        offset = offset + rounded(nbytes)
    return out


def total(buffers: Sequence[Buffer], statements: Sequence[Statement]) -> Dim:
    """Bytes of the whole workspace."""
    offset: Dim = 0
    for _, _, nbytes in pieces(buffers, statements):
        offset = offset + rounded(nbytes)
    return offset


def rounded(nbytes: Dim) -> Dim:
    """Up to the next multiple of 64, the width of a cache line and of the widest vector."""
    return (nbytes + (ALIGN - 1)) // ALIGN * ALIGN
