"""What pooling means in NumPy: one step for each place of the window, over all windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.window import Window, padded_array, window_of


def pool_window(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Window:
    """The window of a pooling op; the stride is the kernel unless given."""
    return window_of(kernel, stride, padding, dilation, default_stride=kernel)


def numbers(sizes: Sequence[Any]) -> list[int]:
    """Sizes that are no longer symbolic."""
    return [int(s) for s in sizes]


def _overhang(window: Window, sizes: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Elements beyond the padding that the last windows reach (ceil_mode)."""
    extents = numbers([window.extent(i) for i in range(len(sizes))])
    return [
        max(0, (n - 1) * window.stride[i] + extents[i] - sizes[i] - sum(sides))
        for i, (n, sides) in enumerate(
            zip(counts, zip(window.begins, window.ends, strict=True), strict=True)
        )
    ]


def _taps(window: Window, counts: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """For each place of the kernel, the slices of the padded array that all windows read there."""
    for place in np.ndindex(*numbers(window.kernel)):
        spots = [
            slice(k * d, k * d + (n - 1) * s + 1, s) if n else slice(0, 0)
            for k, d, s, n in zip(place, window.dilation, window.stride, counts, strict=True)
        ]
        yield (Ellipsis, *spots)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def max_pool_ref(
    x: Array, *, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> Array:  # fmt: skip
    window = pool_window(kernel, stride, padding, dilation)
    sizes = x.shape[2:]
    counts = numbers(window.outputs(sizes, ceil_mode))
    low = _lowest(x.dtype)
    padded = padded_array(x, window, low, _overhang(window, sizes, counts))
    out = np.full((*x.shape[:2], *counts), low, x.dtype)
    for spots in _taps(window, counts):
        np.maximum(out, padded[spots], out=out)
    return out


def max_pool_indices_ref(
    x: Array, *, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> Array:  # fmt: skip
    """The flat spatial index of each maximum: the first one, or the last NaN, as in PyTorch."""
    window = pool_window(kernel, stride, padding, dilation)
    sizes = x.shape[2:]
    counts = numbers(window.outputs(sizes, ceil_mode))
    extra = _overhang(window, sizes, counts)
    padded = padded_array(x, window, _lowest(x.dtype), extra)
    flat = np.arange(int(np.prod(sizes)), dtype=np.int64).reshape(sizes)
    places = padded_array(flat, window, -1, extra)
    best = np.full((*x.shape[:2], *counts), _lowest(x.dtype), x.dtype)
    index = np.full(best.shape, -1, np.int64)
    for spots in _taps(window, counts):
        value, place = padded[spots], places[spots]
        better = (place >= 0) & ((index < 0) | (value > best) | (value != value))
        best = np.where(better, value, best)
        index = np.where(better, place, index)
    return index


def scattered(g: Array, index: Array, sizes: Sequence[int]) -> Array:
    """Each element of g added at its flat spatial index in a tensor of these sizes."""
    planes = int(np.prod(g.shape[:2]))
    size = int(np.prod(sizes))
    base = np.arange(planes).reshape(planes, 1) * size
    where = (index.reshape(planes, int(np.prod(g.shape[2:]))) + base).reshape(-1)
    total = np.bincount(where, widened(g).reshape(-1), planes * size)
    return total.reshape(*g.shape[:2], *sizes)


def max_pool_grad_ref(g: Array, x: Array, **attrs: Any) -> Array:
    return scattered(g, max_pool_indices_ref(x, **attrs), x.shape[2:])


def _divisors(
    window: Window, sizes: Sequence[int], counts: Sequence[int], count_include_pad: bool
) -> Array:
    """How many elements each window counts; what lies beyond the padding never does."""
    total = np.ones(())
    for i, (size, n) in enumerate(zip(sizes, counts, strict=True)):
        taps = np.arange(numbers(window.kernel)[i]) * window.dilation[i]
        at = np.arange(n)[:, None] * window.stride[i] - window.begins[i] + taps
        high = size + window.ends[i] if count_include_pad else size
        counted = (at < high) & (True if count_include_pad else at >= 0)
        total = np.multiply.outer(total, counted.sum(1))
    return np.maximum(total, 1)


def avg_pool_ref(
    x: Array, *, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, count_include_pad: bool,
) -> Array:  # fmt: skip
    window = pool_window(kernel, stride, padding, dilation)
    sizes = x.shape[2:]
    counts = numbers(window.outputs(sizes, ceil_mode))
    padded = padded_array(widened(x), window, 0, _overhang(window, sizes, counts))
    out = np.zeros((*x.shape[:2], *counts), padded.dtype)
    for spots in _taps(window, counts):
        out += padded[spots]
    return (out / _divisors(window, sizes, counts, count_include_pad)).astype(out.dtype)


def avg_pool_grad_ref(
    g: Array, *, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool, count_include_pad: bool,
) -> Array:  # fmt: skip
    window = pool_window(kernel, stride, padding, dilation)
    counts = g.shape[2:]
    extra = _overhang(window, size, counts)
    wide = widened(g)
    share = (wide / _divisors(window, size, counts, count_include_pad)).astype(wide.dtype)
    whole = [
        s + b + e + m for s, b, e, m in zip(size, window.begins, window.ends, extra, strict=True)
    ]
    out = np.zeros((*g.shape[:2], *whole), wide.dtype)
    for spots in _taps(window, counts):
        out[spots] += share
    inner = tuple(slice(b, b + s) for b, s in zip(window.begins, size, strict=True))
    return out[(slice(None), slice(None), *inner)]


# ---------------------------------------------------------------------------------------- adaptive
def regions(size: int, count: int) -> list[tuple[int, int]]:
    """The `count` parts of an axis that an adaptive pool takes; they may overlap by one."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def adaptive_avg_pool_ref(x: Array, *, size: Sequence[int]) -> Array:
    out = widened(x)
    for axis, count in enumerate(size, 2):
        parts = [np.arange(b, e) for b, e in regions(x.shape[axis], count)]
        means = [np.take(out, p, axis).sum(axis) / max(p.size, 1) for p in parts]
        lead = out.shape[:axis] + out.shape[axis + 1 :]
        out = np.stack(means, axis) if means else np.empty((*lead[:axis], 0, *lead[axis:]))
    return out


def _greatest(area: Array) -> Array:
    """The place of the first maximum along the last axis, or of the last NaN, as in PyTorch."""
    nan = np.isnan(area)
    last: Array = area.shape[-1] - 1 - nan[..., ::-1].argmax(-1)
    return np.where(nan.any(-1), last, area.argmax(-1))


def adaptive_max_pool_indices_ref(x: Array, *, size: Sequence[int]) -> Array:
    sizes = x.shape[2:]
    flat = np.arange(int(np.prod(sizes)), dtype=np.int64).reshape(sizes)
    index = np.empty((*x.shape[:2], *size), np.int64)
    parts = [regions(s, n) for s, n in zip(sizes, size, strict=True)]
    for cell in np.ndindex(*size):
        spots = tuple(slice(*parts[i][c]) for i, c in enumerate(cell))
        area = x[(slice(None), slice(None), *spots)].reshape(*x.shape[:2], flat[spots].size)
        index[(slice(None), slice(None), *cell)] = flat[spots].reshape(-1)[_greatest(area)]
    return index


def adaptive_max_pool_ref(x: Array, *, size: Sequence[int]) -> Array:
    index = adaptive_max_pool_indices_ref(x, size=size)
    planes = x.reshape(*x.shape[:2], int(np.prod(x.shape[2:])))
    found = np.take_along_axis(planes, index.reshape(*x.shape[:2], int(np.prod(size))), -1)
    return found.reshape(index.shape)
