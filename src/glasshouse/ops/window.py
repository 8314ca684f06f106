"""How a sliding window is described: kernel, stride, padding and dilation of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError
from glasshouse.ir.attrs import INTS
from glasshouse.ir.dim import Dim, bounds, dim_min, floor_div
from glasshouse.ops.arrays import Array

STRIDE = INTS((), "one number, or one for each spatial axis; 1 when empty")
PADDING = INTS((), "one number, one for each spatial axis, or all begins and then all ends")
DILATION = INTS((), "one number, or one for each spatial axis; 1 when empty")


@dataclass(frozen=True)
class Window:
    """All sizes spelled out, one entry for each spatial axis."""

    kernel: tuple[Dim, ...]
    stride: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def padding(self) -> tuple[int, ...]:
        """As the attribute: all begins, then all ends."""
        return self.begins + self.ends

    def extent(self, axis: int) -> Dim:
        """From the first to the last element that a window touches, both included."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def outputs(self, sizes: Sequence[Dim], ceil_mode: bool = False) -> tuple[Dim, ...]:
        """How many windows fit along each axis."""
        out: list[Dim] = []
        for i, size in enumerate(sizes):
            room = size + self.begins[i] + self.ends[i] - self.extent(i)
            if bounds(room)[1] < 0:
                raise ShapeError(
                    f"a window of {self.extent(i)} does not fit spatial axis {i} of size {size} "
                    f"with padding {self.begins[i]} and {self.ends[i]}"
                )
            step = self.stride[i]
            if ceil_mode:  # the last window may end outside, but begins inside
                inside = floor_div(size + self.begins[i] - 1, step)
                out.append(dim_min(floor_div(room + step - 1, step), inside) + 1)
            else:
                out.append(floor_div(room, step) + 1)
        return tuple(out)


def window_of(
    kernel: Sequence[Dim],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    default_stride: Sequence[int] | None = None,
) -> Window:
    """The window that attributes describe, checked."""
    rank = len(kernel)
    begins, ends = paddings(padding, rank)
    window = Window(
        kernel=tuple(kernel),
        stride=tuple(default_stride) if default_stride and not stride else spread(stride, rank, 1),
        begins=begins,
        ends=ends,
        dilation=spread(dilation, rank, 1),
    )
    for name, given in (
        ("kernel", window.kernel),
        ("stride", window.stride),
        ("dilation", window.dilation),
    ):
        if any(bounds(g)[1] < 1 for g in given):
            raise ShapeError(f"{name} {list(given)} must be positive")
    if any(p < 0 for p in window.padding):
        raise ShapeError(f"padding {list(window.padding)} must not be negative")
    return window


def spread(given: Sequence[Any], rank: int, default: Any, what: str = "sizes") -> tuple[Any, ...]:
    """One entry for each spatial axis."""
    if not given:
        return (default,) * rank
    if len(given) == 1:
        return tuple(given) * rank
    if len(given) != rank:
        raise ShapeError(f"{what} {list(given)} for {rank} spatial axes")
    return tuple(given)


def paddings(given: Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Begins and ends."""
    if rank and len(given) == 2 * rank:
        return tuple(given[:rank]), tuple(given[rank:])
    both = spread(given, rank, 0, "padding")
    return both, both


def padded_array(x: Array, window: Window, value: Any, extra: Sequence[int] = ()) -> Array:
    """The spatial axes (the last ones) with their padding around them, `extra` more at the ends."""
    rank = len(window.kernel)
    more = tuple(extra) or (0,) * rank
    sides = [(b, e + m) for b, e, m in zip(window.begins, window.ends, more, strict=True)]
    if not any(b or e for b, e in sides):
        return x
    return np.pad(x, [(0, 0)] * (x.ndim - rank) + sides, constant_values=value)


def windows_of(padded: Array, window: Window, counts: Sequence[int]) -> Array:
    """A view [..., counts, kernel] of a padded array [..., sizes]: every window of it."""
    rank = len(window.kernel)
    lead, step = padded.shape[:-rank], padded.strides
    axes = range(padded.ndim - rank, padded.ndim)
    kernel = tuple(int(k) for k in window.kernel)  # type: ignore[arg-type]  # numbers by now
    strides = (
        *step[:-rank],
        *[step[a] * s for a, s in zip(axes, window.stride, strict=True)],
        *[step[a] * d for a, d in zip(axes, window.dilation, strict=True)],
    )
    for i, axis in enumerate(axes):
        reach = (counts[i] - 1) * window.stride[i] + (kernel[i] - 1) * window.dilation[i] + 1
        assert counts[i] == 0 or reach <= padded.shape[axis], "a window outside of the array"
    shape = (*lead, *counts, *kernel)
    return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)
