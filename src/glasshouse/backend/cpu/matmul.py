"""Matrix products on CPUs: packed weights, rows and columns, epilogues.

With a constant second operand its panels are packed once, when the module is loaded; otherwise
they are packed on the way. Batches that share the second operand are rows of one large product.
Weights [columns, depth] of large layers are read in place if that is as fast: for few rows,
and in 16-bit types for many; then nobody holds them twice. In float32 many rows take 3 % less (256
rows, depth 2048) to 8 % more time so (128 rows): that is done where weights fill the memory.
"""

from __future__ import annotations

from glasshouse.backend.cpu.blocking import (
    blockings,
    first_operand,
    headers,
    on_tiles,
    product_problem,
)
from glasshouse.backend.cpu.int8 import int8_matmul
from glasshouse.backend.cpu.processor import widens_bfloat16
from glasshouse.backend.cpu.recipe import Recipe, with_dot
from glasshouse.backend.cpu.results import hand_over, row_hint
from glasshouse.backend.cpu.routine import (
    FormSpelling,
    Routine,
    buffer_of,
    dot_kind,
    dot_recipe,
    passing_dot,
)
from glasshouse.backend.cxx.items import aligned, batch_lines
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, index_text, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import bfloat16, float16, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import take_results
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import view_of, whole

GEMM, IN_PLACE, BATCHED = "gemm", "gemm_in_place", "gemm_batched"
PANELS, NARROW_PANELS = "panels", "narrow_panels"
_TYPES = (float32, float64, bfloat16, float16)
_FEW, _MANY = 4, 64  # rows: up to few nothing is packed, from many on packing is below 10 %
_FLOATS = 128  # rows, of float32
_FILLS = 1 << 30  # bytes of all weights, from which on memory counts more than 8 % of the time
_CACHED = 64 << 20  # bytes of all weights: caches keep fewer; packed, 16 MB take 0.55 of the time
_LARGE = 8 << 20  # bytes: smaller weights stay in caches; packed, 4 MB take 0.75 of the time there
_WORTH = 256 << 10  # bytes: among weights that fill the memory no cache keeps smaller ones either


# ------------------------------------------------------------------------------------- lowering
def matmul(builder: KernelBuilder, node: Node) -> None:
    """Add the product, with what follows it in its epilogue where that is possible."""
    x, y = node.inputs
    if x.type.dtype not in _TYPES or y.type.dtype is not x.type.dtype:
        raise Unsupported(f"no matrix product of {x.type.dtype} and {y.type.dtype}")
    if int8_matmul(builder, node):
        return
    if x.type.rank < 2 or y.type.rank < 2:
        raise Unsupported("a product with a vector is a reduction")
    if all(d == 1 for d in y.type.shape[:-2]) and not node.attrs["transpose_x"]:
        _rows_times_weights(builder, node)
    else:
        _batched(builder, node)


def _rows_times_weights(builder: KernelBuilder, node: Node) -> None:
    """All rows of the batch are rows of one product."""
    x, y = node.inputs
    operands = (whole(builder, x), whole(builder, y))
    out = node.output.type
    rows, columns = product(out.shape[:-1]), out.shape[-1]
    after = take_results(builder, node.output, {"m": rows, "n": columns})
    if _lies_well(node, rows, builder.constant_bytes):
        add_tile(builder, node, IN_PLACE, operands, after)
        return
    depth = x.type.shape[-1]
    variants: tuple[str, ...] = ()
    problem = None
    if (
        operands[1].constant
        and isinstance(rows, int)
        and isinstance(columns, int)
        and isinstance(depth, int)
    ):
        variants = blockings(rows, columns, depth, x.type.dtype)
        problem = product_problem(rows, columns, depth, x.type.dtype) if variants else None
    add_tile(builder, node, GEMM, operands, after, variants=variants, problem=problem)


def _lies_well(node: Node, rows: Dim, constant_bytes: int) -> bool:
    """Whether weights are read in place; `constant_bytes` are those of the whole program."""
    weights = node.inputs[1].type
    if not node.attrs["transpose_y"] or weights.dtype is float64:
        return False
    nbytes = product(weights.shape) * weights.dtype.itemsize
    fills = constant_bytes >= _FILLS
    if not isinstance(nbytes, int) or constant_bytes < _CACHED:
        return False
    if nbytes < (_WORTH if fills else _LARGE):
        return False
    if isinstance(rows, int) and rows <= _FEW:
        return True
    least = _MANY if weights.dtype.itemsize == 2 else _FLOATS
    pays = weights.dtype.itemsize == 2 or fills
    return pays and (not isinstance(rows, int) or rows >= least)


def _batched(builder: KernelBuilder, node: Node) -> None:
    """A product for each item of the batch; operands are read in place."""
    x, y = node.inputs
    across, turned = node.attrs["transpose_x"], node.attrs["transpose_y"]
    out = node.output.type
    *batch, rows, columns = out.shape
    depth = x.type.shape[-2 if across else -1]
    loops = [Loop(f"b{axis}_", size) for axis, size in enumerate(batch)]
    m, n, k = Loop("m", rows), Loop("n", columns), Loop("k", depth)
    left = view_of(builder, x, aligned(x, loops, (k, m) if across else (m, k)))
    right = view_of(builder, y, aligned(y, loops, (n, k) if turned else (k, n)))
    place = view(left).index
    if place.coefficient(k) != 1 and place.coefficient(m) != 1:
        raise Unsupported("neither rows nor columns of the first operand are contiguous")
    variables = {"b": product(tuple(batch)), "m": rows, "n": columns}
    after = take_results(builder, node.output, variables)
    add_tile(builder, node, BATCHED, (left, right), after)


