"""Scatters, gradients of gathers, bags of rows (`places.cuh`). Results ask who comes to them: few
writers are compared with each place, many are put in order by their places first, unless they may
meet in any order (`atomics.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.backend.cuda.atomics import Writers, needed, put_atomics, put_fill, suits
from glasshouse.backend.cuda.order import Lines, put_order
from glasshouse.backend.cuda.routine import CudaRoutine, most, thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, dim_max, dim_min, product
from glasshouse.ir.dtype import float64, int64
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Scratch, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

MOST_PAIRS = 1 << 31
"""Comparisons of a kernel: half a millisecond of an H200, by estimate."""
FEW_ROWS, FEW_ALONG = 512, 64
"""Writers up to which places are compared with each: more are put in order first. Rows are compared
by the threads of a block together, elements along an axis by each thread alone."""
MOST_PLACES = 1 << 31
"""That are put in order: a place is a key of 32 bits."""
PIECES = "pieces"
MOST_COLUMNS, ORDERED_COLUMNS = 32, 4
"""Of a row, by 32, that a warp holds."""


def placed(builder: KernelBuilder, node: Node) -> None:
    """Add an op of this file, from memory to memory."""
    shapes = [v.type.shape for v in node.inputs]
    lines = _ordered(node.op.name, shapes, node.attrs.get("axis", 0))
    if lines is not None:
        lines.check(node.op.name)
        if not most(product(node.outputs[0].type.shape)) < MOST_PLACES:
            raise Unsupported(f"{node.op.name} has too many places here")
    elif most(_pairs(node)) > MOST_PAIRS:
        raise Unsupported(
            f"{node.op.name} compares each place with each index: too many of them here"
        )
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


def _ordered(op: str, shapes: Sequence[Shape], axis: int) -> Lines | None:
    """Lines of writers that are put in order by their places; None where they are compared."""
    if op == "embedding_bag":
        return None
    indices = shapes[1]
    if op == "scatter":
        at = axis_of(axis, len(indices))
        lines = Lines(product(indices[:at]) * product(indices[at + 1 :]), indices[at], False)
        return lines if most(lines.n) > FEW_ALONG else None
    count = product(indices if op == "take_grad" else indices[:-1])
    return Lines(1, count, False) if most(count) > FEW_ROWS else None


def _pairs(node: Node) -> Dim:
    """Comparisons, or additions of a bag's worst thread times threads."""
    out = node.outputs[0].type.shape
    first, *rest = (v.type.shape for v in node.inputs)
    if node.op.name == "scatter":
        return product(out) * rest[0][axis_of(node.attrs["axis"], len(first))]
    if node.op.name == "embedding_bag":
        return product(out) + product(rest[0]) * out[1]
    if node.op.name == "take_grad":
        outer, places, count, inner = _gradient(rest[0], node.attrs["axis"], out)
    else:
        outer, places, count, inner, _ = _tuples(first, rest[0], node.attrs["axis"])
    return outer * dim_min(places, count) * count * _columns(inner)[1]


def _gradient(indices: Shape, axis: int, out: Shape) -> tuple[Dim, Dim, Dim, Dim]:
    """The sizes outer, places, count, inner of a gradient of rows."""
    return product(out[:axis]), out[axis], product(indices), product(out[axis + 1 :])


def _tuples(x: Shape, indices: Shape, axis: int) -> tuple[Dim, Dim, Dim, Dim, Shape]:
    """The same of tuples that name places, and the sizes of the axes that they name."""
    depth = indices[-1]
    assert isinstance(depth, int), "the op's shape rule wants it fixed"
    named = x[axis : axis + depth]
    inner = product(x[axis + depth :])
    return product(x[:axis]), product(named), product(indices[:-1]), inner, named


def _pieces(count: Dim) -> Dim:
    """`gh::PIECE`: parts of writers in order, of which each is met on its own."""
    return (count + 63) // 64


