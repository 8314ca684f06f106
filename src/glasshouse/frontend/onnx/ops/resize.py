"""How ONNX's Resize is spelled: as the core's where both take the same elements with the
same parts, else axis by axis as a lookup (nearest) or a product with a matrix of parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32
from glasshouse.ops import composite
from glasshouse.ops.resize_taps import SLOPES, taps
from glasshouse.ops.shapes import axis_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """One resized axis: sizes before and after, scale, and for crops where it begins and ends."""

    place: int
    size: Dim
    count: Dim
    scale: float
    begin: float = 0.0
    end: float = 1.0

    def numbers(self) -> tuple[int, int]:
        """Size and count; for axes where both are known."""
        assert isinstance(self.size, int), self.size
        assert isinstance(self.count, int), self.count
        return self.size, self.count


@dataclass(frozen=True)
class How:
    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool
    outside: float

    def places(self, axis: Axis) -> Array:
        """Where in the input each output element lies."""
        size, count = axis.numbers()
        at = np.arange(count)
        kind = self.coordinates
        # ONNX's own evaluator measures with the exact product, not with the whole number below it.
        ends = axis.scale * size - 1
        if kind == "align_corners":
            return at * ((size - 1) / ends) if count > 1 else at * 0.0
        if kind == "asymmetric":
            return at / axis.scale
        if kind == "tf_crop_and_resize":
            if count == 1:
                return np.array([0.5 * (axis.begin + axis.end) * (size - 1)])
            step = (axis.end - axis.begin) * (size - 1) / ends
            return axis.begin * (size - 1) + at * step
        if kind == "pytorch_half_pixel" and count == 1:
            return at * 0.0
        out: Array = (at + 0.5) / axis.scale - 0.5
        if kind == "half_pixel_symmetric":
            out = out + size / 2 * (1 - count / (axis.scale * size))
        return out

    def indices(self, axis: Axis) -> Array:
        x = self.places(axis)
        found = {
            "round_prefer_floor": np.ceil(x - 0.5), "round_prefer_ceil": np.floor(x + 0.5),
            "floor": np.floor(x), "ceil": np.ceil(x),
        }[self.nearest]  # fmt: skip
        return np.clip(found, 0, axis.numbers()[0] - 1).astype(np.int64)

    def matrix(self, axis: Axis) -> Array:
        """[count, size]: the part that each input element has in each output element."""
        size, x = axis.numbers()[0], self.places(axis)
        base = np.ceil(x) - 1  # the element to the left, so that the rest is in (0, 1]
        squeeze = min(axis.scale, 1.0) if self.antialias else 1.0
        reach = 1 if self.mode == "linear" else 2
        start = math.floor(-reach / squeeze) + 1
        offsets = np.arange(start, 2 - start)
        parts = self._kernel(np.abs((offsets - (x - base)[:, None]) * squeeze))
        where = (base[:, None] + offsets).astype(np.int64)
        if self.exclude:
            parts = np.where((where >= 0) & (where < size), parts, 0.0)
        if self.exclude or self.antialias:
            parts = parts / parts.sum(1, keepdims=True)
        out = np.zeros((len(x), size))
        np.add.at(out, (np.arange(len(x))[:, None], np.clip(where, 0, size - 1)), parts)
        return out

    def _kernel(self, t: Array) -> Array:
        if self.mode == "linear":
            return np.asarray(np.clip(1 - t, 0, 1))
        a = self.cubic
        near: Array = (a + 2) * t**3 - (a + 3) * t**2 + 1
        far: Array = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


@spell("Resize", "Upsample")
def resize(c: OnnxCall) -> Any:
    x, how = c[0], _how(c)
    axes = [a for a in _axes(c, how) if a.size != a.count or a.scale != 1 or how.outside != 0]
    if how.coordinates != "tf_crop_and_resize":
        axes = [a for a in axes if not (a.size == a.count and a.scale == 1)]
    if not axes:
        return c.items[0]
    core = _as_core(x, axes, how)
    if core is not None:
        return core
    if any(not isinstance(s, int) for a in axes for s in (a.size, a.count)):
        raise Unsupported(f"{how.mode} with {how.coordinates} of sizes that are not known")
    wide = x if how.mode == "nearest" or x.dtype.is_float else x.cast(float32)
    for axis in axes:
        if how.mode == "nearest":
            wide = wide.apply("take", c.constant(how.indices(axis)), axis=axis.place)
        else:
            matrix = c.constant(how.matrix(axis).T.astype(np.float64), wide.dtype)
            moved = composite.moveaxis(wide, axis.place, -1)
            wide = composite.moveaxis(moved.apply("matmul", matrix), -1, axis.place)
    if how.coordinates == "tf_crop_and_resize":
        wide = _filled(c, wide, axes, how)
    return wide.cast(x.dtype)


def _filled(c: OnnxCall, y: Any, axes: list[Axis], how: How) -> Any:
    """The value for elements outside of the input in the place of what lies there."""
    for axis in axes:
        at = how.places(axis)
        shape = [1] * y.ndim
        shape[axis.place] = len(at)
        outside = (at < 0) | (at > axis.numbers()[0] - 1)
        if outside.any():
            y = c.constant(outside.reshape(shape)).apply("where", how.outside, y)
    return y


def _how(c: OnnxCall) -> How:
    mode = c.attr("mode", "nearest")
    mode = {"linear": "linear", "bilinear": "linear", "cubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"the mode {mode}")
    # Before opset 11 there was one way: each element at its number divided by the scale.
    old = c.opset < 11 or c.node.op_type == "Upsample"
    return How(
        mode,
        "asymmetric" if old else c.attr("coordinate_transformation_mode", "half_pixel"),
        "floor" if old else c.attr("nearest_mode", "round_prefer_floor"),
        c.attr("cubic_coeff_a", -0.75),
        bool(c.attr("exclude_outside", 0)),
        bool(c.attr("antialias", 0)) and mode != "nearest",
        c.attr("extrapolation_value", 0.0),
    )


def _axes(c: OnnxCall, how: How) -> list[Axis]:
    x = c.type(0)
    old = c.opset < 11 or c.node.op_type == "Upsample"
    places = [axis_of(a, x.rank) for a in c.attr("axes") or range(x.rank)]
    count = len(places)
    begins, ends = [0.0] * count, [1.0] * count
    if how.coordinates == "tf_crop_and_resize":
        crop = [float(v) for v in c.known(1).reshape(-1)]
        begins, ends = crop[:count], crop[count:]
    scales_at = 1 if old else 2
    if old and c.attr("scales") is not None:
        scales: list[float] | None = list(c.attr("scales"))
    elif c.has(scales_at) and c.type(scales_at).shape != (0,):
        scales = [_number(v) for v in c.known(scales_at).reshape(-1)]
    else:
        scales = None
    sizes = [x.shape[p] for p in places]
    if scales is not None:
        counts: list[Dim] = [_scaled(s, f) for s, f in zip(sizes, scales, strict=True)]
    else:
        counts = c.sizes(3)
        policy = c.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            counts, scales = _kept(sizes, counts, policy)
        else:
            scales = [_ratio(n, s) for n, s in zip(counts, sizes, strict=True)]
    return [
        Axis(*a) for a in zip(places, sizes, counts, scales, begins, ends, strict=True)
    ]  # fmt: skip


def _number(value: Any) -> float:
    if not isinstance(value, (int, float, np.number)):
        raise Unsupported(f"a scale of {value}")
    # Scales are float32 in the file; what was meant is the short number.
    return float(value)


def _scaled(size: Dim, scale: float) -> Dim:
    if isinstance(size, int):
        return math.floor(size * scale)
    if scale != int(scale):
        raise Unsupported(f"{size} times {scale}")
    return size * int(scale)


def _ratio(count: Dim, size: Dim) -> float:
    if count == size:
        return 1.0
    if isinstance(count, int) and isinstance(size, int):
        return count / size
    quotient = count // size
    if isinstance(quotient, int) and quotient * size == count:
        return float(quotient)
    return math.nan  # the core finds it from the sizes when it runs


def _kept(sizes: list[Dim], counts: list[Dim], policy: str) -> tuple[list[Dim], list[float]]:
    ratios = [_ratio(n, s) for n, s in zip(counts, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    known = [s for s in sizes if isinstance(s, int)]
    if math.isnan(scale) or len(known) < len(sizes):
        raise Unsupported(f"the policy {policy} with sizes that are not known")
    return [math.floor(s * scale + 0.5) for s in known], [scale] * len(sizes)


def _as_core(x: Any, axes: list[Axis], how: How) -> Any:
    """The core's resize, where it is the same; None where it is not."""
    if not 3 <= x.ndim <= 5 or any(a.place < 2 for a in axes):
        return None
    if how.mode != "nearest" and not x.dtype.is_float:
        return None
    if how.mode == "cubic" and how.cubic != SLOPES[how.antialias]:
        return None
    if how.exclude != how.antialias:  # beyond the border nothing counts, but only with antialiasing
        return None
    kind = how.coordinates.removeprefix("pytorch_")
    if kind not in ("half_pixel", *(() if how.antialias else ("align_corners", "asymmetric"))):
        return None
    by_place = {a.place: a for a in axes}
    spatial = [by_place.get(i) for i in range(2, x.ndim)]
    if not all(a is None or _same(a, how, kind) for a in spatial):
        return None
    sizes = [x.shape[i + 2] if a is None else a.count for i, a in enumerate(spatial)]
    scales = [1.0 if a is None else a.scale for a in spatial]
    own = all(a is None or math.isnan(a.scale) or _is_ratio(a) for a in spatial)
    return x.apply(
        "resize", size=sizes, mode=how.mode, coordinates=kind, scales=() if own else scales,
        antialias=how.antialias,
    )  # fmt: skip


def _is_ratio(axis: Axis) -> bool:
    if isinstance(axis.size, int) and isinstance(axis.count, int):
        return axis.count / axis.size == axis.scale
    return True


def _same(axis: Axis, how: How, kind: str) -> bool:
    if isinstance(axis.size, int) and isinstance(axis.count, int):
        found = taps(axis.size, axis.count, how.mode, kind, axis.scale, how.antialias)
        if how.mode == "nearest":
            return bool(np.array_equal(found[0][0], how.indices(axis)))
        matrix = np.zeros((axis.count, axis.size))
        for at, factor in found:
            parts = np.where(at < 0, 0.0, 1.0 if factor is None else factor)
            np.add.at(matrix, (np.arange(axis.count), np.maximum(at, 0)), parts)
        return bool(np.allclose(matrix, how.matrix(axis), atol=1e-9))
    # Sizes that are not known: what holds for all of them.
    if how.coordinates.startswith("pytorch_"):
        return how.mode != "nearest"
    if how.mode != "nearest":
        return True
    whole = axis.scale == int(axis.scale) if not math.isnan(axis.scale) else False
    if kind == "asymmetric":
        return how.nearest == "floor"
    return kind == "half_pixel" and (how.nearest == "round_prefer_ceil" or whole)