# ------------------------------------------------------------------------------------ rendering
def _depth(tile: Tile) -> Dim:
    return tile.operands[0].shape[-2 if tile.attr("transpose_x") else -1]


def _steps(tile: Tile) -> tuple[Dim, Dim]:
    """Strides of rows and columns of the second operand."""
    return (1, _depth(tile)) if tile.attr("transpose_y") else (tile.shape[-1], 1)


def _gemm_needs(tile: Tile) -> Needs:
    right = tile.operands[1]
    depth, columns = _depth(tile), tile.shape[-1]
    if right.constant:
        dtype = right.element.dtype
        rows = tile.variables[0].extent
        few = dtype is bfloat16 and isinstance(rows, int) and rows <= _FEW and widens_bfloat16()
        kind = NARROW_PANELS if few else PANELS
        form = Form(buffer_of(right), kind, dtype, (*_steps(tile), depth, columns), True)
        return (form,), ()
    # Columns rounded up to a panel of 32, depth to a unit of 4; halves lie there as float32.
    width = max(right.element.dtype.itemsize, 4)
    nbytes = (columns + 63) // 32 * 32 * (depth + 4) * width
    return (), (Scratch("panels", nbytes),)


def _gemm(out: KernelText, tile: Tile) -> None:
    left, right = tile.operands
    dtype = left.element.dtype
    depth = size_text(_depth(tile))
    first = first_operand(C_TYPE[dtype], f"{buffer_of(left)}, {depth}", tile.variant)
    sizes = ", ".join(size_text(x.extent) for x in tile.variables)
    given = f"(*ctx.pool, {sizes}, {depth}, {first}"
    if tile.forms:
        kind = dot_kind(dtype, on_tiles(tile.variant), _is_narrow(tile.forms[0]))
        call = f"gh::gemm<{kind}>{given}, {out.form(tile.forms[0])}"
    else:
        steps = ", ".join(map(size_text, _steps(tile)))
        panels = f"{buffer_of(right)}, {steps}, {out.scratch(tile)}"
        call = f"gh::gemm_dynamic<{passing_dot(dtype)}>{given}, {panels}"
    hand_over(out, tile, call, row_hint(tile))


def _gemm_in_place(out: KernelText, tile: Tile) -> None:
    given = ", ".join(buffer_of(o) for o in tile.operands)
    sizes = ", ".join(size_text(d) for d in (*(x.extent for x in tile.variables), _depth(tile)))
    hand_over(out, tile, f"gh::gemm_in_place(*ctx.pool, {sizes}, {given}", row_hint(tile))


def _gemm_batched(out: KernelText, tile: Tile) -> None:
    left, right = tile.operands
    dtype = left.element.dtype
    rows, columns, depth = tile.shape[-2], tile.shape[-1], _depth(tile)
    m, n, k = Loop("m", rows), Loop("n", columns), Loop("k", depth)
    a, b = view(left), view(right)
    by_rows = a.index.coefficient(k) == 1 or depth == 1
    step = size_text(a.index.coefficient(m if by_rows else k))
    source = f"gh::{'RowsA' if by_rows else 'ColsA'}<{C_TYPE[dtype]}>"
    find = " ".join(batch_lines(tile.shape[:-2]))
    sizes = ", ".join(size_text(d) for d in (product(tile.shape[:-2]), rows, columns, depth))
    begin = f"{a.buffer} + {index_text(a.index.without(m, k))}"
    offset = index_text(b.index.without(n, k))
    steps = ", ".join(size_text(b.index.coefficient(x)) for x in (k, n))
    call = (
        f"gh::gemm_batched<{passing_dot(dtype)}>(*ctx.pool, {sizes}, "
        f"[=](long b) {{ {find} return {source}{{{begin}, {step}}}; }}, "
        f"{b.buffer}, [=](long b) -> long {{ {find} return {offset}; }}, {steps}"
    )
    hand_over(out, tile, call)


def _is_narrow(form: Form) -> bool:
    return form.kind == NARROW_PANELS


def _panels(form: Form) -> str:
    sizes = ", ".join(map(size_text, form.attrs))
    kind = dot_kind(form.dtype, narrow=_is_narrow(form))
    return f"gh::pack_b_parallel<{kind}>(threads, source, {sizes}, out);"


def _panel_bytes(form: Form) -> str:
    sizes = ", ".join(map(size_text, form.attrs[2:]))
    return f"gh::packed_b_bytes<{dot_kind(form.dtype, narrow=_is_narrow(form))}>({sizes})"


def _gemm_recipe(tile: Tile) -> Recipe:
    if tile.forms:
        return with_dot(tile.operands[0].element.dtype, 0.2, headers=headers(tile.variant))
    return dot_recipe(0.2, headers(tile.variant))(tile)


ROUTINES = {
    GEMM: Routine(_gemm, _gemm_needs, _gemm_recipe),
    IN_PLACE: Routine(_gemm_in_place, recipe=dot_recipe(0.5, ("weights_in_place.h",))),
    BATCHED: Routine(_gemm_batched, recipe=dot_recipe(0.2)),
}
FORMS = {kind: FormSpelling(_panels, _panel_bytes) for kind in (PANELS, NARROW_PANELS)}
