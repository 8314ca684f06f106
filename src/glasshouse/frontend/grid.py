"""How sampling at computed places is spelled: a bag of the pixels around each place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as every
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int64
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import reshaped

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


def sampled(x: Any, grid: Any, mode: str, border: str, corners: bool, bags: bool = True) -> Any:
    """x at the places of a grid, which go from -1 to 1 along each axis.

    Without `bags`, pixels are looked up one after the other: GPUs have no kernel for bags, and
    their number must be known.
    """
    rank = x.ndim - 2
    sizes = x.shape[2:]
    if any(not isinstance(s, int) for s in sizes):
        raise Unsupported("samples of sizes that are not known")
    bags = bags and all(isinstance(s, int) for s in (*x.shape, *grid.shape))
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
        return _mixed(x, [_pixels(x, [p.apply("round") for p in places], border)], [], bags)
    if mode not in _TAPS:
        raise Unsupported(f"samples with the mode {mode}")
    lows = [p.apply("floor") for p in places]
    pixels, shares = [], []
    for taps in every(_TAPS[mode], repeat=rank):
        near = [low + float(o) for low, (o, _) in zip(lows, taps, strict=True)]
        if mode == "cubic":
            near = [_bordered(p, s, border, corners) for p, s in zip(near, sizes, strict=True)]
        share = None
        for place, low, (_, part) in zip(places, lows, taps, strict=True):
            one = part(place - low)
            share = one if share is None else share * one
        shares.append(share)
        pixels.append(_pixels(x, near, border, share))
    return _mixed(x, pixels, shares, bags)


def _mixed(x: Any, pixels: list[Any], shares: list[Any], bags: bool) -> Any:
    """The sum of pixels [N, out...] of every channel, each times its share, as [N, C, out...].

    Pixels are rows of channels, and those of one place are a bag: each is read once, for all
    channels, and none is gathered first.
    """
    batch, out = pixels[0].shape[0], pixels[0].shape[1:]
    channels, most = x.shape[1], product((x.shape[0], *x.shape[2:]))
    table = reshaped(composite.moveaxis(x, 1, -1), (most, channels))
    if not bags:
        total = None
        for pixel, share in zip(pixels, shares or [None], strict=True):
            there = pixel >= 0
            term = table.apply("take", there.apply("where", pixel, 0))
            term = term if share is None else term * composite.unsqueeze(share, -1)
            term = composite.unsqueeze(there, -1).apply("where", term, 0.0)
            total = term if total is None else total + term
        return composite.moveaxis(total, -1, 1)
    count = batch * product(out)
    many = count * len(pixels)
    rows = reshaped(composite.stack(pixels, -1), (many,))
    rows = (rows < 0).apply("where", most, rows)
    first = arange_near(x, count) * len(pixels)
    scale = [reshaped(composite.stack(shares, -1), (many,))] if shares else []
    found = table.apply("embedding_bag", rows, first, *scale, skipped=most)
    return composite.moveaxis(reshaped(found, (batch, *out, channels)), -1, 1)


def _bordered(at: Any, size: int, border: str, corners: bool) -> Any:
    """Places outside brought to where the border mode takes its elements from; NaN to 0."""
    if border == "border":
        return _clipped(at, size)
    if border != "reflection":
        return at
    low, high = (0.0, float(size - 1)) if corners else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return at * 0.0
    # Back and forth with the period of two spans: the distance from the nearest even multiple.
    turned = (at - low) % (2 * span)
    back = (turned > span).apply("where", 2 * span - turned, turned) + low
    return _clipped(back, size)


def _clipped(at: Any, size: int) -> Any:
    held = at.apply("clip", low=0.0, high=float(size - 1))
    return at.apply("isnan").apply("where", 0.0, held)


def _pixels(x: Any, places: list[Any], border: str, share: Any = None) -> Any:
    """The numbers of the pixels at whole places [N, out...], counted through the batch; -1 where a
    place has none. A `share` that is NaN, as of an infinite place, is kept."""
    sizes = x.shape[2:]
    inside = None
    flat = None
    for place, size in zip(places, sizes, strict=True):
        if border == "zeros":
            fits = (place >= 0.0).apply("logical_and", place <= float(size - 1))
            inside = fits if inside is None else inside.apply("logical_and", fits)
        index = _clipped(place, size).cast(int64)
        flat = index if flat is None else flat * size + index
    batch, area = x.shape[0], product(sizes)
    image = reshaped(arange_near(x, batch) * area, (batch, *[1] * (len(flat.shape) - 1)))  # type: ignore[union-attr]  # there is at least one axis
    found = flat + image
    if inside is None:
        return found
    if share is not None:
        inside = inside.apply("logical_or", share.apply("isnan"))
    return inside.apply("where", found, -1)