def _columns(inner: Dim, limit: int = MOST_COLUMNS) -> tuple[int, Dim]:
    """Columns of a lane, and warps that share a row."""
    per = int(min(max(-(-most(inner) // 32), 1), limit))
    return per, (inner + (32 * per - 1)) // (32 * per)


# ------------------------------------------------------------------------------------ rendering
def _held(tile: Tile) -> str:
    """The type of sums and products: places may be named often, so float64 for all floats."""
    dtype = tile.operands[0].element.dtype
    mode = dict(tile.attrs).get("mode", "add")
    if not dtype.is_float:
        return C_TYPE[dtype]
    return "double" if mode in ("add", "mul") or dtype is float64 else "float"


def _numbers(dims: Shape) -> str:
    return ", ".join(f"(int64_t){size_text(d)}" for d in dims) or "1"


def _rows(out: CudaText, tile: Tile) -> None:
    """Rows that come to places: `scatter_nd`, and the gradient of `take`."""
    if tile.op == "take_grad":
        g, indices = tile.operands
        outer, places, count, inner = _gradient(indices.shape, tile.attr("axis"), tile.shape)
        x, rows, mode = "", view(g).buffer, "add"
        named: Shape = (places,)
    else:
        base, indices, updates = tile.operands
        outer, places, count, inner, named = _tuples(base.shape, indices.shape, tile.attr("axis"))
        x, rows, mode = view(base).buffer, view(updates).buffer, tile.attr("mode")
    lines, writers = _ordered_tile(tile), _unordered(tile)
    per, blocks = _columns(inner, MOST_COLUMNS if lines is None else ORDERED_COLUMNS)
    kind = C_TYPE[tile.operands[0].element.dtype]
    tuples = _tuple_text(named)
    sizes = ", ".join(size_text(d) for d in (outer, places, count, inner))
    source, to = x or f"(const {kind}*)0", tile.writes[0][1]
    given = f"ctx, {source}, {view(indices).buffer}, {rows}, {tuples}, {sizes}, {to}"
    of = f"gh::Meeting::{mode}, {per}, {_held(tile)}"
    if writers is not None:
        put_atomics(out, tile, mode, writers, source, rows)
        return
    if lines is not None:
        put_fill(out, tile, source)
        which = f"gh::NamedPlaces<{len(named)}, {C_TYPE[indices.element.dtype]}>"
        items = put_order(out, tile, lines, f"{which}{{ctx, {view(indices).buffer}, {tuples}}}")
        pieces = f"({_held(tile)}*){out.scratch(tile, PIECES)}"
        with out.function(((outer * _pieces(count) + 7) // 8, blocks, 1), 256):
            given = f"{lines.items(items)}, {rows}, {size_text(outer)}, {size_text(inner)}"
            out.add(f"gh::meet_row_pieces<{of}>({given}, {pieces});", tile.ops)
        with out.function(((outer * count + 7) // 8, blocks, 1), 256):
            sizes = ", ".join(size_text(d) for d in (outer, places, inner))
            given = f"{lines.items(items)}, {source}, {rows}, {pieces}, {sizes}, {to}"
            out.add(f"gh::meet_ordered_rows<{of}>({given});", tile.ops)
        return
    few = isinstance(count, int) and isinstance(places, int) and 0 < count < places
    if few:  # a table of 50257 words, of which a text names 500
        put_fill(out, tile, source)
    warps = outer * count if few else outer * places
    grid = (dim_max((warps + 7) // 8, 1), dim_max(blocks, 1), 1)
    with out.function(grid, 256):
        out.add(f"gh::meet_{'named_' if few else ''}rows<{of}>({given});", tile.ops)


def _ordered_tile(tile: Tile) -> Lines | None:
    return _ordered(tile.op, [o.shape for o in tile.operands], dict(tile.attrs).get("axis", 0))


def _tuple_text(named: Shape) -> str:
    return f"gh::Tuples<{len(named)}>{{{{{_numbers(named)}}}}}"


def _along_text(x: Shape, indices: Shape) -> str:
    return f"gh::Along<{len(x)}>{{{{{_numbers(x)}}}, {{{_numbers(indices)}}}}}"


def _unordered(tile: Tile) -> Writers | None:
    """Writers that are many and may meet in any order."""
    if _ordered_tile(tile) is None:
        return None
    first, indices = tile.operands[:2]
    mode, axis = dict(tile.attrs).get("mode", "add"), tile.attr("axis")
    kind, buffer, elements = (
        C_TYPE[indices.element.dtype],
        view(indices).buffer,
        product(tile.shape),
    )
    if tile.op == "scatter":
        at = axis_of(axis, len(first.shape))
        before, n, inner = (
            product(indices.shape[:at]), indices.shape[at], product(indices.shape[at + 1 :]),
        )  # fmt: skip
        along, sizes = _along_text(first.shape, indices.shape), _numbers((n, inner))
        which = f"gh::ElementsAlong<{at}, {len(first.shape)}, {kind}>{{{buffer}, {along}, {sizes}}}"
        writers = Writers(which, before, n, inner, elements)
    else:
        if tile.op == "take_grad":
            before, places, n, inner = _gradient(indices.shape, axis, tile.shape)
            named: Shape = (places,)
        else:
            before, places, n, inner, named = _tuples(first.shape, indices.shape, axis)
        rows = f"gh::RowsToPlaces<{len(named)}, {kind}>{{{buffer}, {_tuple_text(named)}, "
        which, claims = (f"{rows}{_numbers((n, width, places))}}}" for width in (inner, 1))
        writers = Writers(which, before, n, inner, elements, claims, places)
    return writers if suits(mode, first.element.dtype, writers) else None


def _needs(tile: Tile) -> Needs:
    lines, writers = _ordered_tile(tile), _unordered(tile)
    if lines is None:
        return (), ()
    if writers is not None:
        mode = dict(tile.attrs).get("mode", "add")
        return (), needed(mode, tile.operands[0].element.dtype, writers)
    columns = lines.count
    if tile.op == "take_grad":
        _, indices = tile.operands
        outer, _, _, columns = _gradient(indices.shape, tile.attr("axis"), tile.shape)
        columns = outer * columns
    elif tile.op == "scatter_nd":
        base, indices = tile.operands[:2]
        outer, _, _, columns, _ = _tuples(base.shape, indices.shape, tile.attr("axis"))
        columns = outer * columns
    room = Scratch(PIECES, columns * _pieces(lines.n) * 8, int64)
    return (), (*lines.scratch(min(lines.joins + 1, 2)), room)


def _along(out: CudaText, tile: Tile) -> None:
    x, indices, updates = tile.operands
    axis, total = axis_of(tile.attr("axis"), len(x.shape)), product(x.shape)
    along = _along_text(x.shape, indices.shape)
    lines, writers = _ordered_tile(tile), _unordered(tile)
    if writers is not None:
        put_atomics(out, tile, tile.attr("mode"), writers, view(x).buffer, view(updates).buffer)
        return
    if lines is not None:
        put_fill(out, tile, view(x).buffer)
        which = f"gh::PlacesAlong<{axis}, {len(x.shape)}, {C_TYPE[indices.element.dtype]}>"
        items = put_order(out, tile, lines, f"{which}{{ctx, {view(indices).buffer}, {along}}}")
        of, held = f"gh::Meeting::{tile.attr('mode')}, {axis}", _held(tile)
        pieces, parts = f"({held}*){out.scratch(tile, PIECES)}", lines.count * _pieces(lines.n)
        given, new = lines.items(items), view(updates).buffer
        with out.function(((parts + 255) // 256, 1, 1), 256):
            thread_each(out, parts)
            call = f"gh::meet_pieces_along<{of}, {held}>"
            out.add(f"{call}(e_, {given}, {new}, {along}, {pieces});", tile.ops)
        coming = lines.count * lines.n
        with out.function(((coming + 255) // 256, 1, 1), 256):
            thread_each(out, coming)
            buffers = f"{view(x).buffer}, {new}, {pieces}, {along}, {tile.writes[0][1]}"
            out.add(f"gh::meet_ordered_along<{of}, {held}>(e_, {given}, {buffers});", tile.ops)
        return
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
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


ROUTINES = {
    "embedding_bag": CudaRoutine(_bags),
    "scatter": CudaRoutine(_along, _needs),
    "scatter_nd": CudaRoutine(_rows, _needs),
    "take_grad": CudaRoutine(_rows, _needs),
}
