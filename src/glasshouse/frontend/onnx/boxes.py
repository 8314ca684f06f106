"""Boxes of detectors, as whole arrays: NonMaxSuppression and the means of RoiAlign.

Both run as opaque nodes, since how many boxes there are is known when a model runs. ONNX's
reference evaluator compares boxes, and adds up samples, one by one; here some boxes are compared
together, and a region's samples along an axis are a matrix of weights, because bilinear weights are
products of those along rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Meaning = Callable[[Sequence[Array | None]], list[Array]]
"""An op on its operands by place, None for those that are left out."""
_TOGETHER = 64  # boxes that are compared with each other at once: few enough where the first do


def meaning_of(op: str, attrs: Mapping[str, Any], opset: int) -> Meaning | None:
    """How an op is computed here; None leaves it to the reference evaluator."""
    if op == "NonMaxSuppression":
        centered = bool(attrs.get("center_point_box", 0))
        return lambda given: [_not_suppressed(given, centered)]
    if op == "RoiAlign" and attrs.get("mode", "avg") == "avg":
        usual = "half_pixel" if opset >= 16 else "output_half_pixel"
        mode = attrs.get("coordinate_transformation_mode", usual)
        return lambda given: [_aligned(given, attrs, mode == "half_pixel")]
    return None


# -------------------------------------------------------------------------------- NonMaxSuppression
def _not_suppressed(given: Sequence[Array | None], centered: bool) -> Array:
    """[batch, class, box] of what is kept: by batch, class and falling score, the first of equals
    first."""
    boxes, scores, *numbers = (*given, None, None, None)[:5]
    assert boxes is not None
    assert scores is not None
    most, overlap, least = (None if n is None else n.reshape(-1)[0] for n in numbers)
    kept: list[tuple[int, int, int]] = []
    if most is not None and most > 0:
        for batch, of_classes in enumerate(scores):
            corners = _corners(boxes[batch], centered)
            for number, of_boxes in enumerate(of_classes):
                order = np.argsort(-of_boxes, kind="stable")
                if least is not None:
                    order = order[of_boxes[order] > least]
                chosen = _chosen(corners, order, int(most), np.float32(overlap or 0))
                kept += [(batch, number, box) for box in chosen]
    return np.array(kept, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centered: bool) -> Array:
    """Least and greatest places of boxes: four rows."""
    if centered:
        half = boxes[:, 2:] / 2
        return np.concatenate((boxes[:, :2] - half, boxes[:, :2] + half), 1).T
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), 1).T


def _chosen(corners: Array, order: Array, most: int, overlap: np.float32) -> list[int]:
    """Boxes in this order without those that share more than `overlap` with one before."""
    chosen: list[int] = []
    for begin in range(0, len(order), _TOGETHER):
        block = order[begin : begin + _TOGETHER]
        among = _overlapping(corners, block, block, overlap)
        before = _overlapping(corners, np.array(chosen, np.int64), block, overlap)
        gone = np.logical_or.reduce(before)
        for place, box in enumerate(block.tolist()):
            if gone[place]:
                continue
            chosen.append(box)
            if len(chosen) == most:
                return chosen
            gone |= among[place]
    return chosen


def _overlapping(corners: Array, some: Array, others: Array, overlap: np.float32) -> Array:
    """Whether each of some boxes shares more than `overlap` with each of the others."""
    a, b = corners[:, some, None], corners[:, None, others]
    inside = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = inside[0] * inside[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    both = areas[0] + areas[1] - shared
    real = (inside > 0).all(0) & (areas[0] > 0) & (areas[1] > 0) & (both > 0)
    return np.asarray(real & (shared > overlap * both))


# ----------------------------------------------------------------------------------------- RoiAlign
def _aligned(given: Sequence[Array | None], attrs: Mapping[str, Any], half_pixel: bool) -> Array:
    """Means of bilinear samples over the bins of each region."""
    x, regions, images = given
    assert x is not None
    assert regions is not None
    assert images is not None
    scale, shift = float(attrs.get("spatial_scale", 1.0)), 0.5 if half_pixel else 0.0
    bins = int(attrs.get("output_height", 1)), int(attrs.get("output_width", 1))
    samples = int(attrs.get("sampling_ratio", 0))
    result = np.zeros((len(regions), x.shape[1], *bins), x.dtype)
    for number, (left, top, right, bottom) in enumerate(regions.astype(np.float64) * scale - shift):
        sizes = bottom - top, right - left
        if not half_pixel:
            sizes = max(sizes[0], 1.0), max(sizes[1], 1.0)
        (y0, down), (x0, along) = (
            _weights(begin, size, count, samples, limit)
            for begin, size, count, limit in zip((top, left), sizes, bins, x.shape[2:], strict=True)
        )
        part = x[images[number], :, y0 : y0 + down.shape[1], x0 : x0 + along.shape[1]]
        result[number] = down.astype(x.dtype) @ part @ along.T.astype(x.dtype)
    return result


def _weights(begin: float, size: float, bins: int, samples: int, limit: int) -> tuple[int, Array]:
    """The first place that counts, and for each bin the weights of places from there on."""
    count = samples or ceil(size / bins)
    if count <= 0:  # no samples in what has no size
        return 0, np.zeros((bins, 1))
    at = begin + (np.arange(bins * count) + 0.5) * (size / bins / count)
    real = (at >= -1) & (at <= limit)
    at = np.clip(at, 0, limit - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, limit - 1)
    first, last = int(low.min()), int(high.max())
    weights = np.zeros((bins, last - first + 1))
    rows = np.arange(bins * count) // count
    np.add.at(weights, (rows, low - first), real * (1 - (at - low)) / count)
    np.add.at(weights, (rows, high - first), real * (at - low) / count)
    return first, weights
