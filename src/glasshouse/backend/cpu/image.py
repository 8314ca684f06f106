"""Decides how a convolution is described to the templates: always with two spatial axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, bounds, product
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

    @property
    def _dims(self) -> tuple[Dim, ...]:
        """All numbers, in the order of the C++ struct."""
        w = self.window
        sizes = (self.batch, *self.size, self.channels, *self.result, self.filters)
        return (*sizes, *w.kernel, *w.stride, *w.begins, *w.dilation, self.groups)

    def text(self) -> str:
        """The C++ value."""
        return f"gh::ConvShape{{{', '.join(size_text(d) for d in self._dims)}}}"

    @property
    def variables(self) -> dict[str, Dim]:
        """The indices over which templates hand over results, with their extents."""
        return {"pixel": self.batch * self.result[0] * self.result[1], "oc": self.filters}

    def weights_text(self) -> str:
        """The C++ value as far as weights go: packing them must not depend on what a run brings."""
        return replace(self, batch=1, size=(1, 1), result=(1, 1)).text()

    @property
    def smallest(self) -> Image:
        """With the smallest batch: its measurements stand for every batch."""
        return replace(self, batch=max(int(bounds(self.batch)[0]), 1))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The C++ value as numbers, for shapes that are known."""
        return tuple(d for d in self._dims if isinstance(d, int))

    @property
    def is_static(self) -> bool:
        return len(self.numbers) == len(self._dims)

    @property
    def is_pointwise(self) -> bool:
        """A window of 1x1 with steps of 1: a plain product."""
        w = self.window
        return w.kernel == w.stride == (1, 1) and not self.padded

    @property
    def is_depthwise(self) -> bool:
        """Every channel by itself."""
        return self.groups == self.channels == self.filters and self.groups != 1

    def can_be_direct(self, per: int) -> bool:
        """`gh::conv_can_be_direct`, with `per` elements to a unit of K; for known shapes."""
        w, channels = self.window, self.channels
        lies = (w.kernel[1], w.stride[1], self.padded_size[1], self.size[1])
        whole = all(n * channels % per == 0 for n in lies)
        height = w.kernel[0]
        short = isinstance(height, int) and height <= 64
        return self.groups == 1 and w.dilation[1] == 1 and short and whole

    @property
    def padded(self) -> bool:
        """Whether the window may reach beyond the image."""
        return any(n != 0 for n in (*self.window.begins, *self.window.ends))

    @property
    def padded_bytes(self) -> Dim:
        """At most what the zero-padded image takes."""
        height, width = self.padded_size
        return self.batch * height * width * self.channels * 4 + 64

    @property
    def padded_size(self) -> tuple[Dim, Dim]:
        """As far as the last result's last tap."""
        w = self.window
        sizes = [
            (n - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1
            for i, n in enumerate(self.result)
        ]
        return sizes[0], sizes[1]


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


def adjoint(image: Image) -> Image | None:
    """The convolution that computes the gradient by the input, from that of the result.

    There is one when windows move by single steps; its taps come from last to first.
    """
    w = image.window
    begins = tuple((k - 1) * d - p for k, d, p in zip(w.kernel, w.dilation, w.begins, strict=True))
    known = tuple(b for b in begins if isinstance(b, int) and b >= 0)
    if w.stride != (1, 1) or image.groups != 1 or len(known) != 2:
        return None
    window = replace(w, begins=known, ends=known)
    return Image(image.batch, image.filters, image.result, image.channels, image.size, window, 1)


def conv_strides(w: Value) -> str:
    """Strides of weights O I spatial..., as the templates take them: by o, i, kh, kw."""
    taps = product(w.type.shape[2:])
    row = w.type.shape[-1]
    return ", ".join(size_text(d) for d in (w.type.shape[1] * taps, taps, row, 1))


def adjoint_strides(w: Value) -> str:
    """`source` and its strides as the adjoint convolution reads it: by i, o, -kh, -kw."""
    taps = product(w.type.shape[2:])
    row = w.type.shape[-1]
    sizes = (taps, w.type.shape[1] * taps, row)
    by_input, by_output, by_row = (size_text(d) for d in sizes)
    return f"source + {size_text(taps - 1)}, {by_input}, {by_output}, -{by_row}, -1"
