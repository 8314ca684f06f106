"""The pooling and resizing layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from glasshouse.nn import functional as F
from glasshouse.nn.module import Module

Ints = int | Sequence[int]


class _MaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, x: Any) -> Any:
        return F.max_pool(
            x, self.rank, self.kernel_size, self.stride, self.padding, self.dilation,
            self.ceil_mode,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{text}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """The greatest element of each window along one axis."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The greatest element of each window along two axes."""

    rank = 2


class MaxPool3d(_MaxPool):
    """The greatest element of each window along three axes."""

    rank = 3


class _AvgPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Any) -> Any:
        return F.avg_pool(
            x, self.rank, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window along one axis."""

    rank = 1


class AvgPool2d(_AvgPool):
    """The mean of each window along two axes."""

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window along three axes."""

    rank = 3


class _Adaptive(Module):
    rank: ClassVar[int]
    op: ClassVar[str]

    def __init__(self, output_size: Ints) -> None:
        self.output_size = output_size

    def forward(self, x: Any) -> Any:
        given = self.output_size
        size = (given,) * self.rank if isinstance(given, int) else tuple(given)
        return x.apply(self.op, size=size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means of windows chosen so that the output has `output_size` along one axis."""

    rank, op = 1, "adaptive_avg_pool"


class AdaptiveAvgPool2d(_Adaptive):
    """Means of windows chosen so that the output has `output_size` along two axes."""

    rank, op = 2, "adaptive_avg_pool"


class AdaptiveMaxPool2d(_Adaptive):
    """Greatest elements of windows chosen so that the output has `output_size`."""

    rank, op = 2, "adaptive_max_pool"


class Upsample(Module):
    """Spatial axes resized."""

    def __init__(
        self,
        size: Ints | None = None,
        scale_factor: float | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.size, self.scale_factor = size, scale_factor
        self.mode, self.align_corners = mode, align_corners

    def forward(self, x: Any) -> Any:
        return F.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        what = f"size={self.size}" if self.size else f"scale_factor={self.scale_factor}"
        return f"{what}, mode={self.mode!r}"
