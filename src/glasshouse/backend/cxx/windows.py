"""How windows over three spatial axes are written in generated C++."""

from __future__ import annotations

from collections.abc import Sequence

from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim
from glasshouse.ops.window import Window


def windows_text(size: Sequence[Dim], window: Window, count_pad: bool = True) -> str:
    """A window as `gh::Windows`."""
    numbers = [
        row(three(part, fill), "(int)")
        for part, fill in (
            (window.kernel, 1), (window.stride, 1), (window.begins, 0), (window.ends, 0),
            (window.dilation, 1),
        )
    ]  # fmt: skip
    counts = "true" if count_pad else "false"
    return f"gh::Windows{{{row(size)}, {', '.join(numbers)}, {counts}}}"


def three(sizes: Sequence[Dim], fill: int) -> tuple[Dim, ...]:
    """Three spatial axes: leading ones where there are fewer."""
    return (*(fill,) * (3 - len(sizes)), *sizes)


def row(sizes: Sequence[Dim], cast: str = "(long)") -> str:
    return "{" + ", ".join(f"{cast}({size_text(d)})" for d in sizes) + "}"
