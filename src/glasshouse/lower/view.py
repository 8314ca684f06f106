"""Operands of tiles: a value read in place, through strides on a buffer, without a copy.

Reshapes, permutations, slices and expansions between a buffer and a tile move the index only. Where
the position stays affine in the tile's loops, its coefficients are the strides.
"""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.lower.access import VIEWS
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.index import ZERO, Index, Loop, SplitLoop, of, offset
from glasshouse.lower.kernel.statement import Operand
from glasshouse.lower.order import Order, lying, position


def view_of(builder: KernelBuilder, value: Value, loops: Sequence[Loop]) -> Operand:
    """The value over loops, one for each axis; it is computed into memory if it is no view."""
    wanted = _index(loops)
    found = _followed(builder, value, wanted)
    if found is None:
        buffer = builder.in_memory(value)
        found = Load(buffer, offset(wanted, value.type.shape), value.type.dtype)
    return Operand(tuple(loops), found, value in builder.constants)


def whole(builder: KernelBuilder, value: Value, order: Order | None = None) -> Operand:
    """The whole value, in memory in this order, over one loop for each axis."""
    buffer = builder.in_memory(value, order)
    loops = axes(value.type.shape)
    index = _index(loops)
    if order is None:
        place = offset(index, value.type.shape)
    else:
        place = offset(tuple(index[a] for a in order), lying(value.type.shape, order))
    return Operand(loops, Load(buffer, place, value.type.dtype), value in builder.constants)


def axes(shape: Sequence[Dim]) -> tuple[Loop, ...]:
    """A loop for each axis of an operand."""
    return tuple(Loop(f"a{axis}_", size) for axis, size in enumerate(shape))


def _index(loops: Sequence[Loop]) -> tuple[Index, ...]:
    return tuple(ZERO if loop.extent == 1 else of(loop) for loop in loops)


def _followed(builder: KernelBuilder, value: Value, index: tuple[Index, ...]) -> Load | None:
    try:
        while value not in builder.buffers:
            move = VIEWS.get(value.node.op.name)
            if move is None:
                return None
            value, index = move(value.node, value.index, index)
    except SplitLoop:
        return None
    place = position(value, index, builder.orders)
    return Load(builder.buffers[value], place, value.type.dtype) if place.is_affine else None
