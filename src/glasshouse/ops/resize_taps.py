"""Which elements of an axis make each element of a resized one, and with what parts.

Along an axis an output element is a sum of a few taps: one input element (nearest), two (linear)
or four (cubic), at the border the outermost one again. With antialiasing the filter is as much
wider as the axis shrinks, and what would lie beyond the border does not count.
"""

from __future__ import annotations

import numpy as np

from glasshouse.ops.arrays import Array

SLOPES = {False: -0.75, True: -0.5}
"""The slope parameter of the cubic kernel without and with antialiasing, as in PyTorch."""

Tap = tuple[Array, Array | None]
"""Input indices and the factors they enter with; None is 1. An index of -1 takes no element."""


def taps(
    length: int, count: int, mode: str, coordinates: str, scale: float | None, antialias: bool
) -> list[Tap]:
    """What each of `count` output elements takes from an axis of `length`."""
    step = length / count if scale is None else 1.0 / scale
    if coordinates == "align_corners":
        step = (length - 1) / (count - 1) if count > 1 else 0.0
    if antialias:
        return _windows(length, count, step, mode == "cubic")
    shift = 0.5 if coordinates == "half_pixel" else 0.0
    at = np.arange(count)
    if mode == "nearest":
        # In float32, as PyTorch has it: half a unit in the last place decides the element.
        near = (at.astype(np.float32) + np.float32(shift)) * np.float32(step)
        if coordinates == "align_corners":
            near = near + np.float32(0.5)
        return [(np.clip(np.floor(near).astype(np.int64), 0, length - 1), None)]
    place = (at + shift) * step - shift
    if mode == "linear":
        place = np.maximum(place, 0)
    first = np.floor(place)
    part = place - first
    if mode == "linear":
        factors = [1 - part, part]
        offset = 0
    else:
        factors = [_cubic(np.abs(part - i), SLOPES[False]) for i in (-1, 0, 1, 2)]
        offset = -1
    index = first.astype(np.int64)
    return [
        (np.clip(index + offset + i, 0, length - 1), factor) for i, factor in enumerate(factors)
    ]


def _cubic(t: Array, slope: float) -> Array:
    """The cubic kernel at distances of up to 2; 0 beyond."""
    near = ((slope + 2) * t - (slope + 3)) * t * t + 1
    far = ((slope * t - 5 * slope) * t + 8 * slope) * t - 4 * slope
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _windows(length: int, count: int, step: float, cubic: bool) -> list[Tap]:
    """All elements whose centres are within the filter's reach, with parts that add up to 1."""
    stretch = max(step, 1.0)
    reach = (2 if cubic else 1) * stretch
    centre = ((np.arange(count) + 0.5) * step)[:, None]
    low = np.minimum(np.floor(centre - reach + 0.5), length - 1)
    at = (low + np.arange(int(2 * reach) + 2)).astype(np.int64)
    inside = (at >= 0) & (at < np.minimum(np.floor(centre + reach + 0.5), length))
    t = np.abs((at - centre + 0.5) / stretch)
    part = np.where(inside, _cubic(t, SLOPES[True]) if cubic else np.clip(1 - t, 0, None), 0.0)
    beyond = (part == 0).all(1, keepdims=True)  # by scales that are not the ratio of sizes
    part[beyond & (at == length - 1)] = 1.0
    # An element at the end of a window that has no part in it is not read: 0 * inf would be NaN.
    some = part != 0
    inside &= np.maximum.accumulate(some, 1) & np.maximum.accumulate(some[:, ::-1], 1)[:, ::-1]
    part /= part.sum(1, keepdims=True)
    return [(np.where(i, a, -1), p) for i, a, p in zip(inside.T, at.T, part.T, strict=True)]
