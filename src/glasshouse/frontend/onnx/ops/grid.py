"""How ONNX's GridSample and AffineGrid are spelled."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.frontend.grid import sampled
from glasshouse.frontend.onnx.call import NotKnown, OnnxCall
from glasshouse.frontend.onnx.registry import spell

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@spell("GridSample")
def grid_sample(c: OnnxCall) -> Any:
    mode = c.attr("mode", "linear")
    border, corners = c.attr("padding_mode", "zeros"), bool(c.attr("align_corners", 0))
    return sampled(c[0], c[1], _MODES.get(mode, mode), border, corners)


@spell("AffineGrid")
def affine_grid(c: OnnxCall) -> Any:
    """Places of pixels, from -1 to 1 along each axis, the last axis first, moved by a matrix."""
    theta, sizes = c[0], c.sizes(1)[2:]
    counts = [n for n in sizes if isinstance(n, int)]
    if len(counts) < len(sizes):
        raise NotKnown("AffineGrid: its operand 1 depends on sizes")
    corners = bool(c.attr("align_corners", 0))
    lines = [_line(n, corners) for n in counts]
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(counts)])
    moved = theta.apply("matmul", c.constant(places.reshape(len(places), -1), theta.dtype))
    batch, rank = theta.shape[:2]
    return moved.apply("permute", axes=(0, 2, 1)).apply("reshape", shape=(batch, *counts, rank))


def _line(count: int, corners: bool) -> np.ndarray[Any, Any]:
    """Where pixels lie along an axis: -1 and 1 are centres of the outer ones, or their edges."""
    if corners:
        return np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
    return (2 * np.arange(count) + 1) / count - 1
