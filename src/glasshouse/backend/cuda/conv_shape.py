"""A convolution as `gh::ConvShape` describes it to kernels."""

from __future__ import annotations

from glasshouse.backend.cxx.image import Image
from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim


def shape_text(image: Image, group: Dim | None = None) -> str:
    """`gh::ConvShape` of an image; `group`: the channels of one, all if there is no other."""
    group = image.channels if group is None else group
    w = image.window
    numbers = (
        image.batch, *image.size, image.channels, *image.result, *w.kernel, *w.stride, *w.begins,
        *w.dilation, group,
    )  # fmt: skip
    return f"gh::ConvShape{{{', '.join(f'(int){size_text(d)}' for d in numbers)}}}"
