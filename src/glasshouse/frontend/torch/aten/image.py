"""How ATen's convolutions, pooling and resizing are spelled."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, is_static, listed
from glasshouse.ir.dim import SymDim, product
from glasshouse.ops import composite
from glasshouse.ops.shape import reshaped
from glasshouse.ops.window import window_of


# ------------------------------------------------------------------------------------ convolutions
def _conv(rank: int) -> Any:
    def spelling(
        x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        return composite.conv(x, w, bias, stride, padding, dilation, groups, rank=rank)

    return spelling


def _transposed(rank: int) -> Any:
    def spelling(
        x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Any:  # fmt: skip
        return composite.conv_transpose(
            x, w, bias, stride, padding, output_padding, groups, dilation, rank=rank
        )

    return spelling


for _rank in (1, 2, 3):
    aten(f"conv{_rank}d")(_conv(_rank))
    aten(f"conv_transpose{_rank}d")(_transposed(_rank))


@aten("convolution", "_convolution", "convolution_overrideable")
def convolution(
    x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, *_: Any,
) -> Any:  # fmt: skip
    if transposed:
        return composite.conv_transpose(
            x, w, bias, stride, padding, output_padding, groups, dilation
        )
    return composite.conv(x, w, bias, stride, padding, dilation, groups)


@aten("_convolution_mode")
def convolution_mode(
    x: Any, w: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int
) -> Any:
    return composite.conv(x, w, bias, stride, padding, dilation, groups)


# ----------------------------------------------------------------------------------------- pooling
def _stride(stride: Any, rank: int) -> Any:
    return None if stride is None or stride == [] else listed(stride, rank)


def _max_pool(rank: int) -> Any:
    def spelling(
        x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        return composite.max_pool(
            x, listed(kernel, rank), _stride(stride, rank), listed(padding, rank),
            listed(dilation, rank), ceil_mode, rank,
        )  # fmt: skip

    return spelling


def _with_indices(rank: int) -> Any:
    pool = _max_pool(rank)

    def spelling(
        x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        batch = x if x.ndim == rank + 2 else reshaped(x, (1, *x.shape))
        at = batch.apply(
            "max_pool_indices", kernel=listed(kernel, rank), stride=_stride(stride, rank) or [],
            padding=listed(padding, rank), dilation=listed(dilation, rank), ceil_mode=ceil_mode,
        )  # fmt: skip
        at = at if batch is x else reshaped(at, at.shape[1:])
        return pool(x, kernel, stride, padding, dilation, ceil_mode), at

    return spelling


def _avg_pool(rank: int) -> Any:
    def spelling(
        x: Any, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor: int | None = None,
    ) -> Any:  # fmt: skip
        kernel, padding = listed(kernel, rank), listed(padding, rank)
        steps = _stride(stride, rank)
        if divisor is not None and ceil_mode:
            x, padding, ceil_mode = _completed(x, kernel, steps or kernel, padding), 0, False
        return composite.avg_pool(
            x, kernel, steps, padding, ceil_mode, count_include_pad, divisor, rank
        )

    return spelling


def _completed(x: Any, kernel: Any, stride: Any, padding: Any) -> Any:
    """x with its borders, and with as much behind it as the last window needs."""
    sizes = x.shape[x.ndim - len(kernel) :]
    if not is_static(*sizes):
        raise Unsupported("windows beyond the end of an axis without a fixed size")
    borders: list[int] = []
    for size, k, s, p in zip(sizes, kernel, stride, padding, strict=True):
        count = -((size + 2 * p - k) // -s) + 1
        count -= (count - 1) * s >= size + p  # a window must begin inside, or in the border before
        borders = [p, max((count - 1) * s + k - size - p, 0), *borders]
    return composite.pad_last(x, borders)


def _sizes(size: Any, rank: int) -> list[Any]:
    return listed(size, rank)


def _adaptive_avg(rank: int) -> Any:
    return lambda x, size: composite.adaptive_avg_pool(x, _sizes(size, rank), rank)


def _adaptive_max(rank: int) -> Any:
    def spelling(x: Any, size: Any) -> Any:
        batch = x if x.ndim == rank + 2 else reshaped(x, (1, *x.shape))
        at = batch.apply("adaptive_max_pool_indices", size=_sizes(size, rank))
        at = at if batch is x else reshaped(at, at.shape[1:])
        return composite.adaptive_max_pool(x, _sizes(size, rank), rank), at

    return spelling


for _rank in (1, 2, 3):
    aten(f"max_pool{_rank}d")(_max_pool(_rank))
    aten(f"max_pool{_rank}d_with_indices")(_with_indices(_rank))
    aten(f"avg_pool{_rank}d")(_avg_pool(_rank))
    aten(f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d")(_adaptive_avg(_rank))
    aten(f"adaptive_max_pool{_rank}d")(_adaptive_max(_rank))


# ---------------------------------------------------------------------------------------- resizing
def _scaled(x: Any, rank: int, size: Any, scales: Any) -> tuple[list[Any], list[float]]:
    """Sizes of the output, and the scales where they and not the sizes say the step."""
    given = [s for s in (scales or []) if s is not None]
    if size is None:
        size = [
            d * int(s) if float(s).is_integer() else _floor(d, s)
            for d, s in zip(x.shape[-rank:], given, strict=True)
        ]
    exact = all(w == d * s for w, d, s in zip(size, x.shape[-rank:], given, strict=False)
                if not isinstance(d, SymDim))  # fmt: skip
    return list(size), [] if exact else [float(s) for s in given]


def _floor(size: Any, scale: float) -> int:
    if isinstance(size, SymDim):
        raise Unsupported(f"{scale} times the size {size} is no size")
    whole: int = math.floor(size * scale)
    return whole


def _upsample(
    rank: int, mode: str, coordinates: str, has_corners: bool, antialias: bool = False
) -> Any:
    def spelling(x: Any, size: Any, *rest: Any) -> Any:
        corners = has_corners and bool(rest[0])
        scales: Any = rest[1:] if has_corners else rest
        if len(scales) == 1 and isinstance(scales[0], (list, tuple)):  # the `vec` overloads
            scales = scales[0]
        sizes, factors = _scaled(x, rank, size, None if scales == (None,) else scales)
        return x.apply(
            "resize", size=sizes, mode=mode, scales=[] if corners else factors,
            coordinates="align_corners" if corners else coordinates, antialias=antialias,
        )  # fmt: skip

    return spelling


for _rank, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    aten(f"upsample_nearest{_rank}d")(_upsample(_rank, "nearest", "asymmetric", False))
    aten(f"_upsample_nearest_exact{_rank}d")(_upsample(_rank, "nearest", "half_pixel", False))
    aten(f"upsample_{_linear}{_rank}d")(_upsample(_rank, "linear", "half_pixel", True))
aten("upsample_bicubic2d")(_upsample(2, "cubic", "half_pixel", True))
aten("_upsample_bilinear2d_aa")(_upsample(2, "linear", "half_pixel", True, antialias=True))
aten("_upsample_bicubic2d_aa")(_upsample(2, "cubic", "half_pixel", True, antialias=True))


def _fixed(size: Any) -> int:
    if isinstance(size, SymDim):
        raise Unsupported(f"the size {size} is not fixed")
    return int(size)


# --------------------------------------------------------------------------------- windows as rows
@aten("im2col")
def im2col(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """[N, C, H, W] to [N, C * kh * kw, windows]."""
    if x.ndim != 4 or not is_static(*x.shape[1:]):
        raise Unsupported("unfold of an image without a batch or fixed sizes")
    batch, channels, *_ = x.shape
    window = window_of(kernel, stride, padding, dilation)
    out = window.outputs(x.shape[2:])
    padded = composite.pad_last(x, [padding[1], padding[1], padding[0], padding[0]])
    near = padded
    for i in range(2):
        near = near.apply(
            "windows", axis=2 + i, size=kernel[i], step=stride[i], dilation=dilation[i]
        )
    # [N, C, oh, ow, kh, kw]
    order = near.apply("permute", axes=[0, 1, 4, 5, 2, 3])
    return reshaped(order, (batch, channels * kernel[0] * kernel[1], product(out)))
