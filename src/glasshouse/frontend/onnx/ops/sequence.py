"""How sequences are taken apart during import: as tuples of values, where their length and
the places asked for are known. Optional values are values that may be left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.item import Item
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import bool_
from glasshouse.ops import composite
from glasshouse.ops.shapes import axis_of


def _sequence(c: OnnxCall) -> tuple[Any, ...]:
    found: Any = c.items[0]
    if not isinstance(found, tuple):
        raise Unsupported("a sequence that is not known during import")
    return found


def _wrapped(sequence: Any) -> tuple[Any, ...]:
    """A result that is one sequence."""
    return (tuple(sequence),)


def _place(c: OnnxCall, operand: int, count: int, default: int) -> int:
    place = int(c.number(operand)) if c.has(operand) else default
    if not -count <= place <= count:
        raise Unsupported(f"place {place} in a sequence of {count}")
    return place + count if place < 0 else place


@spell("SequenceEmpty")
def empty(c: OnnxCall) -> Any:
    return _wrapped(())


@spell("SequenceConstruct")
def construct(c: OnnxCall) -> Any:
    return _wrapped(c.items)


@spell("SequenceAt")
def at(c: OnnxCall) -> Any:
    sequence = _sequence(c)
    place = int(c.number(1))
    if not -len(sequence) <= place < len(sequence):
        raise Unsupported(f"place {place} in a sequence of {len(sequence)}")
    return sequence[place]


@spell("SequenceInsert")
def insert(c: OnnxCall) -> Any:
    sequence = _sequence(c)
    place = _place(c, 2, len(sequence), len(sequence))
    return _wrapped((*sequence[:place], c.item(1), *sequence[place:]))


@spell("SequenceErase")
def erase(c: OnnxCall) -> Any:
    sequence = _sequence(c)
    place = _place(c, 1, len(sequence), len(sequence) - 1)
    return _wrapped((*sequence[:place], *sequence[place + 1 :]))


@spell("SequenceLength")
def length(c: OnnxCall) -> Any:
    return c.of_sizes(len(_sequence(c)))


@spell("ConcatFromSequence")
def concat(c: OnnxCall) -> Any:
    parts = [item.handle for item in _sequence(c)]
    if c.attr("new_axis", 0):
        return composite.stack(parts, c.attr("axis"))
    return (
        parts[0] if len(parts) == 1 else parts[0].apply("concat", *parts[1:], axis=c.attr("axis"))
    )


@spell("SplitToSequence")
def split(c: OnnxCall) -> Any:
    x = c[0]
    axis = axis_of(c.attr("axis", 0), x.ndim)
    size = x.shape[axis]
    if not isinstance(size, int):
        raise Unsupported(f"axis {axis} of size {size} as a sequence")
    if not c.has(1):
        parts = composite.split_every(x, 1, axis)
        if not c.attr("keepdims", 1):
            parts = tuple(composite.squeeze(p, axis) for p in parts)
    elif c.type(1).rank == 0:
        parts = composite.split_every(x, int(c.number(1)), axis)
    else:
        sizes = c.ints(1)
        parts = (x,) if len(sizes) == 1 else x.apply("split", axis=axis, sizes=sizes)
    return _wrapped(c.importer.items(parts))


# ----------------------------------------------------------------------------------------- optional
@spell("OptionalHasElement")
def has_element(c: OnnxCall) -> Any:
    return Item(c.builder, bool_, data=np.asarray(c.has(0)))


@spell("OptionalGetElement", "Optional")
def get_element(c: OnnxCall) -> Any:
    if not c.has(0):
        raise Unsupported("an optional value without an element")
    return c.items[0]
