"""Which convolutions suit Winograd's transforms: of float32 (`winograd.h`), of bytes in 16 bits."""

from __future__ import annotations

from glasshouse.backend.cpu.processor import has_tiles
from glasshouse.backend.cxx.image import Image

WINOGRAD_FROM = 32
"""Channels from which transforming tiles is cheaper than the multiplications that it saves."""
WINOGRAD_PIXELS = 64
"""Of the result, from which transforming weights in every run is cheaper than what it saves."""
WINOGRAD_TILES = 12
"""Sets of 4 x 4 results from which the transformed weights of bytes are read often enough: 14 x 14
results take two thirds of the time of the product over taps, 7 x 7 up to twice as long."""


def suits_winograd(image: Image, known: bool) -> bool:
    """3x3 with steps of 1, and enough channels. Its products are float32: bf16 loses two digits.

    Weights that are not known before are transformed in every run, into four times their size or
    more: that pays only where many pixels share them.
    """
    w = image.window
    plain = w.kernel == (3, 3) and w.stride == w.dilation == (1, 1) and image.groups == 1
    many = all(isinstance(c, int) and c >= WINOGRAD_FROM for c in (image.channels, image.filters))
    pixels = image.batch * image.result[0] * image.result[1]
    shared = known or (isinstance(pixels, int) and pixels >= WINOGRAD_PIXELS)
    return plain and many and shared


def bytes_suit_winograd(image: Image) -> bool:
    """Whether F(4, 3) in 16 bits is faster than the product of bytes over taps.

    It multiplies half as fast and four times less, and reads eight times the weights: enough tiles
    must share them. AMX multiplies bytes eight times as fast as vectors do.
    """
    height, width = image.result
    if not (isinstance(image.batch, int) and isinstance(height, int) and isinstance(width, int)):
        return False
    tiles = image.batch * height * width // 16
    return tiles >= WINOGRAD_TILES and suits_winograd(image, known=True) and not has_tiles()
