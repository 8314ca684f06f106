"""Lowers elementwise, moving and folding ops to loops: one nest for each shape of output, and for
each piece of a concatenation; pieces share their outer loops.

The iteration space is the output's shape. Building is repeated until it stands: a loop is split
where a reshape asks for it, and loops that folds depend on move outwards, so that a fold is not
computed again for each element. Roles come last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import bounds, product
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.types import Shape
from glasshouse.lower import roles
from glasshouse.lower.access import ACCESS
from glasshouse.lower.cuts import Box, boxes_of
from glasshouse.lower.element import ElementBuilder, Entangled, Names
from glasshouse.lower.fold_parts import FoldParts
from glasshouse.lower.joined_nests import joined
from glasshouse.lower.kernel.expr import Apply, Load
from glasshouse.lower.kernel.index import ZERO, Index, Loop, SplitLoop, of
from glasshouse.lower.kernel.queries import depends
from glasshouse.lower.kernel.statement import Fold, Let, Ops, Statement
from glasshouse.lower.nest import Nest
from glasshouse.lower.order import Order, Orders
from glasshouse.lower.target import Target

_WORTH_TURNING = 4096
"""Elements of an operand from which a copy of it in another order pays."""
_SHORT_ROW = 128
"""Elements of a row from which a fold over vectors of it costs little to add up across lanes."""
_USES = 4
"""Of each element of a value: what computes a mask element by element for each head of attention
again does so once for all."""


@dataclass
class Surroundings:
    """What a nest is built in: the buffers of values, and the names and ops of the kernel."""

    target: Target
    buffers: Mapping[Value, str]
    orders: Orders
    names: Names
    ops_of: Callable[[Node], Ops]
    parts: FoldParts
    turned: Collection[Value] = ()
    """Operands that are left in the order in which they lie now: each is turned once, or nests that
    want it in two orders would have it turned for ever."""

    def elements(
        self, nest: Nest, halves: Mapping[Loop, tuple[Loop, Loop]] | None = None
    ) -> ElementBuilder:
        return ElementBuilder(
            nest, self.target, self.buffers, self.orders, ACCESS, self.names, self.ops_of,
            halves or {},
        )  # fmt: skip


class LiesApart(Unsupported):
    """An operand lies in another order than the result, and nothing goes over vectors for that."""

    def __init__(self, value: Value, order: Order | None) -> None:
        super().__init__("an operand lies in another order than the result")
        self.value, self.order = value, order


@dataclass(frozen=True)
class _Written:
    """A value that a nest computes into a buffer, and reshapes behind it, which move nothing."""

    value: Value
    buffer: str
    reshapes: tuple[Node, ...] = ()


@dataclass
class _Space:
    """The loops over a shape, the index of each axis in terms of them, and the loops of folds that
    a reshape inside of them has split."""

    loops: list[Loop]
    index: list[Index]
    halves: dict[Loop, tuple[Loop, Loop]] = field(default_factory=dict)

    def split(self, request: SplitLoop) -> None:
        outer = Loop(request.loop.name + "o_", request.loop.extent // request.inner)
        inner = Loop(request.loop.name + "i_", request.inner)
        if request.loop not in self.loops:
            # Names are counted anew each time, so the fold finds its loop again. Where another one
            # has that name by then, it is split as well, which changes nothing in what it folds.
            self.halves[request.loop] = outer, inner
            return
        at = self.loops.index(request.loop)
        self.loops[at : at + 1] = [outer, inner]
        parts = of(outer) * request.inner + of(inner)
        self.index = [index.at(request.loop, parts) for index in self.index]

    def outwards(self, wanted: set[Loop]) -> bool:
        """Move the wanted loops outwards, in order; False if they stand there already."""
        moved = [x for x in self.loops if x in wanted] + [x for x in self.loops if x not in wanted]
        changed = moved != self.loops
        self.loops = moved
        return changed


def lower_loops(outputs: Sequence[tuple[Value, str]], around: Surroundings) -> list[Statement]:
    """Statements that compute each output into its buffer; one nest for each output shape, or one
    for each piece of it."""
    by_shape: dict[tuple[Shape, Order | None], list[_Written]] = {}
    for value, name in outputs:
        key = value.type.shape, around.orders.get(value)
        by_shape.setdefault(key, []).append(_Written(value, name))
    out: list[Statement] = []
    for (shape, order), members in by_shape.items():
        if 0 in shape:
            continue
        if len(members) == 1:
            members = [_before_reshapes(members[0], around)]
            shape = members[0].value.type.shape
        nests: list[Sequence[Statement]] = []
        for space in _spaces(shape, order, [m.value for m in members], around):
            nest, elements = _nest_of(space, members, around)
            nest.turn_folds()
            nest.merge()
            nest.hoist(around.target.vectors.elements)
            if around.target.cuts:
                _without_rows_for_lanes(nest, around)
            given, of_folds = roles.assign(nest, around.target)
            if around.target.cuts and not any(role.is_vector for role in given):
                _without_what_holds_up(nest, elements, around)
                _without_what_lies_apart(nest, shape, order, around)
            nests.append(around.parts.split(nest.statements(given, of_folds)))
        out += joined(nests)
    return out


def _before_reshapes(written: _Written, around: Surroundings) -> _Written:
    """What a value is a reshape of, where that falls apart: it has the same elements in the same
    order, and its pieces are no boxes of the reshaped one. An array of 64 x 1000, rolled as one
    row, took 90 us, and takes 6."""
    source = written.value
    reshapes: list[Node] = []
    while source not in around.buffers and source.node.op.name == "reshape":
        if {source, source.node.inputs[0]} & around.orders.keys():
            break
        reshapes.append(source.node)
        source = source.node.inputs[0]
    if source in around.buffers or len(_boxes(source.type.shape, None, [source], around)) == 1:
        return written
    return _Written(source, written.buffer, tuple(reshapes))


def _without_what_holds_up(nest: Nest, elements: ElementBuilder, around: Surroundings) -> None:
    """Have a value lie in memory before, where its being computed here keeps the innermost loop
    from vectors: beside an exponential or the like, and where each of its elements is used often.
    Scores of 8 heads, 128 x 128, with a bias from a table, a test of documents and a tanh took
    2.9 ms, and take 0.3."""
    held_up = roles.held_up_by(nest, around.target)
    value = elements.value_in(held_up[0]) if held_up else None
    if held_up is None or value is None or value in around.buffers:
        return
    least = 1 if held_up[1] else _USES
    turns = product(tuple(loop.extent for loop in nest.loops))
    if bounds(value.type.numel)[1] * least <= bounds(turns)[0]:
        raise Entangled(value)


def _without_what_lies_apart(
    nest: Nest, shape: Shape, order: Order | None, around: Surroundings
) -> None:
    """Have an operand in the order of the result before, where it lies in another: a copy goes by
    blocks, while this loop would read a line of memory for each element. Training convolutions with
    group norms and ReLU between, 4 x 128 x 16 x 16, took 2.2 times as long as in PyTorch."""
    if not nest.loops or not any(
        isinstance(s, Let) and isinstance(s.value, Apply) for s in nest.depth[-1]
    ):
        return
    apart = {
        s.value.buffer
        for s in nest.depth[-1]
        if isinstance(s, Let)
        and isinstance(s.value, Load)
        and s.value.index.step(nest.loops[-1]) not in (0, 1)
    }
    for value, name in around.buffers.items():
        is_large = bounds(value.type.numel)[0] >= _WORTH_TURNING
        other = value.type.shape == shape and around.orders.get(value) != order
        if name in apart and is_large and other and value not in around.turned:
            raise LiesApart(value, order)


def _without_rows_for_lanes(nest: Nest, around: Surroundings) -> None:
    """Have an operand turned before, of which neighbours fold a short row each: then each lane
    folds for itself, and nothing is added up across lanes. Distances of 1000 points to 1000 others
    in 8 dimensions of float64 took 18 ms, and take 1.3."""
    folds = [s for s in nest.depth[-1] if isinstance(s, Fold)]
    if not nest.loops or not folds or not roles.can_fold_by_lane(nest, around.target):
        return
    loop = nest.loops[-1]
    for fold in folds:
        (along,) = fold.loops if len(fold.loops) == 1 else (None,)
        if along is None or not 4 < bounds(along.extent)[1] <= _SHORT_ROW:
            return
        for let in fold.body:
            if not isinstance(let.value, Load) or let.value.index.step(loop) in (0, 1):
                continue
            index = let.value.index
            others = [x.extent for x in nest.loops if index.coefficient(x) == 0]
            if not index.is_affine or index.coefficient(along) != 1:
                return
            if bounds(product(tuple(others)))[0] < _USES:
                return
            rows = [
                v
                for v, name in around.buffers.items()
                if name == let.value.buffer and v.type.shape[-2:] == (loop.extent, along.extent)
            ]
            if not rows or rows[-1] in around.orders or rows[-1] in around.turned:
                return
            rank = rows[-1].type.rank
            raise LiesApart(rows[-1], (*range(rank - 2), rank - 1, rank - 2))


def _spaces(
    shape: Shape, order: Order | None, values: Sequence[Value], around: Surroundings
) -> Iterator[_Space]:
    """The loops over a shape, or over each of the parts that it falls apart into."""
    for box in _boxes(shape, order, values, around):
        sizes = tuple(box[a][1] if a in box else size for a, size in enumerate(shape))
        part = _space_of(sizes, order)
        for axis, (begin, _) in box.items():
            part.index[axis] = part.index[axis] + begin
        yield part


def _boxes(
    shape: Shape, order: Order | None, values: Sequence[Value], around: Surroundings
) -> list[Box]:
    if not around.target.cuts or not shape:
        return [{}]
    return boxes_of(values, around.buffers, (order or range(len(shape)))[-1])


def _space_of(shape: Shape, order: Order | None) -> _Space:
    """Loops over a shape, the fastest axis of the layout innermost."""
    loops = {a: Loop(f"i{a}_", size) for a, size in enumerate(shape) if size != 1}
    index = [of(loops[a]) if a in loops else ZERO for a in range(len(shape))]
    return _Space([loops[a] for a in order or range(len(shape)) if a in loops], index)


def _nest_of(
    space: _Space, outputs: Sequence[_Written], around: Surroundings
) -> tuple[Nest, ElementBuilder]:
    begin = around.names.last
    while True:
        around.names.last = begin
        nest = Nest(list(space.loops))
        elements = around.elements(nest, space.halves)
        try:
            for out in outputs:
                elements.store(out.buffer, out.value, tuple(space.index), out.reshapes)
        except SplitLoop as request:
            space.split(request)
            continue
        folds = nest.folds
        needed = {x for x in space.loops if any(depends(fold, x) for fold in folds)}
        if not space.outwards(needed):
            return nest, elements
