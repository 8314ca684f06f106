"""Matrix products on GPUs: tensor cores for half floats and float64, plain multiplication for
float32.

Operands are read where they lie; what follows the product stands in its epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from glasshouse.backend.cuda.behind import across, behind
from glasshouse.backend.cuda.cublaslt import CUBLASLT
from glasshouse.backend.cuda.elements import WIDEST
from glasshouse.backend.cuda.library_product import ROOM, followed_by, put_call
from glasshouse.backend.cuda.matrices import Matrix, ProductSizes, flag, matrices_of, product_sizes
from glasshouse.backend.cuda.routine import (
    CudaRoutine,
    hand_over,
    least,
    most,
    neighbours,
)
from glasshouse.backend.cuda.tensor_map import TensorMap
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cuda.tiles import (
    DMMA,
    FETCHED,
    MMA,
    PROCESSORS,
    SIMT,
    TMA,
    WGMMA,
    variant_named,
    variants,
)
from glasshouse.backend.cxx.items import aligned, batch_lines
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, dim_min, product
from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.choice import Problem
from glasshouse.lower.epilogue import RESULT, Epilogue, take_results
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Operand, Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import view_of, whole
from glasshouse.ops.cost import operations

GEMM, BATCHED = "gemm", "gemm_batched"
HALVES = (float16, bfloat16)
PLAIN, GEMV = "simt64x64x32", "gemv"
TURNED = "turned"
"""The form of constant weights [depth, columns] in which their depth lies together."""
MOST_ROWS, MOST_DEPTH = 8, 1 << 15
"""Rows, and the depth, up to which each weight is read once, without tensor cores."""
JOINED = 4
"""Results that a thread hands over together where more blocks add each other's sums than there are
eights of them in a row of the tile; and where they do so by `gemm.cuh`."""
_PLAIN_RATE, _UNALIGNED_RATE, _FETCHED_RATE = 150e12, 40e12, 550e12
"""Operations a second of a large product: by `mma.sync` with aligned rows, with others (a guess),
and fetched by the copy engine."""
_TURN_SPEED, _TURN_LAUNCH = 2e12, 3e-6
"""Bytes a second, read and written, of a copy of an operand; and what it takes at least."""
MOST_BATCH = 65535
"""Blocks along the third axis of a grid."""


# ------------------------------------------------------------------------------------- lowering
def matmul(builder: KernelBuilder, node: Node, hopper: bool = False, library: bool = False) -> None:
    """Add the product, with what follows it in its epilogue where that is possible; `library`:
    cuBLASLt's is among the candidates."""
    x, y = node.inputs
    dtype = x.type.dtype
    if dtype not in (*HALVES, float32, float64) or y.type.dtype is not dtype:
        raise Unsupported(f"no matrix product of {x.type.dtype} and {y.type.dtype}")
    if x.type.rank < 2 or y.type.rank < 2:
        raise Unsupported("a product with a vector is a reduction")
    out = node.output.type
    together = all(d == 1 for d in y.type.shape[:-2]) and not node.attrs["transpose_x"]
    batch: Dim = 1 if together else product(out.shape[:-2])
    if most(batch) > MOST_BATCH:
        raise Unsupported(f"no product of more than {MOST_BATCH} matrices")
    rows = product(out.shape[:-1]) if together else out.shape[-2]
    depth = x.type.shape[-2 if node.attrs["transpose_x"] else -1]
    m, n, k = Loop("m", rows), Loop("n", out.shape[-1]), Loop("k", depth)
    if together:
        operands = (whole(builder, x), whole(builder, y))
        variables = {"m": rows, "n": out.shape[-1]}
    else:
        loops = [Loop(f"b{axis}_", size) for axis, size in enumerate(out.shape[:-2])]
        across, turned = node.attrs["transpose_x"], node.attrs["transpose_y"]
        operands = (
            view_of(builder, x, aligned(x, loops, (k, m) if across else (m, k))),
            view_of(builder, y, aligned(y, loops, (n, k) if turned else (k, n))),
        )
        variables = {"b": batch, "m": rows, "n": out.shape[-1]}
    after = take_results(builder, node.output, variables)
    sizes = ProductSizes((m, n, k), batch)
    plain: tuple[str, ...] = (PLAIN,)
    if dtype is float32:
        pair = matrices_of(operands, sizes, together, node.attrs["transpose_y"])
        plain = _plain_variants(pair, sizes, together)
    names = plain
    rounds = builder.target.tf32 and dtype is float32
    if dtype in HALVES or rounds:
        lying = node.attrs["transpose_y"] or (together and operands[1].constant)
        matrices = matrices_of(operands, sizes, together, lying)
        if not rounds:
            formed = together and operands[1].constant and not node.attrs["transpose_y"]
            names = _variants(matrices, sizes, hopper, together, formed)
        elif not any(x.across for x in matrices):
            deep = typical(m.extent, n.extent, k.extent * 2, batch)  # in half floats
            names = (*(v.name for v in variants(*deep)), plain[0])
    elif dtype is float64:
        deep = typical(m.extent, n.extent, k.extent * 4, batch)  # in half floats
        names = tuple(v.name for v in variants(*deep, (DMMA,)))
    numbers = tuple(d for d in (rows, out.shape[-1], depth, batch) if isinstance(d, int))
    lies = "" if rounds or batch != 1 else _lies_across(operands, sizes, together, node)
    temporary = {b.name for b in builder.temporaries}
    if library and not rounds and _has_library_call(
        operands, after, numbers, lies, sizes, node, temporary
    ):  # fmt: skip
        names = (*names, CUBLASLT)
    follows = behind(builder, node)
    # Copies of our own variants count where a library needs none; otherwise what follows does.
    said = lies if lies and (CUBLASLT in names or not follows) else follows
    name = f"matmul{said}" + ("_tf32" if rounds else "")
    problem = Problem(name, dtype.name, numbers, operations(node)) if len(numbers) == 4 else None
    add_tile(
        builder, node, GEMM if together else BATCHED, operands, after,
        variants=names, problem=problem,
    )  # fmt: skip


