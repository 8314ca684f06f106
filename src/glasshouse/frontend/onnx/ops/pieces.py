"""How ONNX's joining, splitting, slicing and padding are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dim import Dim, SymDim, bounds, dim_max, dim_min
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near
from glasshouse.ops.pieces import cut
from glasshouse.ops.shapes import axis_of


@spell("Concat")
def concat(c: OnnxCall) -> Any:
    parts = c.handles()
    axis = c.attr("axis", 1)
    return parts[0] if len(parts) == 1 else parts[0].apply("concat", *parts[1:], axis=axis)


@spell("Split")
def split(c: OnnxCall) -> Any:
    x = c[0]
    axis = axis_of(c.attr("axis", 0), x.ndim)
    size = x.shape[axis]
    if (declared := c.declared_for_want_of(1, c.outputs)) is not None:
        sizes: list[Dim] = [t.shape[axis] for t in declared]
    elif c.has(1) or c.attr("split") is not None:
        sizes = c.sizes(1) if c.has(1) else list(c.attr("split"))
    else:
        sizes = _even(size, c.attr("num_outputs") or c.outputs)
    if len(sizes) == 1:
        return x
    return x.apply("split", axis=axis, sizes=sizes)


def _even(size: Dim, count: int) -> list[Dim]:
    if isinstance(size, SymDim):
        each = size // count
        if each * count != size:
            raise Unsupported(f"{count} even parts of {size}")
        return [each] * count
    each = -(-size // count)
    return [max(0, min(each, size - i * each)) for i in range(count)]


# -------------------------------------------------------------------------------------------- slice
@spell("Slice")
def slice_(c: OnnxCall) -> Any:
    x = c[0]
    starts: list[Dim]
    ends: list[Dim]
    if c.has(1):
        starts, ends = c.sizes(1), c.sizes(2)
        axes = c.ints(3) if c.has(3) else list(range(len(starts)))
        steps = c.ints(4) if c.has(4) else [1] * len(starts)
    else:
        starts, ends = list(c.attr("starts")), list(c.attr("ends"))
        axes = c.attr("axes") or list(range(len(starts)))
        steps = [1] * len(starts)
    places: list[tuple[Dim, Dim, int]] = [(0, d, 1) for d in x.shape]
    turned = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis_of(axis, x.ndim)
        if step < 0:
            # The same elements the other way round: flip first, count from the other end.
            turned.append(at)
            places[at] = _reversed(start, end, -step, x.shape[at])
        else:
            first, last = _inside(start, x.shape[at]), _inside(end, x.shape[at])
            # A start lies inside, so an end that is the size is never before it.
            stop = last if last == x.shape[at] else dim_max(first, last)
            places[at] = (first, stop, step)
    if turned:
        x = x.apply("flip", axes=turned)
    if all(p == (0, d, 1) for p, d in zip(places, x.shape, strict=True)):
        return x if turned else c.items[0]
    begins, stops, strides = zip(*places, strict=True)
    return x.apply("slice", starts=begins, ends=stops, steps=strides)


def _inside(place: Dim, size: Dim) -> Dim:
    """A start or end as Python means it, brought between 0 and the size."""
    low, high = bounds(place)
    if high < 0:
        return dim_max(0, place + size)
    if low < 0:
        raise Unsupported(f"a slice at {place}, which may be negative")
    if isinstance(place, int) and place >= 2**31 - 1:
        return size
    return dim_min(place, size)


def _reversed(start: Dim, end: Dim, step: int, size: Dim) -> tuple[Dim, Dim, int]:
    """Where a slice with a negative step lies in the flipped axis."""
    if bounds(start)[1] < 0:
        start = start + size
    first = size - 1 - dim_max(-1, dim_min(start, size - 1))
    if isinstance(end, int) and end < -(2**31):
        last = size
    else:
        if bounds(end)[1] < 0:
            end = end + size
        last = size - 1 - dim_max(-1, dim_min(end, size - 1))
    return first, dim_max(first, last), step


# ---------------------------------------------------------------------------------------------- pad
@spell("Pad")
def pad(c: OnnxCall) -> Any:
    x = c[0]
    mode = c.attr("mode", "constant")
    given: list[Dim] = c.sizes(1) if c.has(1) else list(c.attr("pads") or c.attr("paddings"))
    axes = [axis_of(a, x.ndim) for a in c.ints(3)] if c.has(3) else list(range(x.ndim))
    if c.has(2):
        value = c.number(2)
    else:
        value = c.attr("value", 0.0)
    value = value if x.dtype.is_float else int(value)
    begins: list[Dim] = [0] * x.ndim
    ends: list[Dim] = [0] * x.ndim
    for i, axis in enumerate(axes):
        begins[axis], ends[axis] = given[i], given[len(axes) + i]
    for axis in range(x.ndim):
        crop = [max(0, -p) if isinstance(p, int) else 0 for p in (begins[axis], ends[axis])]
        x = cut(x, axis, crop[0], x.shape[axis] - crop[1])
        begins[axis] = begins[axis] + crop[0]
        ends[axis] = ends[axis] + crop[1]
    if mode == "wrap":
        return _wrapped(x, begins, ends)
    if all(p == 0 for p in (*begins, *ends)):
        return x
    if mode == "constant":
        return x.apply("pad", padding=[*begins, *ends], value=value)
    return x.apply("pad", padding=[*begins, *ends], mode=mode)


def _wrapped(x: Any, begins: list[Dim], ends: list[Dim]) -> Any:
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if begin != 0 or end != 0:
            size = x.shape[axis]
            places = arange_near(x, size + end, start=-begin if begin != 0 else 0)
            whole = x.builder.apply("full", shape=(), value=size, dtype=places.dtype)
            x = x.apply("take", places % whole, axis=axis)
    return x


# --------------------------------------------------------------------------------------- by length
@spell("ReverseSequence")
def reverse_sequence(c: OnnxCall) -> Any:
    x, lengths = c[0], c[1]
    time, batch = c.attr("time_axis", 0), c.attr("batch_axis", 1)
    x = composite.moveaxis(x, [batch, time], [0, 1])
    count, steps = x.shape[:2]
    place = arange_near(x, steps)
    bound = composite.reshape(lengths.cast("int64"), [count, 1])
    place = (place < bound).apply("where", bound - 1 - place, place)
    place = composite.reshape(place, [count, steps, *[1] * (x.ndim - 2)])
    place = composite.broadcast_to(place, x.shape)
    return composite.moveaxis(x.apply("gather", place, axis=1), [0, 1], [batch, time])
