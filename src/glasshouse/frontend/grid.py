"""How sampling at computed places is spelled: lookups around each place, mixed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as every
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int64
from glasshouse.ops import composite
from glasshouse.ops.shape import expanded, reshaped

_CUBIC = -0.75  # the slope parameter, as in PyTorch


def _inner(t: Any) -> Any:
    return ((t * (_CUBIC + 2) - (_CUBIC + 3)) * t) * t + 1.0


def _outer(t: Any) -> Any:
    return ((t * _CUBIC - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC


# Offsets of the elements that a place takes along one axis, and what part each has in the result.
_Tap = tuple[int, Callable[[Any], Any]]
_TAPS: dict[str, list[_Tap]] = {
    "linear": [(0, lambda t: 1.0 - t), (1, lambda t: t)],
    "cubic": [
        (-1, lambda t: _outer(t + 1.0)), (0, _inner),
        (1, lambda t: _inner(1.0 - t)), (2, lambda t: _outer(2.0 - t)),
    ],
}  # fmt: skip


def sampled(x: Any, grid: Any, mode: str, border: str, corners: bool) -> Any:
    """x at the places of a grid, which go from -1 to 1 along each axis."""
    rank = x.ndim - 2
    sizes = x.shape[2:]
    if any(not isinstance(s, int) for s in sizes):
        raise Unsupported("samples of sizes that are not known")
    wide = grid.cast(x.dtype)
    places = []
    for i, size in enumerate(sizes):
        # The last axis of the grid counts backwards: x is the last spatial axis.
        part = composite.narrow(wide, -1, rank - 1 - i, 1)
        at = reshaped(part, grid.shape[:-1])
        at = (at + 1.0) * ((size - 1) / 2) if corners else ((at + 1.0) * float(size) - 1.0) * 0.5
        if mode != "cubic":
            at = _bordered(at, size, border, corners)
        places.append(at)
    if mode == "nearest":
        return _looked_up(x, [p.apply("round") for p in places], border, corners)
    if mode not in _TAPS:
        raise Unsupported(f"samples with the mode {mode}")
    lows = [p.apply("floor") for p in places]
    total = None
    for taps in every(_TAPS[mode], repeat=rank):
        found = _looked_up(
            x, [low + float(o) for low, (o, _) in zip(lows, taps, strict=True)], border, corners
        )
        share = None
        for place, low, (_, part) in zip(places, lows, taps, strict=True):
            one = part(place - low)
            share = one if share is None else share * one
        term = found * reshaped(share, (grid.shape[0], 1, *grid.shape[1:-1]))
        total = term if total is None else total + term
    return total


def _bordered(at: Any, size: int, border: str, corners: bool) -> Any:
    """Places outside brought to where the border mode takes its elements from."""
    if border == "border":
        return at.apply("clip", low=0.0, high=float(size - 1))
    if border != "reflection":
        return at
    low, high = (0.0, float(size - 1)) if corners else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return at * 0.0
    # Back and forth with the period of two spans: the distance from the nearest even multiple.
    turned = (at - low) % (2 * span)
    back = (turned > span).apply("where", 2 * span - turned, turned) + low
    return back.apply("clip", low=0.0, high=float(size - 1))


def _looked_up(x: Any, places: list[Any], border: str, corners: bool) -> Any:
    """The elements at whole places [N, out...] of every channel, as [N, C, out...]."""
    sizes = x.shape[2:]
    inside = None
    flat = None
    for place, size in zip(places, sizes, strict=True):
        place = place if border == "zeros" else _bordered(place, size, border, corners)
        if border == "zeros":
            fits = (place >= 0.0).apply("logical_and", place <= float(size - 1))
            inside = fits if inside is None else inside.apply("logical_and", fits)
        index = place.apply("clip", low=0.0, high=float(size - 1)).cast(int64)
        flat = index if flat is None else flat * size + index
    batch, channels = x.shape[:2]
    out = flat.shape[1:]  # type: ignore[union-attr]  # there is at least one axis
    count = product(out)
    rows = expanded(reshaped(flat, (batch, 1, count)), (batch, channels, count))
    planes = reshaped(x, (batch, channels, product(sizes)))
    found = reshaped(planes.apply("gather", rows, axis=2), (batch, channels, *out))
    if inside is None:
        return found
    return reshaped(inside, (batch, 1, *out)).apply("where", found, 0.0)