def _lies_across(
    operands: tuple[Operand, ...], sizes: ProductSizes, together: bool, node: Node
) -> str:
    """Which operands of one product of matrices lie across its depth, in words of `ACROSS`; those
    that come turned (`_turns`) do not."""
    dtype = operands[0].element.dtype
    formed = operands[1].constant and together and dtype is not float64
    left, right = matrices_of(operands, sizes, together, node.attrs["transpose_y"] or formed)
    known = left.rows_apart is not None and right.rows_apart is not None
    return across(left.across, right.across) if known else ""


def _has_library_call(
    operands: tuple[Operand, ...],
    after: Epilogue,
    numbers: tuple[int, ...],
    lies: str,
    sizes: ProductSizes,
    node: Node,
    temporary: Collection[str],
) -> bool:
    """Whether a library has a call for a product with all that follows it: of matrices that lie
    whole, along the depth, or across it where rows are aligned; a call is given arguments of the
    kernel, no `temporary` buffers of it (an operand that is cast first)."""
    dtype = operands[0].element.dtype
    together = len(after.variables) == 2
    turned = node.attrs["transpose_y"] or (operands[1].constant and dtype in HALVES)
    pair = matrices_of(operands, sizes, together, turned)
    if len(numbers) < 4 or 0 in numbers or sizes.batch != 1:
        return False
    if lies and not all(x.whole for x in pair):  # for others its kernels are slow ones
        return False
    if not lies and not (together and turned):
        return False
    follows = followed_by(after.variables[-2:], RESULT, after.statements, dtype)
    if follows is None:
        return False
    used = {*(x.buffer for x in pair), follows.out, follows.bias, follows.residual}
    return used.isdisjoint(temporary)


def _variants(
    operands: tuple[Matrix, Matrix], sizes: ProductSizes, hopper: bool, together: bool, formed: bool
) -> tuple[str, ...]:
    """Names of the variants that suit, the one that is likely best first; `formed`: the right
    operand is brought into another form before any run."""
    left, right = operands
    m, n, k = sizes.loops
    along = not left.across and not right.across
    rows = together and along and left.whole and right.whole
    fetched = rows or (not formed and _is_worth_turning(operands, sizes))
    kinds = (MMA,) if not (hopper and (along or fetched)) else FETCHED if fetched else (WGMMA, MMA)
    found = variants(*typical(m.extent, n.extent, k.extent, sizes.batch), kinds)
    names = tuple(v.name for v in found)
    if rows and _are_few(m.extent, k.extent):
        return (GEMV, *names[:2])
    return names


