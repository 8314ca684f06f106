"""Single quantised convolutions at the ends of what files hold, against exact whole numbers.

Scales from 1e-12 to 1e9 and by channel, zero points at both ends, weights around zero and not,
paddings that differ on each side, odd counts of channels, groups that share lanes: every byte is
the exact one, to one step, and to none where the real number does not lie close to half a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A convolution between bytes; `spread`: decades over which weights' scales differ."""

    channels: tuple[int, int]
    size: tuple[int, int]
    kernel: tuple[int, int]
    padding: tuple[int, int, int, int]  # above, on the left, below, on the right
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    x: tuple[str, int, float] = ("uint8", 0, 0.02)  # type, zero point, scale
    w: tuple[str, int, float] = ("int8", 0, 0.004)
    y: tuple[str, int] = ("uint8", 0)
    spread: float = 0.0
    relu: bool = False


LAYERS = {
    "one channel, tiny": Layer(
        (1, 5), (9, 11), (3, 3), (0, 1, 2, 0), x=("uint8", 255, 1e-12), w=("int8", 0, 3e-9),
        relu=True,
    ),
    "three channels, huge": Layer(
        (3, 17), (17, 13), (5, 3), (2, 1, 0, 3), (2, 1), x=("int8", -128, 1e9), y=("int8", 127),
        spread=2,
    ),
    "weights around 128": Layer(
        (5, 33), (12, 12), (3, 3), (1, 0, 0, 1), (2, 2), (2, 1), w=("uint8", 128, 0.01),
        y=("uint8", 255),
    ),
    "by channel": Layer(
        (33, 33), (8, 15), (2, 3), (0, 1, 1, 2), (2, 2), groups=33, x=("uint8", 200, 0.05),
        y=("int8", -128), spread=1, relu=True,
    ),
    "groups of a vector": Layer(
        (48, 48), (7, 17), (3, 3), (1, 0, 1, 0), (2, 2), groups=3, x=("int8", 127, 0.05), spread=1
    ),
    "groups taken together": Layer(
        (24, 32), (9, 17), (3, 3), (1, 1, 1, 1), groups=8, x=("uint8", 255, 1e3), spread=1,
        relu=True,
    ),
}  # fmt: skip


def bytes_of(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def exact(x: Array, w: Array, s: Layer) -> Array:
    """Sums of whole numbers."""
    top, left, bottom, right = s.padding
    image = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    span = [d * (k - 1) + 1 for d, k in zip(s.dilation, s.kernel, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(image, span, (2, 3))
    windows = windows[:, :, :: s.stride[0], :: s.stride[1], :: s.dilation[0], :: s.dilation[1]]
    parts = zip(np.split(windows, s.groups, 1), np.split(w, s.groups), strict=True)
    sums = [np.einsum("nchwij,ocij->nohw", a, b, optimize=True) for a, b in parts]
    return np.concatenate(sums, 1)


@pytest.mark.parametrize("name", LAYERS)
def test_every_byte_is_the_exact_one(name: str) -> None:
    s, rng = LAYERS[name], np.random.default_rng(0)
    x = bytes_of(rng, s.x[0], (1, s.channels[0], *s.size))
    w = bytes_of(rng, s.w[0], (s.channels[1], s.channels[0] // s.groups, *s.kernel))
    scale = (s.w[2] * 10 ** rng.uniform(-s.spread, s.spread, s.channels[1])).astype(np.float32)
    sums = exact(x.astype(np.int64) - s.x[1], w.astype(np.int64) - s.w[1], s)
    real = sums * np.float64(np.float32(s.x[2])) * scale.astype(np.float64)[:, None, None]
    real = np.maximum(real, 0) if s.relu else real
    step = np.float32(np.quantile(np.abs(real), 0.95) / 200)

    b = GraphBuilder()

    def numbers(scale: float, zero: int, dtype: str) -> tuple[Any, Any]:
        return b.constant(np.float32(scale)), b.constant(np.array(zero, dtype))

    given = b.input(s.x[0], x.shape).apply("dequantize", *numbers(s.x[2], s.x[1], s.x[0]))
    zeros = b.weight(np.full(len(scale), s.w[1], s.w[0]), s.w[0])
    weights = b.weight(w, s.w[0]).apply("dequantize", b.weight(scale, "float32"), zeros, axis=0)
    y = given.apply(
        "conv", weights, stride=s.stride, padding=s.padding, dilation=s.dilation, groups=s.groups
    )
    y = y.apply("relu") if s.relu else y
    stored = y.apply("quantize", *numbers(step, s.y[1], s.y[0]), dtype=as_dtype(s.y[0]))
    found = compile_graph(optimize(b.finish(stored)))(x)

    limits, steps = np.iinfo(s.y[0]), real / np.float64(step)
    off = np.abs(found - np.clip(np.rint(steps) + s.y[1], limits.min, limits.max))
    close = np.abs(steps - np.floor(steps) - 0.5) < 0.01
    assert off.max() <= 1
    assert not off[~close].any()
    assert len(np.unique(found)) > 40
