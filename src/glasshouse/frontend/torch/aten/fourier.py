"""How ATen's Fourier transforms are spelled: products with matrices of sines and cosines.

The product has the transform's exact meaning at a cost that grows with the square of the length; so
a length above `LONGEST` stays an opaque node, which PyTorch computes in less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, is_static
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.ops import composite
from glasshouse.ops.shapes import axis_of

LONGEST = 1024


def _length(x: Any, axis: int) -> int:
    size = x.shape[axis]
    if not is_static(size) or size > LONGEST:
        raise Unsupported(f"a Fourier transform of length {size}")
    return int(size)


def _waves(near: Any, steps: Any, count: int, weights: Any = 1.0) -> tuple[Any, Any]:
    """cos and sin of these numbers of steps, `count` of which are a turn, as constants.

    Zeros are zeros: with 1e-16 for sin(pi), what is real would get an imaginary part, whose sign
    decides between an angle of pi and -pi.
    """
    builder = near.builder
    turned = steps % count
    made = [
        np.where((4 * turned + shift) % (2 * count) == 0, 0.0, f(2 * math.pi * turned / count))
        * weights
        for f, shift in ((np.cos, count), (np.sin, 0))
    ]
    kind = near.dtype.carrier
    cosine, sine = (builder.wrap(builder.constant(m.astype(kind), near.dtype)) for m in made)
    return cosine, sine


def _along(x: Any, axis: int, matrix: Any) -> Any:
    """x times a matrix along an axis."""
    last = composite.moveaxis(x, axis, -1)
    return composite.moveaxis(last.apply("matmul", matrix), -1, axis)


def _complex(x: Complex, axis: int, forward: bool) -> Complex:
    a, b = x.parts()
    n = _length(a, axis)
    cosine, sine = _waves(a, np.outer(np.arange(n), np.arange(n)), n)
    (ac, bc), (as_, bs) = ([_along(p, axis, m) for p in (a, b)] for m in (cosine, sine))
    return joined(ac + bs, bc - as_) if forward else joined(ac - bs, bc + as_)


def _scaled(x: Any, normalization: int, count: int) -> Any:
    """Divided by nothing (0), by the root of the number of elements (1), or by that number (2)."""
    if normalization == 0:
        return x
    factor = 1.0 / (math.sqrt(count) if normalization == 1 else count)
    return Complex(x.pairs * factor) if isinstance(x, Complex) else x * factor


@aten("_fft_r2c")
def fft_r2c(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    axes = [axis_of(d, x.ndim) for d in dim]
    count = math.prod(_length(x, a) for a in axes)
    n = _length(x, axes[-1])
    kept = n // 2 + 1 if onesided else n
    # The other way round, so that the sine is not negated: a sum of zeros is 0, and not -0.
    cosine, sine = _waves(x, np.outer(-np.arange(n), np.arange(kept)), n)
    out = joined(_along(x, axes[-1], cosine), _along(x, axes[-1], sine))
    for axis in axes[:-1]:
        out = _complex(out, axis, forward=True)
    return _scaled(out, normalization, count)


@aten("_fft_c2c")
def fft_c2c(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    axes = [axis_of(d, x.ndim) for d in dim]
    count = math.prod(_length(x, a) for a in axes)
    for axis in axes:
        x = _complex(x, axis, forward)
    return _scaled(x, normalization, count)


@aten("_fft_c2r")
def fft_c2r(x: Any, dim: Sequence[int], normalization: int, last_size: Any) -> Any:
    """Backwards, from the half of the last axis that a real result leaves free."""
    axes = [axis_of(d, x.ndim) for d in dim]
    if not is_static(last_size) or last_size > LONGEST:
        raise Unsupported(f"a Fourier transform of length {last_size}")
    n = int(last_size)
    for axis in axes[:-1]:
        x = _complex(x, axis, forward=False)
    a, b = (composite.narrow(p, axes[-1], 0, n // 2 + 1) for p in x.parts())
    # All but the first, and the middle where there is one, stand for two.
    at = np.arange(n // 2 + 1)
    weights = np.where((at == 0) | (2 * at == n), 1.0, 2.0)[:, None]
    cosine, sine = _waves(a, np.outer(at, np.arange(n)), n, weights)
    out = _along(a, axes[-1], cosine) - _along(b, axes[-1], sine)
    count = math.prod(_length(x, a) for a in axes[:-1]) * n
    return _scaled(out, normalization, count)
