"""Decides the loops of a group without a template: elementwise, moving and folding ops in one nest.

The iteration space is the output's shape. Building is repeated until it stands: a loop is split
where a reshape asks for it, loops that folds depend on move outwards (so that a fold is not
computed again for each element), and vectors give way to single elements where they must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glasshouse.errors import Unsupported
from glasshouse.ir.graph import Value
from glasshouse.ir.types import Shape
from glasshouse.lower.access import ACCESS
from glasshouse.lower.index import ZERO, Index, Loop, SplitLoop, of
from glasshouse.lower.nest import Nest
from glasshouse.lower.order import Order, Orders
from glasshouse.lower.scalar import NotVector, ScalarCode
from glasshouse.lower.target import Target


@dataclass
class _Space:
    """The loops over a shape, and the index of each axis in terms of them."""

    loops: list[Loop]
    index: list[Index]

    def split(self, request: SplitLoop) -> None:
        if request.loop not in self.loops:
            raise Unsupported("a reshape inside of a reduction needs a kernel of its own")
        at = self.loops.index(request.loop)
        outer = Loop(request.loop.name + "o_", request.loop.extent // request.inner)
        inner = Loop(request.loop.name + "i_", request.inner)
        self.loops[at : at + 1] = [outer, inner]
        parts = of(outer) * request.inner + of(inner)
        for axis, index in enumerate(self.index):
            if (factor := index.coefficient(request.loop)) != 0:
                rest = Index(
                    tuple((a, c) for a, c in index.terms if a != request.loop), index.constant
                )
                self.index[axis] = rest + parts * factor

    def outwards(self, wanted: set[Loop]) -> bool:
        """Move the wanted loops outwards, in order; False if they stand there already."""
        moved = [x for x in self.loops if x in wanted] + [x for x in self.loops if x not in wanted]
        changed = moved != self.loops
        self.loops = moved
        return changed


def lower_loops(
    outputs: Sequence[tuple[Value, str]],
    buffers: Mapping[Value, str],
    orders: Orders,
    target: Target,
) -> list[str]:
    """Lines of C++ that compute each output into its buffer; one nest for each output shape."""
    by_shape: dict[tuple[Shape, Order | None], list[tuple[Value, str]]] = {}
    for value, name in outputs:
        by_shape.setdefault((value.type.shape, orders.get(value)), []).append((value, name))
    lines: list[str] = []
    for (shape, order), members in by_shape.items():
        if 0 in shape:
            continue
        space = _space_of(shape, order)
        lines += _nest_of(space, members, buffers, orders, target).render()
    return lines


def _space_of(shape: Shape, order: Order | None) -> _Space:
    """Loops over a shape, the axis that lies fastest innermost."""
    loops = {a: Loop(f"i{a}_", size) for a, size in enumerate(shape) if size != 1}
    index = [of(loops[a]) if a in loops else ZERO for a in range(len(shape))]
    return _Space([loops[a] for a in order or range(len(shape)) if a in loops], index)


def _nest_of(
    space: _Space,
    outputs: Sequence[tuple[Value, str]],
    buffers: Mapping[Value, str],
    orders: Orders,
    target: Target,
) -> Nest:
    # Whether the nest, its folds, or its folds lane by lane go over vectors: what is best first.
    modes = [(True, True, False), (False, True, False), (True, False, True), (False, False, False)]
    while True:
        vector, fold_vector, along = modes[0]
        if along and not space.loops:
            modes.pop(0)
            continue
        nest = Nest(list(space.loops), vector and bool(space.loops), fold_vector, along)
        code = ScalarCode(nest, target, buffers, orders, ACCESS)
        try:
            for value, name in outputs:
                code.store(name, value, tuple(space.index))
        except SplitLoop as request:
            space.split(request)
            continue
        except NotVector:
            modes.pop(0)
            continue
        needed = _needed_by_folds(nest, space)
        if along and (needed != set(space.loops) or not nest.folds_come_first):
            modes.pop(0)  # a fold would be computed again for each element of a loop around it
            continue
        if not space.outwards(needed):
            return nest


def _needed_by_folds(nest: Nest, space: _Space) -> set[Loop]:
    """Loops that stand around a fold because its index depends on them."""
    needed: set[Loop] = set()
    for fold in nest.folds:
        names = " ".join(fold.begin + fold.inside)
        slots = [o for i, o in enumerate(nest.offsets) if f"\x01{i}\x02" in names]
        needed |= {x for x in space.loops if any(o.depends_on(x) for o in slots) or x.name in names}
    return needed
