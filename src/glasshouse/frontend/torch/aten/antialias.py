"""How ATen's resizing with antialiasing is spelled: a product with weights for each axis.

Making an image smaller widens the filter by the same factor, so that every element counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, is_static
from glasshouse.ops import composite

Array = np.ndarray[Any, Any]


def _triangle(x: Array) -> Array:
    return np.clip(1.0 - np.abs(x), 0.0, None)


def _cubic(x: Array) -> Array:
    a, size = -0.5, np.abs(x)
    near = ((a + 2) * size - (a + 3)) * size * size + 1
    far = ((a * size - 5 * a) * size + 8 * a) * size - 4 * a
    return np.where(size < 1, near, np.where(size < 2, far, 0.0))


def _weights(
    size: int, wanted: int, scale: float, reach: float, filter_: Callable[[Array], Array]
) -> Array:
    """[wanted, size]: what part each element has in each of the results."""
    out = np.zeros((wanted, size))
    stretch = max(scale, 1.0)
    for i in range(wanted):
        centre = scale * (i + 0.5)
        low = max(math.floor(centre - reach * stretch + 0.5), 0)
        high = min(math.floor(centre + reach * stretch + 0.5), size)
        places = np.arange(low, high)
        part = filter_((places - centre + 0.5) / stretch)
        out[i, low:high] = part / part.sum()
    return out


def _smooth(reach: float, filter_: Callable[[Array], Array]) -> Any:
    def spelling(x: Any, size: Any, corners: bool, *scales: Any) -> Any:
        if len(scales) == 1 and isinstance(scales[0], (list, tuple)):  # the `vec` overloads
            scales = tuple(scales[0])
        given = list(scales) if len(scales) == 2 else [None, None]
        if size is None:
            size = [math.floor(d * s) for d, s in zip(x.shape[2:], given, strict=True)]
        if not is_static(*x.shape[2:], *size) or not x.dtype.is_float:
            raise Unsupported("antialiasing without fixed sizes")
        for axis, (wanted, factor) in enumerate(zip(size, given, strict=True), 2):
            have = x.shape[axis]
            if corners:
                step = (have - 1) / (wanted - 1) if wanted > 1 else 0.0
            else:
                step = 1 / factor if factor else have / wanted
            table = _weights(have, wanted, step, reach, filter_).T.astype(x.dtype.carrier)
            matrix = x.builder.wrap(x.builder.constant(np.ascontiguousarray(table), x.dtype))
            last = composite.moveaxis(x, axis, -1).apply("matmul", matrix)
            x = composite.moveaxis(last, -1, axis)
        return x

    return spelling


aten("_upsample_bilinear2d_aa")(_smooth(1.0, _triangle))
aten("_upsample_bicubic2d_aa")(_smooth(2.0, _cubic))