def _plain_variants(
    operands: tuple[Matrix, Matrix], sizes: ProductSizes, together: bool
) -> tuple[str, ...]:
    """Names of the variants of float32 without tensor cores that suit; large tiles where sizes are
    symbols."""
    m, n, k = (x.extent for x in sizes.loops)
    if not all(isinstance(d, int) for d in (m, n, k, sizes.batch)):
        return (PLAIN,)
    deep = typical(m, n, k * 2, sizes.batch)  # in half floats
    names = tuple(v.name for v in variants(*deep, (SIMT,)))
    rows = together and all(x.whole and not x.across for x in operands)
    return (GEMV, *names[:2]) if rows and _are_few(m, k * 2) else names


def _are_few(rows: Dim, depth: Dim) -> bool:
    """Whether a product of so many rows reads each weight once; depths are those of half floats."""
    known = isinstance(rows, int) and isinstance(depth, int)
    return known and least(rows) <= MOST_ROWS and least(depth) <= MOST_DEPTH


def _is_worth_turning(operands: tuple[Matrix, Matrix], sizes: ProductSizes) -> bool:
    """Whether copying operands, so that the copy engine can fetch them, costs less than a product
    of operands as they lie: those of gradients, and rows that are not aligned."""
    numbers = [x.extent for x in sizes.loops]
    if sizes.batch != 1 or not all(isinstance(d, int) for d in numbers):
        return False
    m, n, k = (float(least(d)) for d in numbers)
    moved = [x for x in operands if not x.is_fetched]
    bytes_moved = sum(4 * k * float(least(x.outer.extent)) for x in moved)
    rate = _PLAIN_RATE if all(x.whole for x in operands) else _UNALIGNED_RATE
    saved = 2 * m * n * k * (1 / rate - 1 / _FETCHED_RATE)
    return saved > bytes_moved / _TURN_SPEED + len(moved) * _TURN_LAUNCH


def typical(m: Dim, n: Dim, k: Dim, batch: Dim) -> tuple[int, int, int, int]:
    """Sizes as numbers: the least that symbols allow."""
    return tuple(int(max(least(d), 1)) for d in (m, n, k, batch))  # type: ignore[return-value]  # four


# ------------------------------------------------------------------------------------ rendering
def gemm_needs(variant: str, m: Dim, n: Dim, batch: Dim) -> Needs:
    """Room for the sums of blocks that share a tile's depth, in the type of sums."""
    if variant in ("", GEMV):
        return (), ()
    if variant == CUBLASLT:
        return (), (ROOM,)
    chosen = variant_named(variant)
    if chosen.splits == 1 or chosen.joined:
        return (), ()
    tile = chosen.tile
    tiles = (m + (tile.m - 1)) // tile.m * ((n + (tile.n - 1)) // tile.n) * batch
    sums = float64 if tile.kind == DMMA else float32
    each = chosen.splits * tile.m * tile.n * sums.itemsize
    return (), (Scratch("parts", tiles * each, sums),)


def is_fetched(variant: str) -> bool:
    """Whether the copy engine brings both operands of a variant."""
    return variant.startswith(FETCHED)


def _turns(tile: Tile) -> bool:
    """Whether weights are read in another form: their columns, each with its depth together."""
    right = tile.operands[1]
    cores = right.element.dtype in HALVES or tile.variant.startswith(MMA)  # mma of float32: TF32
    return tile.routine == GEMM and cores and right.constant and not tile.attr("transpose_y")


def _needs(tile: Tile) -> Needs:
    sizes = product_sizes(tile)
    m, n, k = sizes.loops
    _, scratch = gemm_needs(tile.variant, m.extent, n.extent, sizes.batch)
    if not _turns(tile):
        copies = _copied(tile, sizes) if is_fetched(tile.variant) else ()
        room = [
            Scratch(name, x.outer.extent * _wide(k.extent) * x.dtype.itemsize, x.dtype)
            for name, x in copies
        ]
        return (), (*scratch, *room)
    right = view(tile.operands[1])
    return (Form(right.buffer, TURNED, right.dtype, (k.extent, n.extent), True),), scratch


def _copied(tile: Tile, sizes: ProductSizes) -> list[tuple[str, Matrix]]:
    """Operands of a fetched variant that are copied first, with the names of their copies."""
    together = tile.routine == GEMM
    pair = matrices_of(tile.operands, sizes, together, bool(tile.attr("transpose_y")))
    named = zip(("left", "right"), pair, strict=True)
    return [(name, x) for name, x in named if not x.is_fetched]


def _wide(depth: Dim) -> Dim:
    return (depth + 7) // 8 * 8


