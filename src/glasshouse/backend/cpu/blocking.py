"""Blockings of matrix products: AMX tiles or registers, and how many rows of the first operand stay
in the cache while all panels of the second pass by.

More rows read the panels less often; a block past the cache is read again for each panel. The usual
one fills half of an L2 cache of 1 MB (`gemm.h`). Which is best is measured when that is asked for
(`glasshouse tune --all`, `tune=True`); unasked the usual one is taken, because few sizes have a
better one, and a model has as many sizes of products as it has kinds of layers.
"""

from __future__ import annotations

from glasshouse.backend.cpu.processor import has_tiles
from glasshouse.ir.dtype import DType, as_dtype, bfloat16, float32
from glasshouse.lower.choice import Problem
from glasshouse.lower.target import Target

BY_CACHE, TILES = "blocks_by_cache", "tiles_by_cache"
_ROWS = (32, 64, 128, 256)
_WAYS = ("by_cache", *(f"of_{rows}" for rows in _ROWS))
_BLOCK, _L2 = 448 << 10, 1 << 20  # bytes: what the usual block fills, and what there is
_PANEL = 32  # columns
_TILES_FROM = 2  # rows: `gemm_micro.h`
_TILE_SPEED = 8  # times as many multiply-adds in a cycle as registers


def names(dtype: DType) -> tuple[str, ...]:
    """Every blocking that this machine has for a type: on AMX tiles, and in registers."""
    kinds = ("tiles", "blocks") if has_tiles() and dtype is bfloat16 else ("blocks",)
    return tuple(f"{kind}_{way}" for kind in kinds for way in _WAYS)


def blockings(rows: int, columns: int, depth: int, dtype: DType) -> tuple[str, ...]:
    """Those that differ for a product of this size, the usual one first; none for few rows."""
    if dtype not in (float32, bfloat16) or not columns or not depth:
        return ()
    tiled = TILES in names(dtype) and rows >= _TILES_FROM
    blocked = rows > _ROWS[0] and columns > _PANEL
    if not tiled and not blocked:
        return ()
    usual = block_rows(BY_CACHE, depth, dtype.itemsize)
    sizes = [f"of_{r}" for r in _ROWS if blocked and r < rows and r != usual]
    if tiled:  # registers have no size of blocks that would make up for their speed
        return (TILES, *(f"tiles_{size}" for size in sizes), BY_CACHE)
    return (BY_CACHE, *(f"blocks_{size}" for size in sizes))


def block_rows(name: str, depth: int, width: int) -> int:
    """Rows of a block; of the usual one about, because tiles of registers differ by machine."""
    if name in (BY_CACHE, TILES):
        return max(12, _BLOCK // (depth * width))
    return int(name.rpartition("_")[2])


def on_tiles(variant: str) -> bool:
    """Whether a variant takes AMX tiles where the machine has them; one without a name does."""
    return not variant.startswith("blocks_")


def product_problem(rows: int, columns: int, depth: int, dtype: DType) -> Problem:
    """A product as the chooser sees it."""
    work = 2.0 * rows * columns * depth
    return Problem("matmul", dtype.name, (rows, columns, depth), work, unasked=False)


def first_operand(ctype: str, fields: str, variant: str) -> str:
    """The rows of a product's first operand as `gemm.h` reads them, in a variant."""
    rows = f"gh::RowsA<{ctype}>"
    if variant in ("", BY_CACHE, TILES):
        return f"{rows}{{{fields}}}"
    return f"gh::Blocked<{rows}, {variant.rpartition('_')[2]}>{{{{{fields}}}}}"


def headers(variant: str) -> tuple[str, ...]:
    """Headers apart that a variant needs."""
    return () if variant in ("", BY_CACHE, TILES) else ("gemm_blocked.h",)


def estimate(problem: Problem, name: str, target: Target) -> tuple[float, str] | None:
    """Seconds of a product, by what it computes and how often panels and rows are read."""
    dtype = as_dtype(problem.dtype)
    if problem.op != "matmul" or name not in names(dtype):
        return None
    rows, columns, depth = problem.numbers
    width = dtype.itemsize
    block = min(rows, block_rows(name, depth, width))
    left, right = rows * depth * width, depth * columns * width
    passes = -(-rows // block)
    again = -(-columns // _PANEL) if block * depth * width > _L2 else 1
    moved = passes * right + again * left + 4 * rows * columns
    speed = _TILE_SPEED if name.startswith("tiles_") else 1
    cost = target.seconds(problem.operations, moved, speed)
    where = "on tiles" if name.startswith("tiles_") else "in registers"
    return cost, f"{where}, blocks of {block} rows read the weight {passes} times"
