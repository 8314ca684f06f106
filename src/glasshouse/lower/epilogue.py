"""What a tile does with each result: the ops behind it, inlined at its index.

A tile hands over results and their index. From there the index is carried forward to each output,
unchanged through elementwise ops, moved through reshapes and permutations; the statements are then
those of `element`, with the tile's result given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.expr import Var
from glasshouse.lower.kernel.index import ZERO, Index, Loop, SplitLoop, delinearized, of, offset
from glasshouse.lower.kernel.statement import Parts, Statement, Store, Tile
from glasshouse.lower.nest import Nest
from glasshouse.lower.order import Order, lying
from glasshouse.lower.roles import nest_has_vectors
from glasshouse.ops.shapes import axis_of

RESULT = "acc"
"""The variable in which a tile hands over its results."""


@dataclass(frozen=True)
class Epilogue:
    """The variables over which a tile hands over its results, and what becomes of each."""

    variables: tuple[Loop, ...]
    statements: tuple[Statement, ...]


@dataclass
class _Place:
    """The position of a result in the tile's output, in terms of the tile's variables."""

    loops: list[Loop]  # the last one runs over the lanes
    position: Index
    order: Order | None  # in which the axes of the result follow each other
    parts: list[tuple[Loop, Loop, Loop]] = field(default_factory=list)  # one, its outer and inner

    def split(self, request: SplitLoop, widest: int) -> None:
        """Two variables for one, by a division that is done once for each vector."""
        loop, inner = request.loop, request.inner
        if loop not in self.loops:
            raise Unsupported("a reshape inside of a reduction follows")
        if loop == self.loops[-1] and (isinstance(inner, SymDim) or inner % widest != 0):
            raise Unsupported("vectors of results would be cut in two")
        outer_loop = Loop(loop.name + "o_", loop.extent // inner)
        inner_loop = Loop(loop.name + "i_", inner)
        self.parts.append((loop, outer_loop, inner_loop))
        at = self.loops.index(loop)
        self.loops[at : at + 1] = [outer_loop, inner_loop]
        self.position = self.position.at(loop, of(outer_loop) * inner + of(inner_loop))


def take_results(
    builder: KernelBuilder, result: Value, variables: dict[str, Dim], order: Order | None = None
) -> Epilogue:
    """Statements for each result.

    `variables` are the tile's indices with their extents, outermost first; together they run over
    its output in `order` (row-major if None), the last one over the lanes. What follows in the
    group is inlined where it can be; otherwise the plain results are written, in the tile's order,
    and loops compute the rest from there.
    """
    loops = tuple(Loop(name, extent) for name, extent in variables.items())
    try:
        statements = _inlined(builder, result, loops, order)
    except Unsupported:
        buffer = builder.place_for(result, order)
        where = offset(tuple(of(x) for x in loops), tuple(x.extent for x in loops))
        dtype = result.type.dtype
        ops = builder.ops_of(result.node)
        return Epilogue(loops, (Store(buffer, where, Var(RESULT, dtype), dtype, ops),))
    for value in _outputs(builder):
        builder.buffers[value] = builder.outputs[value]
    return Epilogue(loops, statements)


def _outputs(builder: KernelBuilder) -> list[Value]:
    return [v for v in builder.body.outputs if v not in builder.buffers]


def _inlined(
    builder: KernelBuilder, result: Value, loops: tuple[Loop, ...], order: Order | None
) -> tuple[Statement, ...]:
    """Raises `Unsupported` where what follows cannot be inlined."""
    index = tuple(of(x) if x.extent != 1 or x is loops[-1] else ZERO for x in loops)
    place = _Place(list(loops), offset(index, tuple(x.extent for x in loops)), order)
    begin = builder.names.last
    while True:
        builder.names.last = begin
        try:
            return _attempt(builder, result, place)
        except SplitLoop as request:
            place.split(request, builder.target.widest)


def _attempt(builder: KernelBuilder, result: Value, place: _Place) -> tuple[Statement, ...]:
    outputs = _outputs(builder)
    order = place.order or tuple(range(result.type.rank))
    along = delinearized(place.position, lying(result.type.shape, order))
    index = tuple(along[order.index(axis)] for axis in range(result.type.rank))
    where = _forward(result, index, outputs)
    nest = Nest(list(place.loops))
    elements = builder.around.elements(nest)
    elements.given[result] = Var(RESULT, result.type.dtype)
    for value in outputs:
        elements.store(builder.outputs[value], value, where[value])
    if nest.folds:
        raise Unsupported("a reduction follows")
    # A tile that hands over single results (widest 1) needs none of what follows side by side.
    if builder.target.widest > 1 and not nest_has_vectors(nest, builder.target):
        raise Unsupported("what follows has no vector form")
    # A pixel is split into row and column to follow what comes, which mostly leads to one place as
    # far on as the pixel: two divisions for each vector were 5 % of a Winograd layer of 64
    # channels. So parts that are put together again everywhere are never taken apart.
    parts = nest.join_parts(place.parts)
    return (*(Parts(*p) for p in parts), *nest.depth[-1])


def in_order(tile: Tile) -> Store | None:
    """A store of the epilogue that fills its buffer in the order of the tile's results."""
    where = offset(tuple(of(x) for x in tile.variables), tuple(x.extent for x in tile.variables))
    still = [x for x in tile.variables if x.extent == 1]
    for s in tile.epilogue:
        if isinstance(s, Parts):
            where = where.at(s.loop, of(s.outer) * s.inner.extent + of(s.inner))
    for s in tile.epilogue:
        if isinstance(s, Store) and (s.index + -where).without(*still) == ZERO:
            return s
    return None


def _forward(
    result: Value, index: tuple[Index, ...], outputs: list[Value]
) -> dict[Value, tuple[Index, ...]]:
    """The index at which each output depends on the tile's result at `index`."""
    where = {result: index}
    pending = [result]
    while pending:
        value = pending.pop()
        for user in value.users:
            moved = _moved(user, value, where[value])
            out = user.outputs[0]
            if out not in where:
                where[out] = moved
                pending.append(out)
    if any(v not in where for v in outputs):
        raise Unsupported("an output does not depend on the tile")
    return where


def _moved(user: Node, value: Value, index: tuple[Index, ...]) -> tuple[Index, ...]:
    shape, out = value.type.shape, user.outputs[0].type.shape
    if user.op.kind is Kind.ELEMENTWISE:
        if len(out) < len(shape) or out[len(out) - len(shape) :] != shape:
            raise Unsupported("results are broadcast")
        if any(d != 1 for d in out[: len(out) - len(shape)]):
            raise Unsupported("results are repeated")
        return (ZERO,) * (len(out) - len(shape)) + index
    if user.op.name == "reshape":
        return delinearized(offset(index, shape), out)
    if user.op.name == "permute":
        return tuple(index[axis_of(a, len(shape))] for a in user.attrs["axes"])
    if user.op.name == "rearrange":
        merged = []
        for axes in user.attrs["plan"]:
            axes = [axis_of(a, len(shape)) for a in axes]
            merged.append(offset(tuple(index[a] for a in axes), tuple(shape[a] for a in axes)))
        return tuple(merged)
    raise Unsupported(f"{user.op.name} follows")
