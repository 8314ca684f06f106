"""Scatters, gradients of gathers, bags of rows, sorts: results that ask who comes to them
(`places.cuh`), as long as comparing each place with each writer is worth it."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import CudaRoutine, most, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, dim_max, dim_min, product
from glasshouse.ir.dtype import float64
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

MOST_PAIRS = 1 << 31
"""Comparisons of a kernel: half a millisecond of an H200, by estimate."""
WORSE = 8
"""How much sooner orders are left to others, which know better ways for long lines."""
MOST_COLUMNS = 32
"""Of a row, by 32, that a warp holds."""


def placed(builder: KernelBuilder, node: Node) -> None:
    """Add an op of this file, from memory to memory."""
    if most(_pairs(node)) > MOST_PAIRS:
        raise Unsupported(
            f"{node.op.name} compares each place with each index: too many of them here"
        )
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


def _pairs(node: Node) -> Dim:
    """Comparisons, or additions of a bag's worst thread times threads."""
    out = node.outputs[0].type.shape
    first, *rest = (v.type.shape for v in node.inputs)
    if node.op.name in ("sort", "topk"):
        axis = axis_of(node.attrs["axis"], len(first)) if first else 0
        return product(first) * (first[axis] if first else 1) * WORSE
    if node.op.name == "scatter":
        return product(out) * rest[0][axis_of(node.attrs["axis"], len(first))]
    if node.op.name == "embedding_bag":
        return product(out) + product(rest[0]) * out[1]
    if node.op.name == "take_grad":
        outer, places, count, inner = _gradient(first, rest[0], node.attrs["axis"], out)
    else:
        outer, places, count, inner, _ = _tuples(first, rest[0], node.attrs["axis"])
    return outer * dim_min(places, count) * count * _columns(inner)[1]


def _gradient(g: Shape, indices: Shape, axis: int, out: Shape) -> tuple[Dim, Dim, Dim, Dim]:
    """The sizes outer, places, count, inner of a gradient of rows."""
    return product(out[:axis]), out[axis], product(indices), product(out[axis + 1 :])


def _tuples(x: Shape, indices: Shape, axis: int) -> tuple[Dim, Dim, Dim, Dim, Shape]:
    """The same of tuples that name places, and the sizes of the axes that they name."""
    depth = indices[-1]
    assert isinstance(depth, int), "the op's shape rule wants it fixed"
    named = x[axis : axis + depth]
    inner = product(x[axis + depth :])
    return product(x[:axis]), product(named), product(indices[:-1]), inner, named


