"""The convolutional layers, one to three spatial axes, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from glasshouse.errors import ShapeError, Unsupported
from glasshouse.nn import init
from glasshouse.nn.module import Module
from glasshouse.nn.parameter import Parameter
from glasshouse.ops.composite import conv, conv_transpose, pad_last

Ints = int | Sequence[int]


def spread(given: Ints, rank: int) -> tuple[int, ...]:
    """One number for each spatial axis."""
    out = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(out) != rank:
        raise ShapeError(f"{list(out)} does not name {rank} sizes")
    return out


class _Convolution(Module):
    """What convolutions and their transposes have in common: channels, window, weight, bias."""

    rank: ClassVar[int]

    def _set_up(
        self,
        channels: tuple[int, int],
        weight: tuple[int, int],
        kernel_size: Ints,
        stride: Ints,
        dilation: Ints,
        groups: int,
        bias: bool,
    ) -> None:
        """`weight` is the size of the weight before that of the kernel, not yet cut into groups
        along its second axis."""
        if groups < 1 or any(count % groups for count in channels):
            raise ShapeError(
                f"{groups} groups do not divide {channels[0]} and {channels[1]} channels"
            )
        self.in_channels, self.out_channels = channels
        self.kernel_size = spread(kernel_size, self.rank)
        self.stride = spread(stride, self.rank)
        self.dilation = spread(dilation, self.rank)
        self.groups = groups
        sizes = (weight[0], weight[1] // groups, *self.kernel_size)
        self.weight = Parameter(init.linear_weight(sizes))
        self.register_parameter(
            "bias", Parameter(init.linear_bias(self.out_channels, sizes)) if bias else None
        )


class _Conv(_Convolution):
    repeats = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        self.padding: str | tuple[int, ...] = (
            padding if isinstance(padding, str) else spread(padding, self.rank)
        )
        self.padding_mode = padding_mode
        if padding_mode != "zeros" and isinstance(self.padding, str):
            raise Unsupported(f"padding {padding!r} with padding_mode {padding_mode!r}")
        self._set_up(
            (in_channels, out_channels), (out_channels, in_channels), kernel_size, stride,
            dilation, groups, bias,
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros" and not isinstance(padding, str):
            around = [size for size in reversed(padding) for _ in range(2)]
            x, padding = pad_last(x, around, self.padding_mode), (0,) * self.rank
        return conv(
            x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups,
            rank=self.rank,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        if self.padding != (0,) * self.rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + ("" if self.bias is not None else ", bias=False")


class Conv1d(_Conv):
    """Over [batch, channels, length]."""

    rank = 1


class Conv2d(_Conv):
    """Over [batch, channels, height, width]."""

    rank = 2


class Conv3d(_Conv):
    """Over [batch, channels, depth, height, width]."""

    rank = 3


class _ConvTranspose(_Convolution):
    repeats = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
    ) -> None:
        self.padding = spread(padding, self.rank)
        self.output_padding = spread(output_padding, self.rank)
        self._set_up(
            (in_channels, out_channels), (in_channels, out_channels), kernel_size, stride,
            dilation, groups, bias,
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return conv_transpose(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
            self.dilation, rank=self.rank,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        return f"{text}, stride={self.stride}"


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`."""

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`."""

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d`."""

    rank = 3
