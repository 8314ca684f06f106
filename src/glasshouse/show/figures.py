"""How figures are worded in the terminal: three significant digits, the unit that fits."""

from __future__ import annotations

import math
from collections.abc import Sequence


def three(value: float) -> str:
    """1234.5 as "1234", 12.345 as "12.3", 0.12345 as "0.123"."""
    size = abs(value)
    if size == 0:
        return "0"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{digits}f}"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    for size, unit in units:
        if abs(value) >= size * 0.9995:
            return f"{three(value / size)} {unit}"
    size, unit = units[-1]
    return f"{three(value / size)} {unit}"


def seconds(value: float) -> str:
    """A time in the unit that gives 1 to 999."""
    if not math.isfinite(value):
        return "-"
    return _scaled(value, ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))


def size(value: float) -> str:
    """Bytes."""
    return _scaled(value, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def short(value: float) -> str:
    """A large count in little room."""
    if abs(value) < 1000:
        return f"{value:g}" if value == int(value) else three(value)
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale * 0.9995:
            return three(value / scale) + unit
    return three(value)


def counted(number: int, what: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def percent(share: float) -> str:
    """A share of a whole."""
    if not math.isfinite(share):
        return "-"
    return f"{share * 100:.0f} %" if share >= 0.0995 or share == 0 else f"{share * 100:.1f} %"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "  ") -> str:
    """Columns as wide as they need; those in `right` end flush. The first row is the heading."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            c.rjust(w) if i in right else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def cut(text: str, most: int) -> str:
    """Long texts lose their middle: names differ at their ends."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = most * 2 // 5
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def cut_left(text: str, most: int) -> str:
    """Paths lose their beginning: what a person looks for stands at their end."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"
