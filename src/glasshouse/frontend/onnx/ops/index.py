"""How ONNX's reading and writing by index are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import int32, int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import axis_of


def _indices(x: Any) -> Any:
    return x if x.dtype in (int32, int64) else x.cast(int64)


@spell("Gather")
def gather(c: OnnxCall) -> Any:
    x, axis = c[0], axis_of(c.attr("axis", 0), c[0].ndim)
    known = c.value(1)
    if known is not None and known.size == 1 and known.dtype != object:
        # One place is a slice: no index to read when it runs.
        place = int(known.reshape(-1)[0])
        size = x.shape[axis]
        start = place if place >= 0 else place + size
        piece = composite.narrow(x, axis, start, 1)
        return reshaped(piece, (*x.shape[:axis], *known.shape, *x.shape[axis + 1 :]))
    return x.apply("take", _indices(c[1]), axis=axis)


@spell("GatherElements")
def gather_elements(c: OnnxCall) -> Any:
    return c[0].apply("gather", _indices(c[1]), axis=c.attr("axis", 0))


@spell("GatherND")
def gather_nd(c: OnnxCall) -> Any:
    x, places = c[0], _indices(c[1])
    batch = c.attr("batch_dims", 0)
    if not batch:
        return x.apply("gather_nd", places)
    lead = x.shape[:batch]
    full = (*places.shape[:-1], 1)
    parts = []
    for axis in range(batch):
        shape = [1] * len(full)
        shape[axis] = lead[axis]
        parts.append(expanded(reshaped(arange_near(x, lead[axis]), shape), full))
    return x.apply("gather_nd", parts[0].apply("concat", *parts[1:], places.cast(int64), axis=-1))


def _mode(how: str) -> str:
    if how not in ("none", "add", "mul", "max", "min"):
        raise Unsupported(f"scattering with {how}")
    return "set" if how == "none" else how


@spell("ScatterElements", "Scatter")
def scatter_elements(c: OnnxCall) -> Any:
    x, places, updates = c[0], _indices(c[1]), c[2]
    axis, how = c.attr("axis", 0), c.attr("reduction", "none")
    return x.apply("scatter", places, updates, axis=axis, mode=_mode(how))


@spell("ScatterND")
def scatter_nd(c: OnnxCall) -> Any:
    how = c.attr("reduction", "none")
    return c[0].apply("scatter_nd", _indices(c[1]), c[2], mode=_mode(how))


@spell("OneHot")
def one_hot(c: OnnxCall) -> Any:
    depth = int(c.number(1))
    values = c[2]
    places = c[0].cast(int64)
    axis = c.attr("axis", -1)
    rank = places.ndim + 1
    at = axis_of(axis, rank)
    # Compared instead of looked up: an index outside of -depth .. depth - 1 is off everywhere.
    wrapped = (places < 0).apply("where", places + depth, places)
    shape = [1] * rank
    shape[at] = depth
    hot = composite.unsqueeze(wrapped, at).apply(
        "equal", reshaped(arange_near(places, depth), shape)
    )
    off, on = (reshaped(composite.narrow(values, 0, i, 1), ()) for i in range(2))
    return hot.apply("where", on, off)


@spell("TensorScatter")
def tensor_scatter(c: OnnxCall) -> Any:
    """A cache with new entries written along an axis, from a place for each sample."""
    cache, update = c[0], c[1]
    axis = axis_of(c.attr("axis", -2), cache.ndim)
    count, size = update.shape[axis], cache.shape[axis]
    steps = [1] * cache.ndim
    steps[axis] = count
    place = reshaped(arange_near(cache, count), steps)
    if c.has(2):
        place = place + reshaped(c[2].cast(int64), (cache.shape[0], *[1] * (cache.ndim - 1)))
    if c.attr("mode", "linear") == "circular":
        place = place % c.full((), size, int64)
    return cache.apply("scatter", expanded(place, update.shape), update, axis=axis)
