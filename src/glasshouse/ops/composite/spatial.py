"""How pooling and resizing are called by PyTorch's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch, Unsupported
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ops.shape import reshaped

_MODES = {
    "nearest": ("nearest", "asymmetric"),
    "nearest-exact": ("nearest", "half_pixel"),
    "linear": ("linear", "half_pixel"),
    "bilinear": ("linear", "half_pixel"),
    "trilinear": ("linear", "half_pixel"),
    "bicubic": ("cubic", "half_pixel"),
}


def interpolate(
    x: Any, size: Dim | Sequence[Dim] | None = None,
    scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """The spatial axes resized to `size`, or by `scale_factor`."""
    if mode not in _MODES:
        raise Unsupported(
            f"interpolate: there is no mode {mode!r}",
            x.builder.where(),
            f"there are {list(_MODES)}",
        )
    if (size is None) == (scale_factor is None):
        raise TypeMismatch("interpolate: give either size or scale_factor", x.builder.where())
    rank = x.ndim - 2
    kind, coordinates = _MODES[mode]
    if align_corners:
        if kind == "nearest":
            raise TypeMismatch("interpolate: nearest has no corners to align", x.builder.where())
        coordinates = "align_corners"
    if size is not None:
        sizes = [size] * rank if isinstance(size, (int, SymDim)) else list(size)
        return x.apply("resize", size=sizes, mode=kind, coordinates=coordinates)
    assert scale_factor is not None  # checked above
    given = [scale_factor] * rank if isinstance(scale_factor, (int, float)) else list(scale_factor)
    wanted = [_scaled(x, d, f) for d, f in zip(x.shape[2:], given, strict=True)]
    exact = all(w == d * f for w, d, f in zip(wanted, x.shape[2:], given, strict=True) if _whole(f))
    scales = () if exact and all(map(_whole, given)) else [float(f) for f in given]
    return x.apply("resize", size=wanted, mode=kind, coordinates=coordinates, scales=scales)


def _whole(factor: float) -> bool:
    return float(factor).is_integer()


def _scaled(x: Any, size: Dim, factor: float) -> Dim:
    if _whole(factor):
        return size * int(factor)
    if isinstance(size, SymDim):
        raise ShapeError(
            f"interpolate({x.type}): {factor} times the size {size} is no size", x.builder.where()
        )
    return math.floor(size * factor)


def _batched(x: Any, rank: int, f: Callable[[Any], Any]) -> Any:
    """`f` on an input that may lack its batch axis."""
    if x.ndim == rank + 2:
        return f(x)
    y = f(reshaped(x, (1, *x.shape)))
    return reshaped(y, y.shape[1:])


def _ints(given: int | Sequence[int], rank: int) -> list[int]:
    return list(given) if isinstance(given, Sequence) else [int(given)] * rank


def max_pool(
    x: Any, kernel: int | Sequence[int], stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
    rank: int = 2,
) -> Any:  # fmt: skip
    """The maximum of windows over `rank` spatial axes."""
    attrs = _window(rank, kernel, stride, padding, ceil_mode)
    return _batched(x, rank, lambda v: v.apply("max_pool", dilation=_ints(dilation, rank), **attrs))


def avg_pool(
    x: Any, kernel: int | Sequence[int], stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor: int | None = None, rank: int = 2,
) -> Any:  # fmt: skip
    """The mean of windows over `rank` spatial axes; `divisor` takes the place of their counts."""
    attrs = _window(rank, kernel, stride, padding, ceil_mode)
    if divisor is None:
        return _batched(
            x, rank, lambda v: v.apply("avg_pool", count_include_pad=count_include_pad, **attrs)
        )
    if ceil_mode:
        raise Unsupported("avg_pool: a divisor together with ceil_mode", x.builder.where())
    # Padding counted, every mean is over the same number of elements.
    factor = math.prod(attrs["kernel"]) / divisor
    return _batched(x, rank, lambda v: v.apply("avg_pool", **attrs)) * factor


def _window(rank: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    return {
        "kernel": _ints(kernel, rank),
        "stride": [] if stride is None else _ints(stride, rank),
        "padding": _ints(padding, rank),
        "ceil_mode": ceil_mode,
    }


def adaptive_avg_pool(x: Any, size: Any, rank: int = 2) -> Any:
    """Means that give the spatial axes these sizes; None keeps one. Size 1 is a plain mean."""
    sizes = _kept(x, size, rank)
    if all(s == 1 for s in sizes):
        return x.apply("mean", axes=list(range(x.ndim - rank, x.ndim)), keepdims=True)
    return _batched(x, rank, lambda v: v.apply("adaptive_avg_pool", size=sizes))


def adaptive_max_pool(x: Any, size: Any, rank: int = 2) -> Any:
    """Maxima that give the spatial axes these sizes; None keeps one. Size 1 is a plain maximum."""
    sizes = _kept(x, size, rank)
    if all(s == 1 for s in sizes):
        return x.apply("max", axes=list(range(x.ndim - rank, x.ndim)), keepdims=True)
    return _batched(x, rank, lambda v: v.apply("adaptive_max_pool", size=sizes))


def _kept(x: Any, size: Any, rank: int) -> list[Dim]:
    given = [size] * rank if size is None or isinstance(size, (int, SymDim)) else list(size)
    spatial = x.shape[x.ndim - rank :]
    return [have if s is None else s for s, have in zip(given, spatial, strict=True)]
