"""Decides how a convolution is described to the templates: always with two spatial axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.graph import Value
from glasshouse.ir.types import Shape
from glasshouse.lower.cxx import size_text
from glasshouse.ops.window import Window, window_of


@dataclass(frozen=True)
class Image:
    """A convolution as `gh::ConvShape` describes it; in one dimension the height is 1."""

    batch: Dim
    channels: Dim
    size: tuple[Dim, Dim]
    filters: Dim
    result: tuple[Dim, Dim]
    window: Window
    groups: int

    def text(self) -> str:
        """The C++ value."""
        w = self.window
        sizes = (self.batch, *self.size, self.channels, *self.result, self.filters)
        window = (*w.kernel, *w.stride, *w.begins, *w.dilation)
        longs = ", ".join(size_text(d) for d in sizes)
        ints = ", ".join(size_text(d) for d in window)
        return f"gh::ConvShape{{{longs}, {ints}, {self.groups}}}"

    @property
    def padded(self) -> bool:
        """Whether the window may reach beyond the image."""
        return any(n != 0 for n in (*self.window.begins, *self.window.ends))

    @property
    def padded_bytes(self) -> Dim:
        """At most what the zero-padded image takes."""
        w = self.window
        sizes = [
            (n - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1
            for i, n in enumerate(self.result)
        ]
        return self.batch * sizes[0] * sizes[1] * self.channels * 4 + 64


def image_window(
    attrs: Mapping[str, Any], kernel: Shape, image: Shape, result: Shape
) -> tuple[Window, tuple[Dim, Dim], tuple[Dim, Dim]]:
    """Window, image size and result size with two spatial axes each; more have no template."""
    spatial = len(kernel)
    if spatial > 2:
        raise Unsupported(f"no convolution over {spatial} spatial axes")
    window = window_of(kernel, attrs["stride"], attrs["padding"], attrs["dilation"])
    lead, zero = (1,) * (2 - spatial), (0,) * (2 - spatial)
    window = Window(
        (*lead, *window.kernel), (*lead, *window.stride), (*zero, *window.begins),
        (*zero, *window.ends), (*lead, *window.dilation),
    )  # fmt: skip
    sizes = [(*lead, *shape[2:]) for shape in (image, result)]
    return window, (sizes[0][0], sizes[0][1]), (sizes[1][0], sizes[1][1])


def conv_strides(w: Value) -> str:
    """Strides of weights O I spatial..., as the templates take them: by o, i, kh, kw."""
    taps = product(w.type.shape[2:])
    row = w.type.shape[-1]
    return ", ".join(size_text(d) for d in (w.type.shape[1] * taps, taps, row, 1))
