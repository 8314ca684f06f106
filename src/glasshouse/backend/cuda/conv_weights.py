"""Weights of convolutions as kernels read them: the channels of a tap together."""

from __future__ import annotations

from glasshouse.backend.cuda.routine import thread_each
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, product
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Tile

TAPS = "taps"
"""The form of weights in which the channels of a tap lie together: [filters, taps, wide]."""


def turned_weights(out: CudaText, tile: Tile, wide: Dim | None = None) -> str:
    """Weights that are not known before are brought into the form in every run; `wide`: with zeros
    behind their channels up to so many."""
    w = tile.operands[1]
    wide = w.shape[1] if wide is None else wide
    taps = product(w.shape[2:])
    total = w.shape[0] * wide * taps
    name = out.scratch(tile, "taps")
    with out.function(((total + 255) // 256, 1, 1), 256):
        thread_each(out, total)
        out.add(f"const int64_t c = e_ % {size_text(wide)}, rest = e_ / {size_text(wide)};")
        out.add(f"const int64_t tap = rest % {size_text(taps)}, o = rest / {size_text(taps)};")
        place = f"(o * {size_text(w.shape[1])} + c) * {size_text(taps)} + tap"
        inside, zero = f"c < {size_text(w.shape[1])}", f"{C_TYPE[w.element.dtype]}{{}}"
        out.add(f"{name}[e_] = {inside} ? {view(w).buffer}[{place}] : {zero};", tile.ops)
    return name
