"""What `x[...]` means: ints, slices, None, Ellipsis, integer arrays, and fixed masks.

As in PyTorch: ints and slices apply first; several index arrays broadcast together, and the axis
that they make stands where they stood, or in front when a slice lies between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch, Unsupported
from glasshouse.ir.dim import Dim, SymDim, bounds, dim_max, dim_min
from glasshouse.ir.dtype import Category
from glasshouse.ops.composite.lookup import places_of
from glasshouse.ops.pieces import concat, cut, slice_
from glasshouse.ops.shape import expanded, flip, permuted, reshaped


def getitem(x: Any, key: Any) -> Any:
    """`x[key]`."""
    entries = _entries(x, key)
    x = _sliced(x, [e for e in entries if e is not None])
    shape: list[Dim] = []  # after ints are dropped and Nones added
    arrays: dict[int, Any] = {}
    sizes = iter(x.shape)
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        size = next(sizes)
        if isinstance(entry, (int, SymDim)):
            continue
        if not isinstance(entry, slice):
            arrays[len(shape)] = entry
        shape.append(size)
    return _taken(reshaped(x, shape), arrays)


def normal_slice(entry: slice, size: Dim) -> tuple[Dim, Dim, int]:
    """(start, end, step) with 0 <= start <= end <= size and step > 0, and how Python counts."""
    step = 1 if entry.step is None else int(entry.step)
    if step < 1:
        raise Unsupported("a slice with a negative step has no start and end that ascend")
    start = _clamped(entry.start, size, 0)
    end = _clamped(entry.stop, size, size)
    return start, dim_max(start, end), step


def _clamped(given: Any, size: Dim, default: Dim) -> Dim:
    if given is None:
        return default
    place: Dim = given if isinstance(given, SymDim) else int(given)
    if bounds(place)[1] < 0:
        return dim_max(0, size + place)
    return dim_min(place, size)


def _entries(x: Any, key: Any) -> list[Any]:
    """One entry for each axis, and the Nones; Ellipsis, masks and what is missing spelled out."""
    given: list[Any] = []
    for entry in key if isinstance(key, tuple) else (key,):
        given += _converted(x, entry)
    used = sum(e is not None and e is not Ellipsis for e in given)
    if used > x.ndim or sum(e is Ellipsis for e in given) > 1:
        raise ShapeError(f"getitem({x.type}): too many indices: {key!r}", x.builder.where())
    if not any(e is Ellipsis for e in given):
        given.append(Ellipsis)
    at = next(i for i, e in enumerate(given) if e is Ellipsis)
    return [*given[:at], *[slice(None)] * (x.ndim - used), *given[at + 1 :]]


def _converted(x: Any, entry: Any) -> list[Any]:
    if entry is None or entry is Ellipsis or isinstance(entry, (slice, SymDim)):
        return [entry]
    if isinstance(entry, (bool, np.bool_)):
        raise Unsupported("getitem: a bool adds an axis in NumPy; use None", x.builder.where())
    if isinstance(entry, (int, np.integer)):
        return [int(entry)]
    if isinstance(entry, (list, np.ndarray)):
        array = np.asarray(entry, None if np.size(entry) else np.int64)
        if array.dtype == bool:
            return list(np.nonzero(array))
        if array.dtype.kind in "iu":
            return [array.astype(np.int64)]
    category = getattr(getattr(entry, "dtype", None), "category", None)
    if category is Category.INT:
        return [entry]
    if category is Category.BOOL:
        raise Unsupported(
            "getitem: the size of a selection by a computed mask is not known before it runs",
            x.builder.where(),
            "masked_fill and where keep the shape; a mask that is a NumPy array works here",
        )
    raise TypeMismatch(f"getitem: {entry!r} is no index", x.builder.where())


def _sliced(x: Any, entries: list[Any]) -> Any:
    starts: list[Dim] = []
    ends: list[Dim] = []
    steps: list[int] = []
    reverse: list[int] = []
    for axis, (entry, size) in enumerate(zip(entries, x.shape, strict=True)):
        start: Dim = 0
        end: Dim = size
        step = 1
        if isinstance(entry, (int, SymDim)):
            start = size + entry if bounds(entry)[1] < 0 else entry
            end = start + 1
            if bounds(start)[1] < 0 or bounds(size - start)[1] <= 0:
                what = f"getitem({x.type}): index {entry} is out of range for axis {axis}"
                raise ShapeError(what, x.builder.where())
        elif isinstance(entry, slice):
            if entry.step is not None and int(entry.step) < 0:
                start, end, step = _reversed(x, entry, size)
                reverse.append(axis)
            elif entry != slice(None):
                start, end, step = normal_slice(entry, size)
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if any(s != 0 for s in starts) or tuple(ends) != x.shape or any(s != 1 for s in steps):
        x = slice_(x, starts=starts, ends=ends, steps=steps if any(s != 1 for s in steps) else ())
    return flip(x, axes=reverse) if reverse else x


def _reversed(x: Any, entry: slice, size: Dim) -> tuple[Dim, Dim, int]:
    """The same elements as a slice with a negative step, in ascending order."""
    step = -int(entry.step)
    if isinstance(size, int):
        places = range(*entry.indices(size))
        return (places[-1], places[0] + 1, step) if places else (0, 0, step)
    if entry.start is None and entry.stop is None and step == 1:
        return 0, size, 1
    raise Unsupported(
        f"getitem({x.type}): a negative step along an axis without a fixed size", x.builder.where()
    )


def _taken(x: Any, arrays: dict[int, Any]) -> Any:
    if not arrays:
        return x
    axes = list(arrays)
    if len(axes) == 1:
        return x.apply("take", arrays[axes[0]], axis=axes[0])
    places = places_of(x, list(arrays.values()))
    rest = [a for a in range(x.ndim) if a not in arrays]
    out = permuted(x, [*axes, *rest]).apply("gather_nd", places)
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return out
    new = list(range(places.ndim - 1))
    others = [len(new) + i for i in range(len(rest))]
    return permuted(out, [*others[: axes[0]], *new, *others[axes[0] :]])


# ---------------------------------------------------------------------------------------- writing
def setitem(x: Any, key: Any, value: Any) -> Any:
    """x with `x[key]` replaced by `value`, which broadcasts; ints, slices with step 1, Ellipsis."""
    entries = _entries(x, key)
    if any(e is None for e in entries):
        raise Unsupported(f"setitem({x.type}): None in {key!r}", x.builder.where())
    ranges: list[tuple[Dim, Dim]] = []
    shape: list[Dim] = []  # of x[key]
    for axis, (entry, size) in enumerate(zip(entries, x.shape, strict=True)):
        if isinstance(entry, (int, SymDim)):
            start = size + entry if bounds(entry)[1] < 0 else entry
            if bounds(start)[1] < 0 or bounds(size - start)[1] <= 0:
                what = f"setitem({x.type}): index {entry} is out of range for axis {axis}"
                raise ShapeError(what, x.builder.where())
            ranges.append((start, start + 1))
        elif isinstance(entry, slice) and entry.step in (None, 1):
            begin, end, _ = normal_slice(entry, size)
            ranges.append((begin, end))
            shape.append(end - begin)
        else:
            what = f"setitem({x.type}): {entry!r} is not an int or a slice with step 1"
            raise Unsupported(what, x.builder.where(), "scatter and scatter_nd write anywhere")
    if not hasattr(value, "builder"):
        value = x.builder.wrap(x.builder.constant(value, x.dtype))
    new = reshaped(expanded(value.cast(x.dtype), shape), [end - begin for begin, end in ranges])
    # From the inside out: the part to be written grows axis by axis until it is all of x.
    partial = [i for i, r in enumerate(ranges) if r != (0, x.shape[i])]
    outer = {}
    whole = x
    for axis in partial:
        outer[axis] = whole
        if axis != partial[-1]:
            whole = cut(whole, axis, *ranges[axis])
    for axis in reversed(partial):
        begin, end = ranges[axis]
        before = [cut(outer[axis], axis, 0, begin)] if begin != 0 else []
        after = [cut(outer[axis], axis, end, x.shape[axis])] if end != x.shape[axis] else []
        new = concat(*before, new, *after, axis=axis)
    return new
