"""How ATen's Fourier transforms are spelled: one axis at a time, and scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, in_float32, is_static
from glasshouse.frontend.torch.complex import Complex, as_complex
from glasshouse.ops import composite
from glasshouse.ops.shapes import axis_of


def _length(x: Any, axis: int) -> int:
    size = x.shape[axis]
    if not is_static(size) or size < 1:
        raise Unsupported(f"a Fourier transform of length {size}")
    return int(size)


def _complex(x: Complex, axis: int, forward: bool) -> Complex:
    _length(x, axis)
    return Complex(x.pairs.apply("fft", axis=axis, inverse=not forward))


def _scaled(x: Any, normalization: int, count: int) -> Any:
    """Divided by nothing (0), by the root of the number of elements (1), or by that number (2)."""
    if normalization == 0:
        return x
    factor = 1.0 / (math.sqrt(count) if normalization == 1 else count)
    return Complex(x.pairs * factor) if isinstance(x, Complex) else x * factor


@aten("_fft_r2c")
@in_float32
def fft_r2c(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    axes = [axis_of(d, x.ndim) for d in dim]
    count = math.prod(_length(x, a) for a in axes)
    if onesided:
        out = Complex(x.apply("fft", axis=axes[-1], form="real"))
    else:
        out = _complex(as_complex(x), axes[-1], forward=True)
    for axis in axes[:-1]:
        out = _complex(out, axis, forward=True)
    return _scaled(out, normalization, count)


@aten("_fft_c2c")
@in_float32
def fft_c2c(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    axes = [axis_of(d, x.ndim) for d in dim]
    count = math.prod(_length(x, a) for a in axes)
    for axis in axes:
        x = _complex(x, axis, forward)
    return _scaled(x, normalization, count)


@aten("_fft_c2r")
@in_float32
def fft_c2r(x: Any, dim: Sequence[int], normalization: int, last_size: Any) -> Any:
    """Backwards, from the half of the last axis that a real result leaves free."""
    axes = [axis_of(d, x.ndim) for d in dim]
    if not is_static(last_size) or last_size < 1:
        raise Unsupported(f"a Fourier transform of length {last_size}")
    n = int(last_size)
    for axis in axes[:-1]:
        x = _complex(x, axis, forward=False)
    half = composite.narrow(x.pairs, axes[-1], 0, n // 2 + 1)
    out = half.apply("fft", axis=axes[-1], form="half", inverse=True, size=n)
    count = math.prod(_length(x, a) for a in axes[:-1]) * n
    return _scaled(out, normalization, count)