def _turned_first(out: CudaText, tile: Tile, sizes: ProductSizes) -> dict[str, str]:
    """The functions that copy operands, their depth together and aligned; the names of copies."""
    wide, made = _wide(sizes.loops[2].extent), {}
    for name, matrix in _copied(tile, sizes):
        made[name] = out.scratch(tile, name)
        grid = ((wide + 63) // 64, (matrix.outer.extent + 63) // 64, 1)
        with out.function(grid, 256):
            given = f"{matrix.text()}, (int){size_text(wide)}, {made[name]}"
            out.add(f"gh::turn_rows({given});", tile.ops)
    return made


def _gemm(out: CudaText, tile: Tile) -> None:
    together = tile.routine == GEMM
    sizes = product_sizes(tile)
    m, n, k = sizes.loops
    turned = tile.attr("transpose_y") or _turns(tile)
    left, right = matrices_of(tile.operands, sizes, together, turned)
    if tile.forms:
        right = replace(right, buffer=out.form(tile.forms[0]))
    lines: list[str] = []
    if not together:
        lines = [f"const {out.index} b = blockIdx.z;", *batch_lines(tile.shape[:-2], out.index)]
    if tile.variant == CUBLASLT:
        numbers = typical(m.extent, n.extent, k.extent, 1)[:3]
        put_call(
            out, tile, (left.buffer, right.buffer), numbers, left.dtype,
            (left.across, right.across), (left.rows_apart or 0, right.rows_apart or 0),
        )  # fmt: skip
        return
    extents = ", ".join(f"(int){size_text(x.extent)}" for x in (m, n, k))
    operands = left.text(), right.text()
    maps: tuple[TensorMap, ...] = ()
    copies: dict[str, str] = {}
    if is_fetched(tile.variant):
        gemm = variant_named(tile.variant).tile
        if not tile.forms:
            copies = _turned_first(out, tile, sizes)
        deep = {name: _wide(k.extent) if name in copies else k.extent for name in ("left", "right")}
        first = rows_map(copies.get("left", left.buffer), m.extent, deep["left"], gemm.m)
        second = mapped_columns(
            copies.get("right", right.buffer), C_TYPE[right.dtype], n.extent, deep["right"], gemm.n
        )
        operands, maps = (mapped_rows(left.dtype), second[0]), (first, second[1])
    call = Product(
        tile, extents, *operands, ("m", "n"), m.extent, n.extent, maps=maps, depth=k.extent,
        early=tile.operands[1].constant and "right" not in copies,
    )  # fmt: skip
    call.render(out, sizes.batch, lines)


def mapped_rows(dtype: DType) -> str:
    return f"gh::MappedRows<{C_TYPE[dtype]}>{{map0}}"


def rows_map(buffer: str, rows: Dim, depth: Dim, together: int) -> TensorMap:
    """Of a matrix [rows, depth] that lies whole, so many rows at a time."""
    return TensorMap(buffer, (depth, rows), (depth * 2,), (together,))


def mapped_columns(
    buffer: str, kind: str, columns: Dim, depth: Dim, together: int
) -> tuple[str, TensorMap]:
    """The loader of a product's second operand [columns, depth] of a C++ type, and its map.

    Where 32 divides the columns, they come in another order: position 8 j + 2 q + e of each 32 is
    column 8 q + 2 j + e, so that the sums of a thread are eight neighbours."""
    eights = in_eights(columns)
    loader = f"gh::MappedColumns<{kind}, {flag(eights)}>{{map1}}"
    if not eights:
        return loader, rows_map(buffer, columns, depth, together)
    sizes = (depth, 2, 4, 4, columns // 32)
    steps = tuple(depth * (2 * n) for n in (1, 8, 2, 32))
    return loader, TensorMap(buffer, sizes, steps, (2, 4, 4, together // 32))


def in_eights(columns: Dim) -> bool:
    return isinstance(columns, int) and columns % 32 == 0


@dataclass(frozen=True)
class Product:
    """The call of one of the templates of `gemm.cuh`."""

    tile: Tile
    sizes: str
    left: str
    right: str
    parameters: tuple[str, str]
    m: Dim
    n: Dim
    known: str = ""
    maps: tuple[TensorMap, ...] = ()
    depth: Dim = 0
    early: bool = False
    """Whether the right operand is constant: it may be read before earlier kernels have ended."""
    each: int = 1
    """Weights of a column of results, 2 with a gate: a tile has as many times fewer of them."""
    result: str = "{}"
    """What a sum stands for."""
    rows: str = ""
    beside: str = ""
    """What is asked of each row, and what is loaded besides (`hand_over`)."""
    handed: Callable[[CudaText, str], None] | None = None
    """Writes the call, up to what follows, and what follows, where that is no epilogue."""

    def render(self, out: CudaText, batch: Dim, lines: list[str]) -> None:
        """The function that computes it; `lines` stand first in its body."""
        tile, count = self.tile, WIDEST if self.handed else neighbours(self.tile)
        while count > 1 and isinstance(self.n, int) and self.n % count:
            count //= 2  # columns of a group of a convolution begin where those of another end
        counters: Dim = 0
        beside, cluster, last = 0, (1, 1), ""
        if tile.variant == GEMV:
            run = 32 * 16 // tile.operands[0].element.dtype.itemsize  # elements of a warp
            warps, steps, columns = _held(self.m, self.n, self.depth, self.each, run)
            grid, threads, shared = (self.n + (columns - 1)) // columns, warps * 32, 0
            sizes = self.sizes.split(", ", 1)[1]
            even = self.depth == warps * steps * run
            parts = f"{self.m}, {columns}, {warps}, {steps}, {flag(self.early)}, {flag(even)}"
            call = f"gh::gemv<{parts}>(ctx, {sizes}"
            count, splits = 1, 1
        else:
            chosen = variant_named(tile.variant)
            gemm = chosen.tile
            wide = gemm.n // self.each
            grid = (self.m + (gemm.m - 1)) // gemm.m * ((self.n + (wide - 1)) // wide)
            threads, shared, splits = gemm.threads, chosen.shared, chosen.splits
            beside = gemm.beside if gemm.beside > 1 or gemm.kind in FETCHED else 0
            if chosen.joined:
                cluster = (1, splits)
                eights = gemm.kind == TMA and gemm.n // 16 >= splits
                count = count if eights else min(count, JOINED)
            if gemm.kind in FETCHED and splits == 1:
                grid = dim_min(grid, PROCESSORS * gemm.beside)
            if gemm.kind in FETCHED:
                last = ""
            elif chosen.joined:
                last = f", {splits}, nullptr"
            elif splits > 1:
                counters = grid * batch
                last = f", {splits}, {out.scratch(tile)}"
            else:
                last = ", 1, nullptr"
            count = {SIMT: 1, DMMA: min(count, 2)}.get(gemm.kind, count)
            flags = ""
            if gemm.kind in FETCHED and splits == 1 and count == 1 and not in_eights(self.n):
                shared += gemm.rooms
            if gemm.kind in FETCHED:
                divided = ((self.m, gemm.m), (self.n, wide))
                whole = all(isinstance(d, int) and d % by == 0 for d, by in divided)
                flags = f", {flag(whole)}, {flag(self.early)}"
            if gemm.kind == TMA:
                flags += f", {splits}"
            call = f"{gemm.function}<{gemm.text}, {count}{flags}>(ctx, {self.sizes}"
        with out.function(
            (grid, splits, batch), threads, shared, counters, beside, cluster, self.maps,
            waits=tile.variant != GEMV and not self.maps,  # which wait themselves
        ):  # fmt: skip
            for line in lines:
                out.add(line)
            out.add(f"const auto left_ = {self.left};", tile.ops)
            out.add(f"const auto& right_ = {self.right};", tile.ops)
            given = f"{call}, left_, right_{last}"
            single = tile.variant == GEMV
            if self.handed is not None:
                self.handed(out, given)
                return
            hand_over(
                out, tile, given, count, self.parameters, self.known, single, self.result,
                self.rows, self.beside,
            )  # fmt: skip


def _held(rows: Dim, n: Dim, k: Dim, each: int, run: int) -> tuple[int, int, int]:
    """Warps of a block, runs of a lane (`run` elements of all 32 of them), and columns (of `each`
    weights): up to 16 KB on their way to a block, as long as there are some blocks for each
    multiprocessor and registers for the sums of all rows. On an H200, a token of the Llama-1B
    shape, with 8 and 16 KB a block: out (2048 x 2048) 757 and 750 us, down (2048 x 8192) 753 and
    749, with 32 KB 761."""
    assert isinstance(k, int), "rows that lie whole have a known depth"
    warps = 4
    while warps < 16 and k > run * warps:
        warps *= 2
    steps = max(1, -(-k // (run * warps)))
    columns = 1
    while (
        2 * columns * each * steps * warps <= 32
        and least(n) >= 2048 * columns
        and most(rows) * columns * each <= 4
    ):
        columns *= 2
    return warps, steps, columns


ROUTINES = {GEMM: CudaRoutine(_gemm, _needs), BATCHED: CudaRoutine(_gemm, _needs)}
