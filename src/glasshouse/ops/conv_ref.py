"""What convolutions mean in NumPy: windows gathered into matrices, one product a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.window import padded_array, spread, window_of, windows_of

_CHUNK = 1 << 25  # elements of gathered windows held at once: 128 MB in float32


def _chunks(samples: int, elements: int) -> Iterator[slice]:
    """Ranges of the batch whose gathered windows stay below the limit."""
    step = max(1, _CHUNK // max(elements, 1))
    for begin in range(0, samples, step):
        yield slice(begin, min(samples, begin + step))


def _columns(windows: Array, groups: int, rank: int) -> Array:
    """[n, c, counts, kernel] as [groups, n * counts, c / groups * kernel]."""
    n, c = windows.shape[:2]
    counts, kernel = windows.shape[2 : 2 + rank], windows.shape[2 + rank :]
    apart = windows.reshape(n, groups, c // groups, *counts, *kernel)
    spatial = range(3, 3 + rank)
    order = (1, 0, *spatial, 2, *range(3 + rank, 3 + 2 * rank))
    wide = c // groups * int(np.prod(kernel))
    return apart.transpose(order).reshape(groups, n * int(np.prod(counts)), wide)


def conv_ref(
    x: Array, w: Array, *, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    rank = w.ndim - 2
    window = window_of(w.shape[2:], stride, padding, dilation)
    counts = [int(d) for d in window.outputs(x.shape[2:])]  # type: ignore[arg-type]  # arrays have numbers
    padded, weight = padded_array(widened(x), window, 0), widened(w)
    n, o = x.shape[0], w.shape[0]
    taps = int(np.prod(w.shape[1:]))
    matrix = weight.reshape(groups, o // groups, taps).swapaxes(1, 2)
    out = np.empty((n, o, *counts), np.result_type(padded, weight))
    each = x.shape[1] * int(np.prod(counts)) * int(np.prod(w.shape[2:]))
    for part in _chunks(n, each):
        columns = _columns(windows_of(padded[part], window, counts), groups, rank)
        product = np.matmul(columns, matrix).reshape(groups, -1, *counts, o // groups)
        out[part] = np.moveaxis(product, (0, -1), (1, 2)).reshape(-1, o, *counts)
    return out


def conv_transpose_ref(
    x: Array, w: Array, *, stride: Sequence[int], padding: Sequence[int],
    output_padding: Sequence[int], dilation: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    rank = w.ndim - 2
    window = window_of(w.shape[2:], stride, padding, dilation)
    more = spread(output_padding, rank, 0)
    n, sizes, kernel = x.shape[0], x.shape[2:], w.shape[2:]
    o = w.shape[1] * groups
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, window.dilation, strict=True)]
    full = [
        (s - 1) * t + e + m for s, t, e, m in zip(sizes, window.stride, extents, more, strict=True)
    ]
    left, weight = widened(x), widened(w)
    dtype = np.result_type(left, weight)
    # One product gives what each input element adds at every place of its window.
    matrix = weight.reshape(groups, w.shape[0] // groups, int(np.prod(w.shape[1:])))
    flat = left.reshape(n, groups, x.shape[1] // groups, int(np.prod(sizes)))
    parts = np.matmul(matrix.swapaxes(1, 2), flat).reshape(n, o, *kernel, *sizes)
    out = np.zeros((n, o, *[max(f, 0) for f in full]), dtype)
    if all(sizes):
        for place in np.ndindex(*kernel):
            spots = [
                slice(k * d, k * d + (s - 1) * t + 1, t)
                for k, d, s, t in zip(place, window.dilation, sizes, window.stride, strict=True)
            ]
            out[(slice(None), slice(None), *spots)] += parts[(slice(None), slice(None), *place)]
    inner = [slice(b, f - e) for b, f, e in zip(window.begins, full, window.ends, strict=True)]
    return out[(slice(None), slice(None), *inner)]


def conv_weight_grad_ref(
    x: Array, g: Array, *, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    rank = len(kernel)
    window = window_of(kernel, stride, padding, dilation)
    counts = g.shape[2:]
    padded, slopes = padded_array(widened(x), window, 0), widened(g)
    n, o, c = x.shape[0], g.shape[1], x.shape[1]
    taps = int(np.prod(kernel))
    out = np.zeros((groups, o // groups, c // groups * taps), np.result_type(padded, slopes))
    for part in _chunks(n, c * int(np.prod(counts)) * taps):
        columns = _columns(windows_of(padded[part], window, counts), groups, rank)
        apart = slopes[part].reshape(-1, groups, o // groups, int(np.prod(counts)))
        rows = apart.transpose(1, 2, 0, 3).reshape(groups, o // groups, columns.shape[1])
        out += np.matmul(rows, columns)
    return out.reshape(o, c // groups, *kernel)