def _columns(inner: Dim) -> tuple[int, Dim]:
    """Columns of a lane, and warps that share a row."""
    per = int(min(max(-(-most(inner) // 32), 1), MOST_COLUMNS))
    return per, (inner + (32 * per - 1)) // (32 * per)


# ------------------------------------------------------------------------------------ rendering
def _held(tile: Tile) -> str:
    """The type of sums: places may be named often, so float64 for all floats."""
    dtype = tile.operands[0].element.dtype
    mode = dict(tile.attrs).get("mode", "add")
    if not dtype.is_float:
        return C_TYPE[dtype]
    return "double" if mode == "add" or dtype is float64 else "float"


def _numbers(dims: Shape) -> str:
    return ", ".join(f"(int64_t){size_text(d)}" for d in dims) or "1"


def _rows(out: CudaText, tile: Tile) -> None:
    """Rows that come to places: `scatter_nd`, and the gradient of `take`."""
    if tile.op == "take_grad":
        g, indices = tile.operands
        outer, places, count, inner = _gradient(
            g.shape, indices.shape, tile.attr("axis"), tile.shape
        )
        x, rows, mode = "", view(g).buffer, "add"
        named: Shape = (places,)
    else:
        base, indices, updates = tile.operands
        outer, places, count, inner, named = _tuples(base.shape, indices.shape, tile.attr("axis"))
        x, rows, mode = view(base).buffer, view(updates).buffer, tile.attr("mode")
    per, blocks = _columns(inner)
    kind = C_TYPE[tile.operands[0].element.dtype]
    tuples = f"gh::Tuples<{len(named)}>{{{{{_numbers(named)}}}}}"
    sizes = ", ".join(size_text(d) for d in (outer, places, count, inner))
    source, to = x or f"(const {kind}*)0", tile.writes[0][1]
    given = f"ctx, {source}, {view(indices).buffer}, {rows}, {tuples}, {sizes}, {to}"
    of = f"gh::Meeting::{mode}, {per}, {_held(tile)}"
    few = isinstance(count, int) and isinstance(places, int) and 0 < count < places
    if few:  # a table of 50257 words, of which a text names 4096 at most
        total, each = outer * places * inner, 256 * (16 // tile.operands[0].element.dtype.itemsize)
        with out.function((dim_max((total + (each - 1)) // each, 1), 1, 1), 256):
            out.add(f"gh::fill_places({source}, {size_text(total)}, {to});", tile.ops)
    lines = outer * count if few else outer * places
    grid = (dim_max((lines + 7) // 8, 1), dim_max(blocks, 1), 1)
    with out.function(grid, 256):
        out.add(f"gh::meet_{'named_' if few else ''}rows<{of}>({given});", tile.ops)


def _along(out: CudaText, tile: Tile) -> None:
    x, indices, updates = tile.operands
    axis, total = axis_of(tile.attr("axis"), len(x.shape)), product(x.shape)
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        sizes = f"{{{_numbers(x.shape)}}}, {{{_numbers(indices.shape)}}}"
        along = f"gh::Along<{len(x.shape)}>{{{sizes}}}"
        buffers = ", ".join(view(o).buffer for o in (x, indices, updates))
        call = f"gh::meet_along<gh::Meeting::{tile.attr('mode')}, {axis}, {_held(tile)}>"
        out.add(f"{call}(ctx, e_, {buffers}, {along}, {tile.writes[0][1]});", tile.ops)


def _bags(out: CudaText, tile: Tile) -> None:
    table, indices, offsets, *scale = tile.operands
    bags, width = tile.shape
    total = bags * width
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        factors = view(scale[0]).buffer if scale else f"(const {C_TYPE[table.element.dtype]}*)0"
        buffers = ", ".join(view(o).buffer for o in (table, indices, offsets))
        dims = (table.shape[0], width, indices.shape[0], offsets.shape[0])
        sizes = ", ".join(size_text(d) for d in dims)
        flags = f"{tile.attr('skipped')}, {'true' if tile.attr('mean') else 'false'}"
        at = f"e_ / {size_text(width)}, e_ % {size_text(width)}"
        given = f"ctx, {at}, {buffers}, {factors}, {sizes}, {flags}, {tile.writes[0][1]}"
        out.add(f"gh::bag_column<double>({given});", tile.ops)


def _order(out: CudaText, tile: Tile) -> None:
    """A sort or the top k."""
    (x,) = tile.operands
    sorts = tile.op == "sort"
    at = axis_of(tile.attr("axis"), len(x.shape)) if x.shape else 0
    n = x.shape[at] if x.shape else 1
    total, inner = product(x.shape), product(x.shape[at + 1 :])
    k = n if sorts else tile.attr("k")
    descending = tile.attr("descending" if sorts else "largest")
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        sizes = ", ".join(size_text(d) for d in (n, inner, k))
        places = ", ".join(buffer for _, buffer in tile.writes)
        given = f"e_, {view(x).buffer}, {sizes}, {'true' if descending else 'false'}"
        out.add(f"gh::rank_element({given}, {places});", tile.ops)


ROUTINES = {
    "embedding_bag": CudaRoutine(_bags),
    "scatter": CudaRoutine(_along),
    "scatter_nd": CudaRoutine(_rows),
    "sort": CudaRoutine(_order),
    "take_grad": CudaRoutine(_rows),
    "topk": CudaRoutine(_order),
}
