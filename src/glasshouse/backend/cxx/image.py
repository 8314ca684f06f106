"""How a convolution is described to the templates: always with two spatial axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from glasshouse.backend.cxx.words import size_text
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.ir.types import Shape
from glasshouse.lower.kernel.statement import Tile
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
        return shape_text(self._dims)

    @property
    def variables(self) -> dict[str, Dim]:
        """The indices over which templates hand over results, with their extents."""
        return {"pixel": self.batch * self.result[0] * self.result[1], "oc": self.filters}

    @property
    def of_weights(self) -> tuple[Dim, ...]:
        """All numbers as far as weights go: packing them must not depend on what a run brings."""
        return replace(self, batch=1, size=(1, 1), result=(1, 1))._dims

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
        rows = (w.kernel[1], w.stride[1], self.padded_size[1], self.size[1])
        whole = all(n * channels % per == 0 for n in rows)
        height = w.kernel[0]
        short = isinstance(height, int) and height <= 64
        return self.groups == 1 and w.dilation[1] == 1 and short and whole

    @property
    def padded(self) -> bool:
        """Whether the window may reach beyond the image."""
        return any(n != 0 for n in (*self.window.begins, *self.window.ends))

    def padded_bytes(self, width_of_unit: int = 4) -> Dim:
        """At most what the zero-padded image takes; its elements have 4 bytes, or 8."""
        height, width = self.padded_size
        return self.batch * height * width * self.channels * width_of_unit + 64

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


def gradient_image(attrs: Mapping[str, Any], image: Shape, weights: Shape, result: Shape) -> Image:
    """A convolution from `image` to `result`, or its gradient the other way round."""
    window, size, out = image_window(attrs, weights[2:], image, result)
    return Image(image[0], image[1], size, result[1], out, window, attrs["groups"])


def turned_image(image: Image) -> Image | None:
    """The convolution that computes the gradient by the input, from that of the result.

    There is one when windows move by single steps; its taps come from last to first.
    """
    w = image.window
    begins = tuple((k - 1) * d - p for k, d, p in zip(w.kernel, w.dilation, w.begins, strict=True))
    known = tuple(b for b in begins if isinstance(b, int) and b >= 0)
    if w.stride != (1, 1) or len(known) != 2:
        return None
    window = replace(w, begins=known, ends=known)
    sizes = (image.batch, image.filters, image.result, image.channels, image.size)
    return Image(*sizes, window, image.groups)


def adjoint(image: Image) -> Image | None:
    """The same where there is one group: strides tell where its weights lie."""
    return turned_image(image) if image.groups == 1 else None


def image_of(tile: Tile) -> Image:
    """The convolution that a tile computes; a transposed one is that with turned weights."""
    x, w = (o.shape for o in tile.operands)
    attrs = dict(tile.attrs)
    if tile.op == "conv":
        return gradient_image(attrs, x, w, tile.shape)
    turned = turned_image(gradient_image(attrs, tile.shape, w, x))
    assert turned is not None, "lowering asked before"
    return turned


def conv_strides(w: Shape) -> tuple[Dim, ...]:
    """Where weights O I spatial... begin, and their strides by o, i, kh, kw."""
    taps = product(w[2:])
    return 0, w[1] * taps, taps, w[-1], 1


def adjoint_strides(w: Shape) -> tuple[Dim, ...]:
    """The same as the adjoint convolution reads them: by i, o, -kh, -kw, from the last tap on."""
    taps = product(w[2:])
    return taps - 1, taps, w[1] * taps, -w[-1], -1


def shape_text(dims: Iterable[Dim]) -> str:
    """The numbers of an `Image` as `gh::ConvShape`."""
    return f"gh::ConvShape{{{', '.join(size_text(d) for d in dims)}}}"


def strides_text(begin: Dim, *steps: Dim) -> str:
    """`source`, the weights, from where it is read, and its strides."""
    texts = [f"-{-d}" if isinstance(d, int) and d < 0 else size_text(d) for d in steps]
    source = "source" if begin == 0 and steps[-1] == 1 else f"source + {size_text(begin)}"
    return ", ".join([source, *texts])
